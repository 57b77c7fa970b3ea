//! The summary table: a row for each experiment, machine and number of threads.

use super::grid::{Column, Grid};
use crate::number::ratio;
use crate::results::Row;
use ceasefire_experiments::Basis;

const COLUMNS: &[Column] = &[
    Column::words("All results", 0),
    Column::words("", 0),
    Column::numbers("published", 4),
    Column::numbers("paper", 0),
    Column::numbers("ours", 5),
    Column::numbers("ratio", 0),
    Column::numbers("range", 2),
    Column::numbers("differs", 1),
    Column::words("ours is", 0),
];

/// The rows as a table, under a heading for each experiment.
pub(super) fn text(rows: &[Row], width: usize) -> String {
    let mut grid = Grid::new(COLUMNS);
    let mut experiment = "";
    for row in rows {
        if row.experiment != experiment {
            experiment = row.experiment;
            grid.heading(experiment);
        }
        let [before, after, our_before, our_after] = row.figures();
        // Without published figures, the columns about them have no cells.
        let of_paper = |cell: String| if row.published.is_some() { cell } else { String::new() };
        let verdict = row.verdict(Basis::short_name);
        grid.row([
            format!("  {}", row.place()),
            row.metric.1.clone(),
            of_paper(format!("{before} to {after}")),
            of_paper(ratio(row.published.map(|paper| paper.ratio))),
            format!("{our_before} to {our_after}"),
            ratio(row.median()),
            row.range(),
            of_paper(row.difference()),
            if row.wrong > 0 { verdict } else { of_paper(verdict) },
        ]);
    }
    grid.text(width)
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::{Caveat, Comparison, Interval};

    use super::*;
    use crate::results::metric_name;

    fn interval(median: f64) -> Interval {
        Interval { median, least: median * 0.99, most: median * 1.01 }
    }

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
            ours: [27_618.0, 123_456.0].map(|median| Some(interval(median))),
            ratio: Some(interval(4.47)),
            other: None,
            basis: Basis::Predicted,
            caveats: Vec::new(),
            wrong: 0,
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_result_and_fits() {
        let rows = [
            row("tiered-inference", "128-core-arm64", None),
            Row {
                basis: Basis::Tuned,
                caveats: vec![Caveat::Scale(1.0)],
                ..row("tlb-flush2", "milan-36", Some("x36 batched"))
            },
            Row { wrong: 2, ..row("allocation-latency", "4-node-48-cpu", None) },
            Row {
                published: None,
                ours: [None, Some(interval(5.0))],
                ratio: None,
                ..row("migrate-huge", "2-socket-intel", None)
            },
        ];
        for width in [80, 120, 200] {
            let text = text(&rows, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        let text = text(&rows, 80);
        let cells = |number: usize| -> Vec<&str> {
            text.lines().nth(number).expect("a row").split_whitespace().collect()
        };
        assert_eq!(cells(1), ["tiered-inference"]);
        assert_eq!(
            cells(2),
            ["128-core-arm64", "pages/s", "3.92", "4.47", "4.43-4.51", "+14.1%", "predicted"]
        );
        assert_eq!(cells(4)[..3], ["milan-36", "x36", "batched"]);
        assert_eq!(cells(4)[8..], ["tuned,", "small"]);
        assert_eq!(cells(6).last(), Some(&"BROKEN"));
        assert_eq!(cells(8)[2..], ["-"], "no ratio, and nothing about a paper");
    }
}
