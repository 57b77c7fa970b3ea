//! The summary table: a row for each experiment, machine and number of threads.

use std::fmt::Write;

use comfy_table::{presets, CellAlignment, Table};

use crate::results::Row;

/// The rows as a table at most 100 characters wide.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["all results", "", "", "paper", "", "", "ours", "", "", "", ""]);
    table.add_row([
        "experiment",
        "machine",
        "metric",
        "before",
        "after",
        "ratio",
        "before",
        "after",
        "ratio",
        "diff.",
        "ours is",
    ]);
    for row in rows {
        table.add_row(row.cells());
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if (3..10).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::{Basis, Comparison};

    use super::*;
    use crate::results::metric_name;

    fn row(experiment: &'static str, machine: &str, case: Option<&str>) -> Row {
        Row {
            experiment,
            machine: machine.into(),
            case: case.map(str::to_owned),
            metric: metric_name("pages_migrated_per_second"),
            published: Some(Comparison {
                unit: "1/s",
                before: 3_163_679_332.0,
                after: 12_394_694_609.0,
                ratio: 3.917,
                ours: Some(4.47),
                measured: 123_456.0,
            }),
            ours: [27_618.0, 123_456.0],
            other: None,
            basis: Basis::Predicted,
            wrong: 0,
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_result_and_is_at_most_100_characters_wide() {
        let rows = [
            row("tiered-inference", "128-core-arm64", None),
            Row { basis: Basis::Tuned, ..row("tlb-flush2", "milan-36", Some("batched")) },
            Row { wrong: 2, ..row("allocation-latency", "4-node-48-cpu", None) },
            Row { published: None, ours: [f64::NAN, 5.0], ..row("migrate-huge", "2-socket-intel", None) },
        ];
        let text = text(&rows);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let cells = |number: usize| -> Vec<&str> {
            text.lines().nth(2 + number).expect("a row").split_whitespace().collect()
        };
        assert_eq!(
            cells(0),
            [
                "tiered-inference",
                "128-core-arm64",
                "pages/s",
                "3.164G",
                "12.39G",
                "3.92",
                "27.62k",
                "123.5k",
                "4.47",
                "+14.1%",
                "predicted"
            ]
        );
        assert_eq!(cells(1)[..3], ["tlb-flush2", "milan-36", "batched"]);
        assert_eq!(cells(1).last(), Some(&"tuned"));
        assert_eq!(cells(2).last(), Some(&"BROKEN"));
        assert_eq!(cells(3)[3..], ["-", "-", "-", "-", "5", "-", "-", "-"]);
    }
}
