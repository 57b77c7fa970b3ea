//! The last line of a table: whether a rule was broken or a load was wrong.

use ceasefire_experiments::Report;

/// The number of broken rules and wrong loads, and the time that the runs took.
pub(crate) fn verdict(reports: &[Report]) -> String {
    let broken: u64 = reports.iter().map(|report| report.violations).sum();
    let wall: f64 = reports.iter().map(|report| report.wall_s).sum();
    let verdict = match (reports[0].oracle, broken) {
        (false, _) => "the oracle was off".to_owned(),
        (true, 0) => "no rule was broken".to_owned(),
        (true, count) => format!("rules were broken {count} times"),
    };
    let loads = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    let verdict = match (
        loads(|report| report.loads_compared.unwrap_or(0)),
        loads(|report| report.loads_wrong.unwrap_or(0)),
    ) {
        (0, _) => verdict,
        (_, 0) => format!("{verdict}, no load was wrong"),
        (_, wrong) => format!("{verdict}, {wrong} loads were wrong"),
    };
    format!("{verdict}; {wall:.1} s of processor time")
}
