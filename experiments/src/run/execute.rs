//! Making a run: from a plan to its report.

use std::time::Instant;

use super::plan::Plan;
use super::report::Report;
use crate::experiment::{RunError, Started};

impl Plan {
    /// Runs it. `progress` is called now and then with the part that is done.
    ///
    /// # Errors
    /// [`RunError`] says why there is no result.
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
        Ok(Report::new(self, &starts, &outcome, &finished, begun.elapsed().as_secs_f64()))
    }
}
