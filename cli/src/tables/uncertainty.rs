//! The table of intervals: a row for each prediction.

use super::grid::{wrapped, Column, Grid};
use super::Look;
use crate::number::ratio;
use crate::results::metric_name;
use crate::results::Intervals;
use ceasefire_experiments::Basis;

const COLUMNS: &[Column] = &[
    Column::words("How sure", 0),
    Column::words("", 0),
    Column::words("", 3),
    Column::numbers("paper", 0),
    Column::numbers("ours", 0),
    Column::numbers("9 of 10", 0),
    Column::words("paper is", 0),
    Column::words("basis", 1),
];

/// The table, with a heading for each experiment.
pub(super) fn text(intervals: &Intervals, look: Look) -> String {
    let mut grid = Grid::new(COLUMNS);
    let mut experiment = "";
    for row in &intervals.rows {
        let prediction = &row.prediction;
        if prediction.experiment != experiment {
            experiment = prediction.experiment;
            grid.heading(experiment);
        }
        grid.row([
            format!("  {}", prediction.place()),
            metric_name(prediction.metric).1,
            prediction.mechanism.to_owned(),
            row.published.map_or(String::new(), |paper| ratio(Some(paper))),
            ratio(Some(row.ours)),
            format!("{}-{}", ratio(Some(row.spread.low)), ratio(Some(row.spread.high))),
            row.place().to_owned(),
            row.basis.map_or("", Basis::word).to_owned(),
        ]);
    }
    let count = |is: &dyn Fn(&str) -> bool| {
        let predicted = intervals.rows.iter().filter(|row| row.basis == Some(Basis::Predicted));
        predicted.filter(|row| is(row.place())).count()
    };
    let (all, inside) = (count(&|_| true), count(&|place| place == "in it"));
    let of_papers = if intervals.rows.iter().any(|row| row.published.is_some()) {
        format!(" Of {all} published ratios that nothing was fitted to or tuned by, {inside} lie in theirs.")
    } else {
        String::new()
    };
    let note = format!(
        "Ratios to the baseline, on {} machines drawn from the ranges in the machine files; nine of ten lie in the \
         interval.{of_papers}",
        intervals.draws
    );
    format!("\n{}\n{}\n", grid.text(look.width), wrapped(&note, look.width).join("\n"))
}
