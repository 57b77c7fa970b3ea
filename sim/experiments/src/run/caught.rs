//! Panics as errors: a bug of the simulator is the failure of its run alone.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::plan::Plan;
use super::report::Report;
use crate::experiment::RunError;

/// Does the work. State that it shares with other work must bear a panic at any place.
///
/// # Errors
/// The message of its panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(panic.as_ref()))
}

impl Plan {
    /// As [`Plan::run_while`], with a panic as an error.
    ///
    /// # Errors
    /// [`RunError::Panicked`] after a panic; otherwise as for [`Plan::run_while`].
    pub fn run_caught(&self, progress: impl FnMut(f64) -> bool) -> Result<Report, RunError> {
        caught(|| self.run_while(progress)).unwrap_or_else(|message| Err(RunError::Panicked(message)))
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

    #[test]
    fn a_caught_run_gives_the_same_figures() {
        let expected = plan().run(|_| ()).expect("a run");
        let ran = plan().run_caught(|_| true).expect("a run");
        assert_eq!(Report { wall_s: 0.0, cpu_s: 0.0, ..ran }, Report { wall_s: 0.0, cpu_s: 0.0, ..expected });
    }

    #[test]
    fn a_run_that_is_stopped_has_no_result() {
        let whole = Plan { scale: 1.0, ..plan() };
        let mut calls = 0;
        let stopped = whole.run_caught(|_| {
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
        let result = bad.run_caught(|_| true);
        assert!(matches!(result, Err(RunError::Panicked(message)) if !message.is_empty()));
    }

    #[test]
    fn the_message_of_a_panic_is_its_text() {
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(caught(|| panic!("a text")), Err::<(), _>("a text".to_owned()));
        let number = 7;
        assert_eq!(caught(|| panic!("text {number}")), Err::<(), _>("text 7".to_owned()));
        assert_eq!(caught(|| std::panic::panic_any(number)), Err::<(), _>("no message".to_owned()));
    }
}
