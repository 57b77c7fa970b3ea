//! The results as text: a table for each experiment and machine, with rows for each mechanism, and a summary of all
//! results at the end.

mod experiment;
pub(crate) mod grid;
mod legend;
mod metrics;
mod sensitivity;
mod summary;
mod sweep;
mod uncertainty;
mod verdict;

use ceasefire_experiments::Repeats;

use crate::results::Sure;
use crate::results::{of_own_machine, Case, Row};
use grid::{wrapped, Grid};
use verdict::verdict;

/// How tables look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// The greatest width of a line, in characters.
    pub(crate) width: usize,
    /// Whether every figure is shown, or the headlines alone.
    pub(crate) all: bool,
}

/// The table of the results of one experiment on one machine.
pub(crate) fn block(cases: &[Case], look: Look) -> String {
    let mut given = cases.iter().map(|case| case.runs.first().case());
    let lead = given.next();
    if given.any(|case| Some(case) != lead) {
        sweep::block(cases, look)
    } else {
        experiment::block(cases, look)
    }
}

/// The summary of all results, which follows their tables.
pub(crate) fn summary(rows: &[Row], sure: &Sure, look: Look) -> String {
    let mut text = String::new();
    if !look.all {
        text.push_str("All figures: --all, --table FILE or --json FILE.\n\n");
    }
    text.push_str(&summary::text(rows, look.width));
    text.extend(sure.uncertainty.as_ref().map(|intervals| uncertainty::text(intervals, look)));
    text.extend(sure.sensitivity.as_ref().map(|sensitivity| sensitivity::text(sensitivity, look)));
    text
}

/// The text of a table: its head above it, and below it the notes on it, on the machine of its `cases` and on the
/// checks.
fn framed(head: &str, grid: &Grid, mut notes: Vec<String>, cases: &[Case], look: Look) -> String {
    notes.extend(of_own_machine(&cases[0].plan.machine));
    let all: Vec<&Repeats> = cases.iter().map(|case| &case.runs).collect();
    notes.push(verdict(&all));
    let mut lines = wrapped(head, look.width);
    lines.push(String::new());
    lines.push(grid.text(look.width));
    lines.extend(notes.iter().flat_map(|note| wrapped(note, look.width)));
    lines.join("\n") + "\n\n"
}
