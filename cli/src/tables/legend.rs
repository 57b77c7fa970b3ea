//! The explanations below a table of the words that say what a figure of ours rests on.

use ceasefire_experiments::{Basis, Caveat};

use crate::number::scale;

/// The words that a table uses.
#[derive(Debug, Default)]
pub(super) struct Legend {
    bases: Vec<Basis>,
    /// Whether the words are those of single figures, and not of ratios.
    of_sides: bool,
    /// The scale from which on ratios are those of the paper's size, if the runs were smaller.
    faithful_from: Option<f64>,
}

impl Legend {
    /// The legend of a table whose words are those of single figures.
    pub(super) fn of_sides() -> Self {
        Self { of_sides: true, ..Self::default() }
    }

    /// Notes that the table shows a basis.
    pub(super) fn shows(&mut self, basis: Basis) {
        if !self.bases.contains(&basis) {
            self.bases.push(basis);
            self.bases.sort_unstable();
        }
    }

    /// Notes that the table shows a reason to doubt a figure.
    pub(super) fn warns(&mut self, caveat: Caveat) {
        if let Caveat::Scale(least) = caveat {
            self.faithful_from = Some(least);
        }
    }

    /// A line for each word.
    pub(super) fn lines(&self) -> Vec<String> {
        let meaning = |basis: &Basis| match basis {
            Basis::Fitted if self.of_sides => {
                "a parameter was fitted to that figure, so it is not a prediction."
            }
            _ => basis.meaning(),
        };
        let bases = self.bases.iter().map(|basis| format!("'{}': {}", basis.word(), meaning(basis)));
        let small = self.faithful_from.map(|least| {
            format!(
                "'small': ratios are known to be those of the paper's size only from scale {} on.",
                scale(least)
            )
        });
        bases.chain(small).collect()
    }
}
