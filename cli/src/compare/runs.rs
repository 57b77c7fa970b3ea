//! Executing the runs, several at a time.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use ceasefire_experiments::{Plan, Report, RunError};

use super::host_memory::{available, Budget};
use super::progress::Progress;
use crate::failure::{Done, Failure};

/// The outcome of all runs.
pub(super) struct Runs {
    /// The runs that succeeded, and their results.
    pub(super) plans: Vec<Plan>,
    pub(super) reports: Vec<Report>,
    pub(super) failed: Done,
}

/// Executes all runs. A failed run does not stop the others, since they may have taken hours.
pub(super) fn run_all(plans: Vec<Plan>, jobs: Option<u16>, quiet: bool) -> Runs {
    let jobs = jobs.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from);
    let progress = Progress::new(plans.len(), quiet);
    let next = AtomicUsize::new(0);
    let (large, memory) = (Mutex::new(()), Budget::new(available()));
    let results: Vec<OnceLock<Result<Report, RunError>>> = plans.iter().map(|_| OnceLock::new()).collect();
    thread::scope(|scope| {
        scope.spawn(|| progress.write_lines());
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(plan) = plans.get(index) else { break };
                // Only one such run at a time. The lock guards no data, so poison does not matter.
                let _alone = plan.runs_alone().then(|| large.lock());
                let _memory = memory.take(plan.host_bytes());
                let bar = progress.begin(index, plan);
                let result = plan.run(|part| bar.set(part));
                results[index].get_or_init(|| result);
            }
        };
        let workers: Vec<_> = (0..jobs.min(plans.len())).map(|_| scope.spawn(work)).collect();
        // A run that panics ends its worker alone; its result is missing below.
        for worker in workers {
            drop(worker.join());
        }
        progress.end();
    });
    let mut runs = Runs { plans: Vec::new(), reports: Vec::new(), failed: Ok(()) };
    for (plan, result) in plans.into_iter().zip(results) {
        match result.into_inner() {
            Some(Ok(report)) => {
                runs.plans.push(plan);
                runs.reports.push(report);
            }
            Some(Err(error)) => runs.failed = Failure::both(runs.failed, Err(failure(&plan, error))),
            None => {}
        }
    }
    runs
}

/// The failure of a run, with the run's name.
fn failure(plan: &Plan, error: RunError) -> Failure {
    match error {
        RunError::Trace { error, .. } if error.kind() == io::ErrorKind::BrokenPipe => Failure::NoReader,
        error => Failure::Input(format!(
            "{} {} {}: {error}",
            plan.experiment.name, plan.machine.name, plan.mechanism
        )),
    }
}
