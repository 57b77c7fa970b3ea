//! The note on a machine with another number of CPUs than the paper's.

use ceasefire_experiments::Report;
use ceasefire_machine::config::builtin;

/// A note if the published figures are for another number of CPUs than the run's.
pub(crate) fn of_other_size<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Option<String> {
    let report = reports.into_iter().find(|report| !report.published.is_empty())?;
    let own = builtin(&report.machine).and_then(Result::ok)?.topology.cpu_count();
    (own != report.cpus).then(|| format!("The published figures are for {own} CPUs, not {}.", report.cpus))
}
