//! The names of published figures, as machine files give them.
//!
//! A name is an experiment and the words that narrow its figures down: a machine, a number of threads (`x4`), a time of
//! listing new pages (`eager`, `batched`), a metric, a side (`before`, `after`). It names every figure that all of its
//! words apply to, so `tlb-flush2 milan-72 x4` names both sides of one row.

use ceasefire_machine::config::{MachineError, Mark};

use super::figures::{Row, ROWS};

/// A side of a published row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The paper's baseline.
    Before,
    /// The paper's mechanism.
    After,
}

impl Side {
    /// Both sides.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];

    /// `before` or `after`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// One published figure: a side of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) row: &'static Row,
    pub(crate) side: Side,
}

impl Figure {
    /// The words that apply to it, besides its experiment.
    fn words(self) -> Vec<String> {
        let Row { machine, metric, case, .. } = self.row;
        let case = case.iter().flat_map(|case| [format!("x{}", case.threads), case.lru_drain.to_owned()]);
        let words = [*machine, *metric, self.side.name()].map(str::to_owned);
        words.into_iter().chain(case).collect()
    }
}

/// The figures that a mark names: at least one.
pub(super) fn figures(mark: &Mark) -> Result<Vec<Figure>, MachineError> {
    find(mark.name()).map_err(|bound| mark.error(bound))
}

/// The figure that a mark names, which must be only one.
pub(super) fn figure(mark: &Mark) -> Result<Figure, MachineError> {
    let figures = figures(mark)?;
    match figures[..] {
        [figure] => Ok(figure),
        _ => Err(mark.error(format!(
            "one figure, not {}; it can be narrowed by {}",
            figures.len(),
            narrowing(&figures).join(", ")
        ))),
    }
}

/// The figures called `name`, or the allowed names.
fn find(name: &str) -> Result<Vec<Figure>, String> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let experiment = words.first().copied().unwrap_or_default();
    let rows = ROWS.iter().filter(|row| row.experiment == experiment);
    let mut found: Vec<Figure> = rows.flat_map(|row| Side::ALL.map(|side| Figure { row, side })).collect();
    if found.is_empty() {
        let mut known: Vec<&str> = ROWS.iter().map(|row| row.experiment).collect();
        known.dedup();
        return Err(format!("an experiment with published figures first, one of {}", known.join(", ")));
    }
    let mut said = experiment.to_owned();
    for (place, word) in words.iter().enumerate().skip(1) {
        let narrower: Vec<Figure> = found
            .iter()
            .copied()
            .filter(|figure| figure.words().iter().any(|known| known == *word))
            .collect();
        if narrower.is_empty() || words[..place].contains(word) {
            let known = narrowing(&found);
            return Err(if known.is_empty() {
                format!("{said:?}, which is one figure")
            } else {
                format!("{said:?} and then one of {}", known.join(", "))
            });
        }
        found = narrower;
        said = format!("{said} {word}");
    }
    Ok(found)
}

/// The words that apply to some of the figures but not to all.
fn narrowing(figures: &[Figure]) -> Vec<String> {
    let all: Vec<Vec<String>> = figures.iter().map(|figure| figure.words()).collect();
    let mut known: Vec<String> = Vec::new();
    for word in all.iter().flatten() {
        if !known.contains(word) && !all.iter().all(|words| words.contains(word)) {
            known.push(word.clone());
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_experiment_and_the_words_that_narrow_it_down() {
        let count = |name| find(name).map(|figures| figures.len());
        assert_eq!(count("mmap-read"), Ok(24));
        assert_eq!(count("mmap-read 1-socket"), Ok(12));
        assert_eq!(count("mmap-read user before"), Ok(2));
        assert_eq!(count("tlb-flush2 milan-72 x4"), Ok(2));
        assert_eq!(count("tlb-flush2 after milan-72 x4"), Ok(1));
        let [Figure { row, side: Side::After }] =
            find("mmap-read 1-socket system after").expect("a name")[..]
        else {
            panic!("one figure")
        };
        assert_eq!((row.machine, row.metric, row.after), ("1-socket", "system", 76.56));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for (name, expected) in [
            (
                "mmap-write",
                "an experiment with published figures first, one of mmap-read, migrate, tiered-inference, tlb-flush2",
            ),
            (
                "tlb-flush2 milan-36 x72",
                "\"tlb-flush2 milan-36\" and then one of before, eager, after, batched",
            ),
            (
                "migrate 2-socket-intel pages_migrated_per_second middle",
                "\"migrate 2-socket-intel pages_migrated_per_second\" and then one of before, after",
            ),
            (
                "mmap-read 1-socket 1-socket user before",
                "\"mmap-read 1-socket\" and then one of elapsed, before, after, time_range, time_stddv, user, system, \
                 interrupts_per_second",
            ),
            ("tlb-flush2 x1 before seen", "\"tlb-flush2 x1 before\", which is one figure"),
        ] {
            assert_eq!(find(name).expect_err("must be refused"), expected, "{name}");
        }
    }
}
