//! The last line of a table: whether a rule was broken or a load was wrong.

use ceasefire_experiments::{Repeats, Report};

use crate::number::compact;

/// The number of broken rules and wrong loads, and the processor time that the runs took.
pub(super) fn verdict(runs: &[&Repeats]) -> String {
    let reports = || runs.iter().flat_map(|runs| runs.all().iter().copied());
    let sum = |count: fn(&Report) -> u64| reports().map(count).sum::<u64>();
    let cpu: f64 = reports().map(|report| report.cpu_s).sum();
    let (all, watched) = (reports().count(), reports().filter(|report| report.oracle).count());
    let verdict = match (watched, sum(|report| report.violations)) {
        (0, _) => "The oracle was off".to_owned(),
        (some, 0) if some == all => "No rule was broken".to_owned(),
        (some, 0) => format!("No rule was broken in the {some} of {all} runs that were checked"),
        (_, count) => format!("Rules were broken {count} times"),
    };
    let compared = sum(|report| report.loads_compared.unwrap_or(0));
    let verdict = match (compared, sum(|report| report.loads_wrong.unwrap_or(0))) {
        (0, _) => verdict,
        (compared, 0) => format!("{verdict}, none of {} loads was wrong", compact(compared as f64)),
        (_, wrong) => format!("{verdict}, {wrong} loads were wrong"),
    };
    format!("{verdict}; {cpu:.1} s of processor time.")
}
