//! A study: what it runs, what it varies, and the order of its points.

mod axis;
mod ranges;
mod read;
mod sample;
mod subject;

use std::path::Path;

use ceasefire_experiments::Mechanism;
use ceasefire_machine::document::{Error, Problem};
use serde::Serialize;

pub(crate) use self::axis::Setting;
use self::axis::{Axis, Drawn};
pub(crate) use self::ranges::is_whole;
pub use self::ranges::Ranges;
pub use self::sample::Method;
pub(crate) use self::sample::{mixed, Sample};
pub(crate) use self::subject::{Chosen, Subject};
use crate::point::Point;

/// The most points of a study. At a second each, that many take ten years of one processor.
pub const MOST_POINTS: u64 = 300_000_000;

/// The runs that the oracle and the shadow record check. They change no figure, and take about half of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The first draw with the first seed, of every combination of values.
    First,
    /// All.
    All,
    /// None.
    None,
}

/// Very many runs, described once.
///
/// Its points are numbered. The draws are the outermost order, so the first points are a smaller study of the same kind;
/// then come the values of the lists, the experiments with their machines, the mechanisms and the seeds.
#[derive(Debug, Clone)]
pub struct Study {
    /// The text that describes it.
    text: String,
    subjects: Vec<Subject>,
    axes: Vec<Axis>,
    drawn: Vec<Drawn>,
    /// The keys of the machines' numbers that are drawn from the ranges of the machine files.
    uncertain: Vec<String>,
    /// Without drawn values, one draw of none.
    sample: Sample,
    seeds: Vec<u64>,
    check: Check,
    points: u64,
}

impl Study {
    /// Reads a study file. Paths in it begin at its folder.
    ///
    /// # Errors
    /// The file cannot be read or is not valid, or a machine or an experiment refuses a value. The error names the
    /// place.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.to_string_lossy();
        let unreadable = |error: std::io::Error| Problem::Unreadable(error.to_string()).in_file(&name);
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::from_text(&name, &text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads the text of a study file, called `name` in errors. Paths in it begin at `folder`.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_text(name: &str, text: &str, folder: &Path) -> Result<Self, Error> {
        read::read(name, text, folder)
    }

    /// The text that describes the study.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of points.
    pub fn len(&self) -> u64 {
        self.points
    }

    /// Whether there is no point. No study is empty.
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }

    /// The point with this number.
    ///
    /// # Panics
    /// If there are not so many points.
    pub fn point(&self, number: u64) -> Point<'_> {
        assert!(number < self.points, "point {number} of {}", self.points);
        let mut left = number;
        // The last digit of a number in a system with these digits.
        let mut digit = |count: usize| {
            let digit = left % count as u64;
            left /= count as u64;
            digit as usize
        };
        let seed = digit(self.seeds.len());
        let in_subjects = digit(self.subjects.iter().map(|subject| subject.mechanisms.len()).sum());
        let (subject, mechanism) = self.subject(in_subjects);
        let mut settings: Vec<Setting> =
            self.axes.iter().rev().map(|axis| axis.value(digit(axis.len()))).collect();
        settings.reverse();
        let draw = left;
        let at = self.sample.draw(draw);
        let (of_drawn, of_uncertain) = at.split_at(self.drawn.len());
        settings.extend(self.drawn.iter().zip(of_drawn).map(|(drawn, at)| drawn.value(*at)));
        let ranges = &subject.ranges;
        settings
            .extend(self.uncertain.iter().zip(of_uncertain).filter_map(|(key, at)| ranges.value(key, *at)));
        let is_checked = match self.check {
            Check::First => draw == 0 && seed == 0,
            Check::All => true,
            Check::None => false,
        };
        Point::new(subject, mechanism, settings, self.seeds[seed], is_checked)
    }

    /// The experiment on its machine, and the mechanism, with this number.
    fn subject(&self, number: usize) -> (&Subject, Mechanism) {
        let mut number = number;
        for subject in &self.subjects {
            match subject.mechanisms.get(number) {
                Some(&mechanism) => return (subject, mechanism),
                None => number -= subject.mechanisms.len(),
            }
        }
        unreachable!("the number is below the sum of all mechanisms")
    }
}
