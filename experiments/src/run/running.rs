//! A run on a thread of its own. Its owner waits for it, and can stop it.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::plan::Plan;
use super::report::Report;
use crate::experiment::RunError;

/// A run under way. Dropping it stops the run, and waits until its thread has ended.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    result: Receiver<Result<Report, RunError>>,
    thread: Option<JoinHandle<()>>,
}

impl Plan {
    /// Begins the run on a thread of its own.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub fn start(self) -> io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, result) = channel();
        let thread = Builder::new().name(self.experiment.name.to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                // The flag orders nothing else, so relaxed accesses do.
                let result = self.run_while(|_| !stop.load(Ordering::Relaxed));
                // An owner that has gone needs no result.
                let _ = sender.send(result);
            }
        })?;
        Ok(Running { stop, result, thread: Some(thread) })
    }
}

impl Running {
    /// Waits for the result, at most so long. `None`: the run goes on, or its result was taken before.
    pub fn wait(&mut self, most: Duration) -> Option<Result<Report, RunError>> {
        match self.result.recv_timeout(most) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                let panic = self.thread.take()?.join().err()?;
                Some(Err(RunError::Panicked(message(panic.as_ref()))))
            }
        }
    }

    /// Stops the run soon: a machine that is being built is built first. [`wait`](Self::wait) then gives
    /// [`RunError::Stopped`], unless the run ended before.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported by the hook.
            let _ = thread.join();
        }
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::{builtin, Latency, Machine};

    use super::*;
    use crate::experiment::Experiment;

    fn plan() -> Plan {
        let experiment = Experiment::find("migrate").expect("an experiment");
        let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
        let machine = machine.with_cpus(2).expect("allowed");
        Plan { scale: 0.0001, ..Plan::new(experiment, machine) }
    }

    fn result(running: &mut Running) -> Result<Report, RunError> {
        loop {
            if let Some(result) = running.wait(Duration::from_secs(1)) {
                return result;
            }
        }
    }

    #[test]
    fn a_run_on_a_thread_gives_the_same_figures() {
        let expected = plan().run(|_| ()).expect("a run");
        let ran = result(&mut plan().start().expect("a thread")).expect("a run");
        assert_eq!(Report { wall_s: 0.0, cpu_s: 0.0, ..ran }, Report { wall_s: 0.0, cpu_s: 0.0, ..expected });
    }

    #[test]
    fn a_run_that_is_stopped_has_no_result() {
        let whole = Plan { scale: 1.0, ..plan() };
        let mut running = whole.clone().start().expect("a thread");
        running.stop();
        assert!(matches!(result(&mut running), Err(RunError::Stopped)));
        let mut calls = 0;
        let stopped = whole.run_while(|_| {
            calls += 1;
            calls < 3
        });
        assert!(matches!(stopped, Err(RunError::Stopped)));
        assert_eq!(calls, 3);
    }

    #[test]
    fn a_panic_is_the_result_of_its_run() {
        // The latencies of its second CPU are missing.
        let bad = Plan { machine: Machine { latency: Latency::uniform(1, 0), ..plan().machine }, ..plan() };
        let mut running = bad.start().expect("a thread");
        assert!(matches!(result(&mut running), Err(RunError::Panicked(message)) if !message.is_empty()));
        assert!(running.wait(Duration::ZERO).is_none());
    }
}
