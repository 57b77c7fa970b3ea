//! The table of sensitivities: for each prediction, a row for each number of the machine that matters.

use super::grid::{wrapped, Column, Grid};
use super::Look;
use crate::results::metric_name;
use crate::results::{Influence, Sensitivity};

const COLUMNS: &[Column] = &[
    Column::words("What matters", 0),
    Column::numbers("alone", 0),
    Column::words("", 1),
    Column::numbers("in all", 0),
    Column::words("", 1),
];

/// The table, with a heading for each prediction.
pub(super) fn text(sensitivity: &Sensitivity, look: Look) -> String {
    let mut grid = Grid::new(COLUMNS);
    for row in &sensitivity.rows {
        let prediction = &row.prediction;
        let metric = metric_name(prediction.metric).1;
        grid.heading(format!(
            "{} {} {metric} {}",
            prediction.experiment,
            prediction.place(),
            prediction.mechanism
        ));
        for cells in rows(row, look) {
            grid.row(cells);
        }
    }
    let note = format!(
        "The parts of the variance of each ratio that come from a number alone, and from it together with others (Sobol \
         indices), on {} pairs of machines drawn from the ranges in the machine files, and those between; nine of ten \
         estimates lie within the error.",
        sensitivity.ended()
    );
    format!("\n{}\n{}\n", grid.text(look.width), wrapped(&note, look.width).join("\n"))
}

/// The rows of one prediction.
fn rows(row: &Influence, look: Look) -> Vec<Vec<String>> {
    if row.pairs < 2 {
        return vec![vec!["  unknown: fewer than two pairs have a result".to_owned()]];
    }
    if row.numbers.is_empty() {
        return vec![vec!["  no number: the ratio is the same on all machines".to_owned()]];
    }
    let (shown, others) = row.split(if look.all { usize::MAX } else { Influence::SHOWN });
    let mut rows: Vec<Vec<String>> = shown
        .iter()
        .map(|number| {
            let index = number.index;
            vec![
                format!("  {}", number.key),
                format!("{:.2}", index.first),
                format!("±{:.2}", index.first_error),
                format!("{:.2}", index.total),
                format!("±{:.2}", index.total_error),
            ]
        })
        .collect();
    if let Some(most) = others.first() {
        let others = format!("  {} others", others.len());
        rows.push(vec![others, String::new(), "each".to_owned(), format!("≤{:.2}", most.index.total)]);
    }
    rows
}
