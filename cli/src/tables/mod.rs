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

/// The tables of all results, and their summary.
pub(crate) fn of(cases: &[Case], rows: &[Row], sure: &Sure, look: Look) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < cases.len() {
        let lead = cases[at].runs.first();
        let same = |case: &&Case| {
            let report = case.runs.first();
            (report.experiment, &report.machine) == (lead.experiment, &lead.machine)
        };
        let together = &cases[at..at + cases[at..].iter().take_while(same).count()];
        if together.iter().any(|case| case.runs.first().case() != lead.case()) {
            text.push_str(&sweep::block(together, look));
        } else {
            text.push_str(&experiment::block(together, look));
        }
        at += together.len();
    }
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
