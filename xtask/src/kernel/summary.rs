//! All runs as one table.

use super::report::Report;
use crate::table;

/// The counts that the table shows.
const COUNTS: [(&str, &str); 6] = [
    ("shootdowns", "shootdowns"),
    ("page flushes", "flushes_page"),
    ("full flushes", "flushes_full"),
    ("faults", "faults"),
    ("reclaimed", "pages_reclaimed"),
    ("migrated", "pages_migrated"),
];

/// The table of all runs.
pub(super) fn format(reports: &[Report]) -> String {
    let header =
        ["arch", "program", "mechanism", "cpus", "boot, s", "operations", "interrupts", "per operation"];
    let header: Vec<&str> =
        header.into_iter().chain(COUNTS.map(|(title, _)| title)).chain(["verdict"]).collect();
    let rows: Vec<Columns> = reports.iter().map(row).collect();
    let header: [&str; WIDTH] = std::array::from_fn(|column| header[column]);
    table::format(header, &rows)
}

const WIDTH: usize = 9 + COUNTS.len();
type Columns = [String; WIDTH];

fn row(report: &Report) -> Columns {
    let count = |name| report.number(name).map_or_else(unknown, |count| count.to_string());
    let per_operation = super::compare::per_operation(|name| report.number(name), "interrupts");
    let mut cells = vec![
        report.run.arch.name.to_owned(),
        report.run.kernel.program.to_owned(),
        report.run.how(),
        report.run.cpus.to_string(),
        report.boot_s.map_or_else(unknown, |seconds| format!("{seconds:.1}")),
        count("operations"),
        count("interrupts"),
        per_operation.map_or_else(unknown, |value| format!("{value:.4}")),
    ];
    cells.extend(COUNTS.map(|(_, name)| count(name)));
    cells.push(report.verdict());
    std::array::from_fn(|column| std::mem::take(&mut cells[column]))
}

fn unknown() -> String {
    "-".to_owned()
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
