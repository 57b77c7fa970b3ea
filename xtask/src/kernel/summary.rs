//! All runs as one table.

use super::compare::per_operation;
use super::report::Report;
use crate::table;

/// The counts that the table shows.
const COUNTS: [&str; 6] =
    ["shootdowns", "flushes_page", "flushes_full", "faults", "pages_reclaimed", "pages_migrated"];

/// The table of all runs.
pub(super) fn format(reports: &[Report]) -> String {
    let head =
        ["arch", "program", "mechanism", "cpus", "boot, s", "operations", "interrupts", "per operation"];
    let tail = ["shootdowns", "page flushes", "full flushes", "faults", "reclaimed", "migrated", "verdict"];
    table::format([&head[..], &tail].concat(), &reports.iter().map(row).collect::<Vec<_>>())
}

fn row(report: &Report) -> Vec<String> {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let number = |name: &str| report.number(name);
    let count = |name| shown(number(name).map(|count| count.to_string()));
    let run = &report.run;
    let mut cells = vec![
        run.arch.name.to_owned(),
        run.kernel.program.to_owned(),
        run.how(),
        run.cpus.to_string(),
        shown(report.boot_s().map(|seconds| format!("{seconds:.1}"))),
        count("operations"),
        count("interrupts"),
        shown(per_operation(number, "interrupts").map(|value| format!("{value:.4}"))),
    ];
    cells.extend(COUNTS.map(count));
    cells.push(report.verdict());
    cells
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Ending;
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn an_unknown_figure_is_a_dash() {
        let result = r#"{"operations":4,"interrupts":10,"faults":3}"#;
        let table = format(&[report("", Some(result), Ending::Done), report("", None, Ending::Hang)]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3);
        let done = "x86_64 stale batched 8 1.5 4 10 2.5000 - - - 3 - - done";
        let hung = "x86_64 stale batched 8 1.5 - - - - - - - - - hang";
        assert_eq!((lines[1].join(" "), lines[2].join(" ")), (done.to_owned(), hung.to_owned()));
    }
}
