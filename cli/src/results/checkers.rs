//! The checkers that watched a run.

use ceasefire_experiments::Report;

/// The checkers that watched a run, in words.
pub(crate) const fn checkers(report: &Report) -> &'static str {
    match (report.oracle, report.shadow) {
        (true, true) => "oracle and shadow record on",
        (true, false) => "oracle on, shadow record off",
        (false, true) => "oracle off, shadow record on",
        (false, false) => "oracle off: broken rules are not detected",
    }
}
