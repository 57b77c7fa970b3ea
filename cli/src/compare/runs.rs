//! Executing the runs, several at a time.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ceasefire_experiments::{pool, Host, Plan, Report, RunError};

use super::progress::Progress;
use crate::failure::{Done, Failure};

/// The outcome of all runs.
pub(super) struct Runs {
    /// The runs that succeeded, and their results.
    pub(super) plans: Vec<Plan>,
    pub(super) reports: Vec<Report>,
    pub(super) failed: Done,
}

/// Executes all runs. A failed run does not stop the others, since they may have taken hours. `show` gets the runs of
/// each experiment and machine that succeeded, one after the other, as soon as they and all before them have ended.
///
/// # Panics
/// If a run panics, once all threads have ended.
pub(super) fn run_all(
    plans: Vec<Plan>,
    jobs: Option<u16>,
    quiet: bool,
    show: impl FnMut(&[Plan], Vec<Report>) + Send,
) -> Runs {
    let progress = Progress::new(plans.len(), quiet);
    let host = Host::new();
    let shown = Mutex::new(Shown { ended: plans.iter().map(|_| None).collect(), next: 0, show });
    let run = |number: u64| {
        let index = number as usize;
        let plan = &plans[index];
        let _admitted = host.admit(plan);
        let bar = progress.begin(index, plan);
        let result = plan.run(|part| bar.set(part));
        drop(bar);
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.ended[index] = Some(result.as_ref().map(Report::clone).map_err(|_| ()));
        progress.suspend(|| shown.advance(&plans));
        Some(result)
    };
    let results = thread::scope(|scope| {
        scope.spawn(|| progress.write_lines());
        let results = scope.spawn(|| pool::collect(plans.len() as u64, jobs, run)).join();
        // The lines of progress end before a panic goes on, or this scope would wait for them forever.
        progress.end();
        results.unwrap_or_else(|panic| resume_unwind(panic))
    });
    let mut runs = Runs { plans: Vec::new(), reports: Vec::new(), failed: Ok(()) };
    let mut errors = Vec::new();
    for (plan, result) in plans.into_iter().zip(results) {
        match result {
            Ok(report) => {
                runs.plans.push(plan);
                runs.reports.push(report);
            }
            Err(RunError::Trace { error, .. }) if error.kind() == io::ErrorKind::BrokenPipe => {
                runs.failed = Failure::both(runs.failed, Err(Failure::NoReader));
            }
            Err(error) => errors.push((plan, error.to_string())),
        }
    }
    for line in lines(&errors) {
        runs.failed = Failure::both(runs.failed, Err(Failure::Input(line)));
    }
    runs
}

/// The runs that have ended, and those that are shown.
struct Shown<F> {
    /// The report of each run that has ended, or that it failed.
    ended: Vec<Option<Result<Report, ()>>>,
    /// The first run that is not shown.
    next: usize,
    show: F,
}

impl<F: FnMut(&[Plan], Vec<Report>)> Shown<F> {
    /// Shows each experiment and machine whose runs, and all before them, have ended.
    fn advance(&mut self, plans: &[Plan]) {
        while let Some(lead) = plans.get(self.next) {
            let same = |plan: &&Plan| {
                (plan.experiment.name, &plan.machine.name) == (lead.experiment.name, &lead.machine.name)
            };
            let end = self.next + plans[self.next..].iter().take_while(same).count();
            let group = self.next..end;
            if self.ended[group.clone()].iter().any(Option::is_none) {
                break;
            }
            let reports = self.ended[group.clone()].iter_mut().map(|report| report.take()?.ok());
            let (plans, reports): (Vec<Plan>, Vec<Report>) = plans[group]
                .iter()
                .zip(reports)
                .filter_map(|(plan, report)| Some((plan.clone(), report?)))
                .unzip();
            if !reports.is_empty() {
                (self.show)(&plans, reports);
            }
            self.next = end;
        }
    }
}

/// A line for each error of an experiment on a machine, with the mechanisms of all runs that ended with it.
fn lines(errors: &[(Plan, String)]) -> Vec<String> {
    let mut lines: Vec<([&str; 3], Vec<&str>)> = Vec::new();
    for (plan, error) in errors {
        let (key, mechanism) = ([plan.experiment.name, &plan.machine.name, error], plan.mechanism.name());
        match lines.iter_mut().find(|(known, _)| *known == key) {
            Some((_, mechanisms)) if mechanisms.contains(&mechanism) => {}
            Some((_, mechanisms)) => mechanisms.push(mechanism),
            None => lines.push((key, vec![mechanism])),
        }
    }
    let line = |([experiment, machine, error], mechanisms): ([&str; 3], Vec<&str>)| {
        format!("{experiment} {machine} {}: {error}", mechanisms.join(", "))
    };
    lines.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::Experiment;
    use ceasefire_machine::config::{builtin, Latency, Machine};

    use super::*;

    #[test]
    fn a_run_that_panics_is_not_lost() {
        let experiment = Experiment::find("migrate").expect("an experiment");
        let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
        let machine = machine.with_cpus(2).expect("allowed");
        let good = Plan { scale: 0.0001, ..Plan::new(experiment, machine.clone()) };
        // The latencies of its second CPU are missing.
        let bad = Plan { machine: Machine { latency: Latency::uniform(1, 0), ..machine }, ..good.clone() };
        for jobs in [1, 2] {
            let plans = vec![bad.clone(), good.clone()];
            let all = thread::spawn(move || run_all(plans, Some(jobs), false, |_, _| ()));
            assert!(all.join().is_err(), "{jobs} workers");
        }
        assert_eq!(run_all(vec![good], None, true, |_, _| ()).reports.len(), 1);
    }
}
