//! The explanations below a table of the words that say what a figure of ours rests on.

use std::fmt::Write;

use ceasefire_experiments::Basis;

/// A line for each basis of single figures that the table shows, besides predictions.
pub(super) fn of_sides(shown: &[Basis]) -> String {
    let mut text = String::new();
    for (basis, meaning) in [
        (Basis::Fitted, "parameters of this machine were fitted to that figure, so it is not a prediction."),
        (Basis::Tuned, "a parameter that the run used was chosen with that published figure in sight."),
    ] {
        if shown.contains(&basis) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "'{}': {meaning}", basis.name());
        }
    }
    text
}
