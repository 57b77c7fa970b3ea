//! The runs of a fit, several at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ceasefire_experiments::{available_memory, pool, Host, Plan, Report, RunError};

/// This computer's threads for runs, and the watch over them.
pub struct Runner<'a> {
    host: Host,
    jobs: Option<u16>,
    goes_on: &'a (dyn Fn() -> bool + Sync),
    ended: &'a (dyn Fn(u64) + Sync),
    runs: AtomicU64,
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("jobs", &self.jobs).field("runs", &self.runs()).finish_non_exhaustive()
    }
}

impl<'a> Runner<'a> {
    /// Runs on `jobs` threads; by default, one for each processor.
    pub fn new(jobs: Option<u16>) -> Self {
        Self { host: Host::new(), jobs, goes_on: &|| true, ended: &|_| (), runs: AtomicU64::new(0) }
    }

    /// Goes on as long as `goes_on` says so, and calls `ended` with the number of runs after each.
    #[must_use]
    pub fn watched(self, goes_on: &'a (dyn Fn() -> bool + Sync), ended: &'a (dyn Fn(u64) + Sync)) -> Self {
        Self { goes_on, ended, ..self }
    }

    /// The number of runs that have ended.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Runs all plans, and gives `figures` of each report; or the number of a plan that failed, and its error.
    pub(crate) fn run<T: Send>(
        &self,
        plans: &[Plan],
        figures: impl Fn(usize, &Report) -> T + Sync,
    ) -> Result<Vec<T>, (usize, Box<RunError>)> {
        let failed = AtomicBool::new(false);
        let mut results = pool::collect(plans.len() as u64, self.jobs, |number| {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            let number = number as usize;
            let result = self.one(&plans[number], &failed).map(|report| figures(number, &report));
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            (self.ended)(self.runs.fetch_add(1, Ordering::Relaxed) + 1);
            Some(result.map_err(|error| (number, Box::new(error))))
        });
        // The cause stands before the runs that stopped for it.
        let is_cause = |error: &RunError| !matches!(error, RunError::Stopped);
        results.sort_by_key(|result| !matches!(result, Err((_, error)) if is_cause(error)));
        results.into_iter().collect()
    }

    /// Runs a plan when this computer has room for it.
    fn one(&self, plan: &Plan, failed: &AtomicBool) -> Result<Report, RunError> {
        plan.check_host(available_memory())?;
        let _admitted = self.host.admit(plan);
        let stops = || failed.load(Ordering::Relaxed) || !(self.goes_on)();
        if stops() {
            return Err(RunError::Stopped);
        }
        plan.run_caught(|_| !stops())
    }
}
