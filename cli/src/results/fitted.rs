//! The published figures that a machine's parameters were fitted to, and hence the basis of each of our ratios.

use std::collections::BTreeSet;

use ceasefire_experiments::Report;
use ceasefire_machine::config::Machine;

use crate::number::threads;

/// The basis of one of our ratios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// No parameter was fitted to it.
    Predicted,
    /// It follows from figures that parameters were fitted to.
    Follows,
    /// Parameters were fitted to one of its two sides.
    Partly,
    /// Parameters were fitted to both of its sides.
    Fitted,
}

impl Basis {
    /// The basis of `metric` on a machine with parameters fitted to these rows. A row that names more than the metric
    /// and the side, such as a number of threads, counts for the whole metric, so that no fitted figure is called a
    /// prediction.
    pub(crate) fn of(metric: &str, fitted: &BTreeSet<String>) -> Self {
        let any = |start: &str| fitted.iter().any(|row| row.starts_with(start));
        let sides = ["before", "after"].map(|side| any(&format!("{metric}, {side}")));
        let parts = ["user, ", "system, "].map(any);
        match sides {
            [true, true] => Self::Fitted,
            [false, false] if metric == "elapsed" && parts != [false, false] => Self::Follows,
            [false, false] => Self::Predicted,
            _ => Self::Partly,
        }
    }

    /// The word for the basis.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Follows => "follows",
            Self::Partly => "half fitted",
            Self::Fitted => "fitted",
        }
    }
}

/// The published figures of a result that its machine's parameters were fitted to: `metric, before` or `metric, after`.
pub(crate) fn fitted_of(machine: &Machine, report: &Report) -> BTreeSet<String> {
    let mut fitted = fitted_rows(machine);
    for side in ["before", "after"] {
        // If the paper varies the number of threads, the source names one such number.
        if fitted.contains(&cell(report, side)) {
            fitted.extend(report.published.keys().map(|metric| format!("{metric}, {side}")));
        }
    }
    fitted
}

/// The published figures that this machine's parameters were fitted to, as their sources name them.
pub(crate) fn fitted_rows(machine: &Machine) -> BTreeSet<String> {
    machine
        .sources
        .iter()
        .filter(|parameter| parameter.is_fitted())
        .filter_map(|parameter| {
            let row = parameter.source.strip_prefix("fitted: ")?;
            Some(row.split_once(':').map_or(row, |(row, _)| row).trim().to_owned())
        })
        .collect()
}

/// The name of a published figure, as the sources of parameters that were fitted to it give it.
pub(crate) fn cell(report: &Report, side: &str) -> String {
    let drain = report.lru_drain.unwrap_or_default();
    format!("{} at {}, {drain}, {side}", report.machine, threads(report.threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fitted_figure_is_called_fitted() {
        let fitted = ["user, before", "system, before", "system, after"].map(String::from).into();
        let basis = |metric| Basis::of(metric, &fitted);
        assert_eq!(basis("system"), Basis::Fitted);
        assert_eq!(basis("user"), Basis::Partly);
        assert_eq!(basis("elapsed"), Basis::Follows);
        assert_eq!(basis("interrupts_per_second"), Basis::Predicted);
        assert_eq!(Basis::of("elapsed", &BTreeSet::new()), Basis::Predicted);
        let swept = ["loops_per_second, before, 8 threads"].map(String::from).into();
        assert_eq!(Basis::of("loops_per_second", &swept), Basis::Partly);
    }
}
