//! The summary: a row for each experiment, machine and number of threads; where nothing was published, a row for each
//! mechanism.

use ceasefire_experiments::Interval;

use super::grid::{Column, Grid};
use crate::number::{compact, range, ratio};
use crate::results::{Mechanism, Own, Row};

const COLUMNS: &[Column] = &[
    Column::words("All results", 0),
    Column::words("", 0),
    Column::numbers("published", 4),
    Column::numbers("paper", 0),
    Column::numbers("measured", 5),
    Column::numbers("ours", 0),
    Column::numbers("range", 2),
    Column::numbers("differs", 1),
    Column::words("basis", 0),
];
/// The columns where nothing was published, with one of two heads.
const OWN_COLUMNS: [&[Column]; 2] = [&own_columns("All results"), &own_columns("Nothing published")];

const fn own_columns(head: &'static str) -> [Column; 6] {
    [
        Column::words(head, 0),
        Column::numbers("median", 0),
        Column::numbers("ratio", 0),
        Column::numbers("its range", 2),
        Column::numbers("interrupts/s", 0),
        Column::numbers("their ratio", 1),
    ]
}

/// The rows with published figures as one table, the others as another.
pub(super) fn text(rows: &[Row], width: usize) -> String {
    let (own, published): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.own.is_some());
    let mut tables = Vec::new();
    if !published.is_empty() {
        tables.push(beside_papers(&published, width));
    }
    if !own.is_empty() {
        tables.push(by_mechanism(&own, OWN_COLUMNS[tables.len()], width));
    }
    tables.join("\n")
}

/// The rows as a table with a heading for each case, and below it a row for each mechanism.
fn by_mechanism(rows: &[&Row], columns: &[Column], width: usize) -> String {
    let mut grid = Grid::new(columns);
    for (row, own) in rows.iter().filter_map(|row| Some((row, row.own.as_ref()?))) {
        let broken = if row.wrong > 0 { " (BROKEN)" } else { "" };
        grid.heading(format!("{} on {}: {}{broken}", row.experiment, row.place(), own.speed.name()));
        for cells in mechanisms(own) {
            grid.row(cells);
        }
        for cost in &own.costs {
            grid.heading(format!("  {cost}"));
        }
    }
    grid.text(width)
}

/// A row for each mechanism.
fn mechanisms(own: &Own) -> Vec<Vec<String>> {
    let is_compared = own.mechanisms.len() > 1;
    let median = |value: Option<Interval>| value.map_or("-".into(), |value| compact(value.median));
    let row = |one: &Mechanism| {
        let of_ratio = |value: Option<Interval>| match value {
            Some(value) => ratio(Some(value.median)),
            None if one.is_baseline && is_compared => "baseline".into(),
            None => String::new(),
        };
        let mut row = vec![
            format!("  {}", one.name),
            median(one.speed),
            of_ratio(one.speed_ratio),
            one.speed_ratio.map_or(String::new(), |value| range(value, |value| ratio(Some(value)))),
        ];
        if own.sends_differently() {
            row.extend([median(one.interrupts), of_ratio(one.interrupts_ratio)]);
        }
        row
    };
    own.mechanisms.iter().map(row).collect()
}

/// The rows as a table, under a heading for each experiment.
fn beside_papers(rows: &[&Row], width: usize) -> String {
    let mut grid = Grid::new(COLUMNS);
    let mut experiment = "";
    for row in rows {
        if row.experiment != experiment {
            experiment = row.experiment;
            grid.heading(experiment);
        }
        let [before, after, our_before, our_after] = row.figures();
        grid.row([
            format!("  {}", row.place()),
            row.metric.1.clone(),
            format!("{before} to {after}"),
            ratio(row.published.map(|paper| paper.ratio)),
            format!("{our_before} to {our_after}"),
            ratio(row.median()),
            row.range(),
            row.difference(),
            row.verdict(),
        ]);
    }
    grid.text(width)
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::{Basis, Caveat, Comparison};

    use super::*;
    use crate::results::{metric_name, Speed};

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
            own: None,
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
    }

    fn mechanism(name: &'static str, speed: f64, interrupts: f64) -> Mechanism {
        let compared = |ratio: f64| Some(interval(ratio)).filter(|_| name != "per-page");
        Mechanism {
            name,
            is_baseline: name == "per-page",
            speed: Some(interval(speed)),
            speed_ratio: compared(speed / 1000.0),
            interrupts: Some(interval(interrupts)),
            interrupts_ratio: compared(interrupts / 200.0),
        }
    }

    #[test]
    fn without_a_paper_every_mechanism_has_a_row_and_nothing_is_said_of_one() {
        let own = |mechanisms: &[Mechanism]| Row {
            published: None,
            own: Some(Own {
                speed: Speed::Rate,
                mechanisms: mechanisms.to_vec(),
                costs: vec![format!("lazy: {}", "a long reason ".repeat(9).trim_end())],
            }),
            ..row("/tmp/my.toml:batch=100", "128-core-arm64", Some("x36 batched"))
        };
        let all =
            ["per-page", "batched", "lazy"].map(|name| mechanism(name, 1234.5, 200.0 / name.len() as f64));
        let shown = text(&[own(&all)], 80);
        let cells = |number: usize| -> Vec<&str> {
            shown.lines().nth(number).expect("a row").split_whitespace().collect()
        };
        assert_eq!(
            shown.lines().next(),
            Some("All results median    ratio its range interrupts/s their ratio"),
            "{shown}"
        );
        assert_eq!(cells(2), ["per-page", "1234", "baseline", "25", "baseline"]);
        assert_eq!(cells(3), ["batched", "1234", "1.23", "1.22-1.25", "28.57", "0.143"]);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(!shown.contains("paper") && shown.contains("\n  lazy: a long reason"), "{shown}");

        let same = all.clone().map(|one| Mechanism { interrupts: Some(interval(0.0)), ..one });
        assert!(!text(&[own(&same)], 80).contains("interrupts"), "a column that is the same for all");
        let alone = text(&[own(&all[..1])], 80);
        assert_eq!(
            alone.lines().next(),
            Some("All results median interrupts/s"),
            "nothing to compare: {alone}"
        );

        let both = text(&[own(&all), row("migrate", "128-core-arm64", None)], 80);
        assert!(both.contains("All results") && both.contains("\n\nNothing published "), "{both}");
    }
}
