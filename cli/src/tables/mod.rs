//! The results as text: a table for each experiment and machine, with a column for each mechanism, and a summary of all
//! results at the end.

mod experiment;
mod legend;
mod metrics;
mod summary;
mod sweep;
mod verdict;

use ceasefire_experiments::{Plan, Report};

pub(crate) use summary::text as summary;

/// The tables of all results, without the summary.
pub(crate) fn of(plans: &[Plan], reports: &[Report]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < reports.len() {
        let same = |report: &Report| {
            report.experiment == reports[at].experiment && report.machine == reports[at].machine
        };
        let count = reports[at..].iter().take_while(|report| same(report)).count();
        let (of_it, together) = (&plans[at..at + count], &reports[at..at + count]);
        let case = |report: &Report| (report.threads, report.lru_drain);
        if together.iter().any(|report| case(report) != case(&together[0])) {
            sweep::block(&mut text, &of_it[0], together);
        } else {
            experiment::block(&mut text, &of_it[0], together);
        }
        at += count;
    }
    text
}
