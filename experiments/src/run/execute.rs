//! Executing a plan.

use std::time::Instant;

use super::plan::Plan;
use super::report::Report;
use crate::experiment::{RunError, Started};

impl Plan {
    /// Runs the experiment and calls `progress` now and then with the fraction that is done.
    ///
    /// # Errors
    /// [`RunError`] if the run cannot start or has no result.
    pub fn run(&self, mut progress: impl FnMut(f64)) -> Result<Report, RunError> {
        self.check()?;
        let begun = Instant::now();
        let Started { simulation, starts, progress: part, finish } = (self.experiment.start)(self.setup()?)?;
        let outcome = simulation
            .run(|_, accesses| {
                progress(part(accesses));
                true
            })
            .map_err(|error| match error {
                ceasefire_machine::RunError::Trace(error) => {
                    RunError::Trace { path: self.trace.clone().unwrap_or_default(), error }
                }
                error @ ceasefire_machine::RunError::TooLong => RunError::TooLong(error),
            })?;
        let finished = finish(&outcome)?;
        Report::new(self, &starts, &outcome, &finished, begun.elapsed().as_secs_f64())
            .map_err(RunError::Machine)
    }
}
