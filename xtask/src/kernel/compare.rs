//! The kernel beside the simulator: the figures of each for one page that was read or moved.

use ceasefire_kernel_abi::options::Mechanism;
use serde_json::{json, Value};

use super::report::Report;
use crate::table;

/// The figures that are compared, under the names of the command line's JSON.
const METRICS: [&str; 7] = [
    "interrupts",
    "shootdowns",
    "flushes_page",
    "flushes_full",
    "faults",
    "pages_reclaimed",
    "pages_migrated",
];

/// A count for each operation, where both are known.
pub(super) fn per_operation(number: impl Fn(&str) -> Option<f64>, name: &str) -> Option<f64> {
    Some(number(name)? / number("operations").filter(|operations| *operations > 0.0)?)
}

/// One figure of the kernel and of the simulator.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    kernel: Option<f64>,
    simulator: Option<f64>,
}

impl Pair {
    /// A figure for each operation. None if the run was not simulated.
    fn of(report: &Report, name: &str) -> Option<Self> {
        let simulated = report.simulated.as_ref()?;
        Some(Self {
            kernel: per_operation(|name| report.number(name), name),
            simulator: per_operation(|name| simulated[name].as_f64(), name),
        })
    }

    /// The simulator's difference from the kernel, in percent of the kernel's figure.
    fn difference(self) -> Option<f64> {
        match (self.kernel?, self.simulator?) {
            (kernel, simulator) if kernel > 0.0 => Some((simulator / kernel - 1.0) * 100.0),
            // Two zeros are equal. Any other number is no percentage of zero.
            (_, simulator) => (simulator <= 0.0).then_some(0.0),
        }
    }

    /// Each side's figure as a part of its own `baseline`.
    fn ratio(self, baseline: Self) -> Self {
        let part =
            |figure: Option<f64>, whole: Option<f64>| Some(figure? / whole.filter(|whole| *whole > 0.0)?);
        Self {
            kernel: part(self.kernel, baseline.kernel),
            simulator: part(self.simulator, baseline.simulator),
        }
    }

    /// The figures in a line of a table, after what they are of.
    fn row(self, of: &[&str]) -> Vec<String> {
        let shown = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
        };
        let figures = [shown(self.kernel, 4), shown(self.simulator, 4), shown(self.difference(), 1)];
        of.iter().map(|word| (*word).to_owned()).chain(figures).collect()
    }
}

/// For each program that ran with both mechanisms, the interrupts for each operation when batched, as a part of those
/// with per-page. The mechanism exists for this ratio, and the differing costs of the two machines do not affect it.
fn ratios(reports: &[Report]) -> Vec<(&'static str, Pair)> {
    let of = |wanted| {
        let is_of = move |report: &&Report| report.run.kernel.mechanism == wanted;
        let pair = |report: &Report| Some((report.run.kernel.program, Pair::of(report, "interrupts")?));
        reports.iter().filter(is_of).filter_map(pair)
    };
    let ratio = |(program, pair): (&'static str, Pair)| {
        let baseline = of(Mechanism::PerPage).find(|(other, _)| *other == program)?.1;
        Some((program, pair.ratio(baseline)))
    };
    of(Mechanism::Batched).filter_map(ratio).collect()
}

/// The two tables: figures for each operation, and the part of the interrupts that batching leaves.
pub(super) fn format(reports: &[Report]) -> String {
    let mut figures = Vec::new();
    for report in reports {
        let (program, mechanism) = (report.run.kernel.program, report.run.kernel.mechanism.name());
        let row = |name| Some(Pair::of(report, name)?.row(&[program, mechanism, name]));
        figures.extend(METRICS.into_iter().filter_map(row));
    }
    let ratios: Vec<_> = ratios(reports).into_iter().map(|(program, pair)| pair.row(&[program])).collect();
    let header = ["program", "mechanism", "for each operation", "kernel", "simulator", "difference, %"];
    let text = table::format(header, &figures);
    if ratios.is_empty() {
        return text;
    }
    let header = ["interrupts, batched / per-page", "kernel", "simulator", "difference, %"];
    format!("{text}\n{}", table::format(header, &ratios))
}

/// The same ratios as JSON.
pub(super) fn json(reports: &[Report]) -> Value {
    let ratio = |(program, pair): (&str, Pair)| json!({ "experiment": program, "kernel": pair.kernel, "simulator": pair.simulator });
    ratios(reports).into_iter().map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Ending;
    use super::super::report::tests::report;
    use super::*;

    fn compared(mechanism: &str, kernel: [u32; 2], simulator: [u32; 2]) -> Report {
        let json = |[operations, interrupts]: [u32; 2]| json!({ "operations": operations, "interrupts": interrupts, "faults": operations });
        let line = format!("--program mmap-read --mechanism {mechanism}");
        let mut report = report(&line, Some(&json(kernel).to_string()), Ending::Done);
        report.simulated = Some(json(simulator));
        report
    }

    #[test]
    fn figures_are_for_each_operation() {
        let reports =
            [compared("per-page", [100, 400], [1000, 5000]), compared("batched", [200, 40], [1000, 100])];
        let text = format(&reports);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for expected in [
            "mmap-read per-page interrupts 4.0000 5.0000 25.0",
            "mmap-read batched interrupts 0.2000 0.1000 -50.0",
            "mmap-read batched faults 1.0000 1.0000 0.0",
            "mmap-read batched shootdowns - - -",
            "mmap-read 0.0500 0.0200 -60.0",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected} missing in\n{text}");
        }
        let expected = json!([{ "experiment": "mmap-read", "kernel": 0.05, "simulator": 0.02 }]);
        assert_eq!(super::json(&reports), expected);
    }

    #[test]
    fn a_difference_from_zero_has_no_percentage() {
        let pair = |kernel, simulator| Pair { kernel: Some(kernel), simulator: Some(simulator) };
        assert_eq!(pair(0.0, 0.0).difference(), Some(0.0));
        assert_eq!(pair(0.0, 1.0).difference(), None);
        assert_eq!(Pair { kernel: None, simulator: Some(1.0) }.difference(), None);
        let none = Pair { kernel: None, simulator: None };
        assert_eq!(pair(1.0, 1.0).ratio(pair(0.0, 0.0)), none);
    }

    #[test]
    fn runs_that_were_not_simulated_are_left_out() {
        let mut alone = compared("batched", [1, 1], [1, 1]);
        assert!(ratios(std::slice::from_ref(&alone)).is_empty());
        alone.simulated = None;
        assert_eq!(format(&[alone]).lines().count(), 1);
    }
}
