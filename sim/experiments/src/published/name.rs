//! The names of published figures, as machine files give them.
//!
//! A name is an experiment and the words that narrow its figures down: a machine, a number of threads (`x4`), a time of
//! listing new pages (`eager`, `batched`), a metric, a side (`before`, `after`). It names every figure that all of its
//! words apply to, so `tlb-flush2 milan-72 x4` names both sides of one row.

use std::fmt;
use std::str::FromStr;

use ceasefire_machine::config::{Machine, MachineError, Mark};

use super::figures::{Row, RELATIVE, ROWS};
use crate::catalogue::EXPERIMENTS;
use crate::run::Plan;

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
///
/// As text it is its name, in as few words as narrow it down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The row.
    pub row: &'static Row,
    /// Its side.
    pub side: Side,
}

/// The reason for which a name is not that of one published figure, with the words that can follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFigure(String);

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoFigure {}

impl FromStr for Figure {
    type Err = NoFigure;

    fn from_str(name: &str) -> Result<Self, NoFigure> {
        find(name).and_then(only).map_err(|bound| NoFigure(format!("{name:?}: must be {bound}")))
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { experiment, machine, metric, case, .. } = self.row;
        let mut name = format!("{experiment} {machine}");
        let case = case.iter().flat_map(|case| [format!("x{}", case.threads), case.lru_drain.to_owned()]);
        let count = |name: &str| find(name).map_or(0, |figures| figures.len());
        for word in std::iter::once((*metric).to_owned()).chain(case).chain([self.side.name().to_owned()]) {
            let narrower = format!("{name} {word}");
            if count(&narrower) < count(&name) {
                name = narrower;
            }
        }
        f.write_str(&name)
    }
}

impl Figure {
    /// The figure that a mark of a machine's number names, which must be only one.
    ///
    /// # Errors
    /// It names none or several.
    pub fn of_mark(mark: &Mark) -> Result<Self, MachineError> {
        figures(mark).and_then(|figures| only(figures).map_err(|bound| mark.error(bound)))
    }

    /// The published number. `None`: the paper gives only the ratio of its two sides.
    pub fn value(&self) -> Option<f64> {
        let Row { unit, before, after, .. } = *self.row;
        let value = match self.side {
            Side::Before => before,
            Side::After => after,
        };
        (unit != RELATIVE).then_some(value)
    }

    /// The run that measures the figure on a machine, at the experiment's own scale and without checkers: they change
    /// no figure.
    ///
    /// # Panics
    /// If no experiment has the row's name. Every row has one.
    pub fn plan(&self, machine: Machine) -> Plan {
        let of_row = EXPERIMENTS.iter().find(|experiment| experiment.name == self.row.experiment);
        let experiment = of_row.expect("every row has an experiment");
        let mechanism = match self.side {
            Side::Before => experiment.baseline(),
            Side::After => experiment.proposal(),
        };
        let (threads, lru_drain) = self.row.case.map(|case| (case.threads, case.lru_drain())).unzip();
        Plan { mechanism, threads, lru_drain, oracle: false, shadow: false, ..Plan::new(experiment, machine) }
    }

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

/// The figure, or the words that narrow several down.
fn only(figures: Vec<Figure>) -> Result<Figure, String> {
    match figures[..] {
        [figure] => Ok(figure),
        _ => Err(format!(
            "one figure, not {}; it can be narrowed by {}",
            figures.len(),
            narrowing(&figures).join(", ")
        )),
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
    use ceasefire_machine::config::{builtin, BUILTIN};

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
    fn every_figure_has_a_name_and_a_run() {
        for row in ROWS {
            for side in Side::ALL {
                let figure = Figure { row, side };
                let name = figure.to_string();
                assert_eq!(name.parse(), Ok(figure), "{name}");
                let machine = builtin(row.machine).expect("a listed name").expect("a valid file");
                let plan = figure.plan(machine);
                assert_eq!(plan.check().map_err(|error| error.to_string()), Ok(()), "{name}");
                assert_eq!(plan.threads, row.case.map(|case| case.threads));
                assert_eq!(plan.mechanism == plan.experiment.baseline(), side == Side::Before, "{name}");
            }
        }
    }

    #[test]
    fn the_marks_of_the_machines_are_the_shortest_names() {
        for machine in BUILTIN.iter().map(|name| builtin(name).expect("a listed name").expect("a valid file"))
        {
            for mark in machine.sources.iter().filter_map(|parameter| parameter.marks.fitted.as_ref()) {
                let figure = Figure::of_mark(mark).expect("one figure");
                assert_eq!(figure.to_string(), mark.name());
            }
        }
    }

    #[test]
    fn a_name_of_several_figures_is_refused_in_one_line() {
        let refused = "mmap-read 1-socket user".parse::<Figure>().expect_err("two figures").to_string();
        assert_eq!(
            refused,
            "\"mmap-read 1-socket user\": must be one figure, not 2; it can be narrowed by before, after"
        );
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
