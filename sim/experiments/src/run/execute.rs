//! Executing a plan.

use std::time::Instant;

use ceasefire_machine::Simulation;
use rustix::time::{clock_gettime, ClockId};

use super::plan::Plan;
use super::report::{Report, Taken};
use crate::experiment::{RunError, Started};

impl Plan {
    /// Runs the experiment and calls `progress` now and then with the fraction that is done.
    ///
    /// # Errors
    /// [`RunError`] if the run cannot start or has no result.
    pub fn run(&self, mut progress: impl FnMut(f64)) -> Result<Report, RunError> {
        self.run_while(|part| {
            progress(part);
            true
        })
    }

    /// The same, until `progress` returns false.
    ///
    /// # Errors
    /// [`RunError::Stopped`] after that; otherwise as for [`Plan::run`].
    pub fn run_while(&self, progress: impl FnMut(f64) -> bool) -> Result<Report, RunError> {
        self.run_prepared(|_| (), progress)
    }

    /// The same without some of the engine's guards, for tests.
    ///
    /// # Errors
    /// [`RunError`], as for [`Plan::run`].
    #[cfg(ceasefire_sabotage)]
    pub fn run_without(&self, guards: &[ceasefire::sabotage::Guard]) -> Result<Report, RunError> {
        let remove = |simulation: &Simulation| {
            for &guard in guards {
                simulation.memory().engine().remove_guard(guard);
            }
        };
        self.run_prepared(remove, |_| true)
    }

    fn run_prepared(
        &self,
        prepare: impl FnOnce(&Simulation),
        mut progress: impl FnMut(f64) -> bool,
    ) -> Result<Report, RunError> {
        self.check()?;
        let (begun, cpu_begun) = (Instant::now(), cpu_s());
        let Started { simulation, starts, progress: part, finish } = (self.experiment.start)(self.setup()?)?;
        prepare(&simulation);
        let mut goes_on = true;
        let outcome = simulation
            .run(|_, accesses| {
                goes_on = progress(part(accesses));
                goes_on
            })
            .map_err(|error| match error {
                ceasefire_machine::RunError::Trace(error) => {
                    let path = self.trace.as_ref().map(|trace| trace.path.clone());
                    RunError::Trace { path: path.unwrap_or_default(), error }
                }
                error @ ceasefire_machine::RunError::TooLong => RunError::TooLong(error),
            })?;
        if !goes_on {
            return Err(RunError::Stopped);
        }
        let finished = finish(&outcome)?;
        let taken = Taken { wall_s: begun.elapsed().as_secs_f64(), cpu_s: cpu_s() - cpu_begun };
        Report::new(self, &starts, &outcome, &finished, taken).map_err(RunError::Machine)
    }
}

/// The processor time of this thread, which a run never leaves, in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
