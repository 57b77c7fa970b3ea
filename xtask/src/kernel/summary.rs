//! All runs as one table.

use super::report::Report;
use crate::table;

/// The counts that the table shows.
const COUNTS: [&str; 6] =
    ["shootdowns", "flushes_page", "flushes_full", "faults", "pages_reclaimed", "pages_migrated"];

/// The table of all runs. The row of a run that was simulated too is followed by the simulator's.
pub(super) fn format(reports: &[Report]) -> String {
    let head = ["on", "program", "mechanism", "cpus", "boot, s", "operations", "interrupts", "per operation"];
    let tail = ["shootdowns", "page flushes", "full flushes", "faults", "reclaimed", "migrated", "verdict"];
    let mut rows = Vec::new();
    for report in reports {
        let boot = report.boot_s().map(|seconds| format!("{seconds:.1}"));
        rows.push(row(report, report.run.arch.name, boot, &|name| report.number(name), report.verdict()));
        if let Some(simulated) = &report.simulated {
            rows.push(row(
                report,
                "simulator",
                None,
                &|name| simulated[name].as_f64(),
                "simulated".to_owned(),
            ));
        }
    }
    table::format([&head[..], &tail].concat(), &rows)
}

fn row(
    Report { run, .. }: &Report,
    on: &str,
    boot: Option<String>,
    number: &dyn Fn(&str) -> Option<f64>,
    verdict: String,
) -> Vec<String> {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let count = |name| shown(number(name).map(|count| count.to_string()));
    let mut cells = [on, run.kernel.program, &run.how(), &run.cpus.to_string()].map(str::to_owned).to_vec();
    cells.extend([shown(boot), count("operations"), count("interrupts")]);
    cells.push(shown(per_operation(number, "interrupts").map(|value| format!("{value:.4}"))));
    cells.extend(COUNTS.map(count));
    cells.push(verdict);
    cells
}

/// A count for each operation, where both are known.
pub(super) fn per_operation(number: impl Fn(&str) -> Option<f64>, name: &str) -> Option<f64> {
    Some(number(name)? / number("operations").filter(|operations| *operations > 0.0)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::protocol::Ending;
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn an_unknown_figure_is_a_dash_and_the_simulator_comes_next() {
        let result = r#"{"operations":4,"interrupts":10,"faults":3}"#;
        let mut done = report("", Some(result), Ending::Done);
        done.simulated = Some(json!({"operations": 100, "interrupts": 220, "shootdowns": 7}));
        let table = format(&[done, report("", None, Ending::Hang)]);
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = table.lines().skip(1).map(line).collect();
        assert_eq!(
            lines,
            [
                "x86_64 stale batched 8 1.5 4 10 2.5000 - - - 3 - - done",
                "simulator stale batched 8 - 100 220 2.2000 7 - - - - - simulated",
                "x86_64 stale batched 8 1.5 - - - - - - - - - hang",
            ]
        );
    }
}
