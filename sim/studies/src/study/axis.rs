//! What a study varies: the key of a number, and its values.

use std::fmt;

use ceasefire_machine::config::{Change, Parameter};
use ceasefire_machine::document::{Entry, Error, Problem, Section};

/// A key and the value that it has in a run, as texts: `costs.fault` and `900 ns`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// A list of values.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    key: String,
    values: Vec<String>,
    /// Whether they are steps of a range, so that the others are allowed if the first and the last are.
    is_stepped: bool,
}

/// A range from which values are drawn.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    key: String,
    from: f64,
    to: f64,
    unit: Option<String>,
    spacing: Spacing,
    /// Whether values are rounded, since the number is a count.
    pub(super) is_whole: bool,
}

/// The density of the values in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spacing {
    /// Equal steps are equally likely.
    Linear,
    /// Equal ratios are equally likely.
    Log,
}

/// The most values of a list.
const MOST_VALUES: u32 = 1 << 20;

/// The values of a key: a list or a range.
#[derive(Debug)]
pub(super) enum Values {
    List(Axis),
    Range(Drawn),
}

impl Values {
    pub(super) fn key(&self) -> &str {
        match self {
            Self::List(list) => list.key(),
            Self::Range(range) => range.key(),
        }
    }
}

impl Axis {
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The values that decide whether all are allowed.
    pub(super) fn decisive(&self) -> impl Iterator<Item = Setting> + '_ {
        let last = self.len() - 1;
        (0..=last)
            .filter(move |&number| !self.is_stepped || number == 0 || number == last)
            .map(|number| self.value(number))
    }

    pub(super) fn value(&self, number: usize) -> Setting {
        Setting { key: self.key.clone(), value: self.values[number].clone() }
    }
}

impl Drawn {
    /// The range of a machine's number, if it has one. Ratios are equally likely, since most ranges are factors.
    pub(super) fn of(parameter: &Parameter, is_whole: bool) -> Option<Self> {
        let range = parameter.range.as_ref()?;
        Some(Self {
            key: parameter.key.clone(),
            from: range.from,
            to: range.to,
            // That of the file.
            unit: None,
            spacing: if range.from > 0.0 && !is_whole { Spacing::Log } else { Spacing::Linear },
            is_whole,
        })
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The value at a place from 0 to 1.
    pub(super) fn value(&self, at: f64) -> Setting {
        let number = match self.spacing {
            // Each whole number is equally likely, the last one too.
            Spacing::Linear if self.is_whole => (self.from + (self.to - self.from + 1.0) * at).floor(),
            Spacing::Linear => self.from + (self.to - self.from) * at,
            Spacing::Log => self.from * (self.to / self.from).powf(at),
        };
        let number = if self.is_whole { number.round() } else { number };
        let number = number.clamp(self.from, self.to);
        Setting { key: self.key.clone(), value: shown(number, self.unit.as_deref()) }
    }

    /// The ends of the range.
    pub(super) fn ends(&self) -> [Setting; 2] {
        [0.0, 1.0].map(|at| self.value(at))
    }
}

fn shown(number: f64, unit: Option<&str>) -> String {
    match unit {
        Some(unit) => format!("{number} {unit}"),
        None => number.to_string(),
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// Reads the values of a key. A single value is a list of one.
pub(super) fn values(key: String, entry: Entry<'_>) -> Result<Values, Error> {
    let text = |entry: &Entry<'_>| entry.written().ok_or_else(|| entry.wrong_type("a number or a text"));
    if entry.is_list() {
        let place = entry.place().clone();
        let items = entry.items()?;
        if items.is_empty() || items.len() > MOST_VALUES as usize {
            let bound = format!("1 to {MOST_VALUES} values");
            return Err(place.error(Problem::invalid(format!("a list of {}", items.len()), bound)));
        }
        let values: Vec<String> = items.iter().map(text).collect::<Result<_, _>>()?;
        let mut sorted: Vec<&String> = values.iter().collect();
        sorted.sort_unstable();
        if let Some([twice, ..]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(place.error(Problem::invalid(format!("{twice:?} again"), "given only once")));
        }
        return Ok(Values::List(Axis { key, values, is_stepped: false }));
    }
    if entry.written().is_some() {
        return Ok(Values::List(Axis { values: vec![text(&entry)?], key, is_stepped: false }));
    }
    range(key, entry.section()?)
}

/// Reads `{ from, to }` with `spacing` if it is drawn, or with `steps` if it is a list of equal steps.
fn range(key: String, mut section: Section<'_>) -> Result<Values, Error> {
    let place = section.place().clone();
    if key == "kernel" {
        return Err(place.error(Problem::invalid("a range", "a name or a list of names")));
    }
    let mut amount = |name: &str| {
        let entry = section.take(name)?;
        let written =
            entry.written().ok_or_else(|| entry.wrong_type("a number or a text such as \"3 ns\""))?;
        let amount = Change::of(&key, &written);
        amount.ok_or_else(|| {
            entry.place().error(Problem::invalid(format!("{written:?}"), "a number, perhaps with a unit"))
        })
    };
    let (from, to) = (amount("from")?, amount("to")?);
    if from.unit != to.unit {
        let bound = "in the same unit as `from`";
        return Err(
            place.error(Problem::invalid(format!("to = {}", shown(to.value, to.unit.as_deref())), bound))
        );
    }
    if from.value >= to.value {
        let range = format!("{} to {}", from.value, to.value);
        return Err(place.error(Problem::invalid(range, "a range: `from` below `to`")));
    }
    let steps = section.take_if_there("steps").map(|entry| entry.count(2, MOST_VALUES)).transpose()?;
    let spacing = match section.take_if_there("spacing") {
        None => Spacing::Linear,
        Some(entry) => match entry.text()?.as_str() {
            "linear" => Spacing::Linear,
            "log" if from.value > 0.0 => Spacing::Log,
            "log" => {
                let value = format!("from = {}", from.value);
                return Err(place.error(Problem::invalid(value, "above 0, since the spacing is log")));
            }
            other => {
                let bound = "\"linear\" or \"log\"";
                return Err(entry.place().error(Problem::invalid(format!("{other:?}"), bound)));
            }
        },
    };
    section.finish()?;
    let drawn = Drawn { key, from: from.value, to: to.value, unit: from.unit, spacing, is_whole: false };
    Ok(match steps {
        None => Values::Range(drawn),
        Some(steps) => {
            let at = |step| drawn.value(f64::from(step) / f64::from(steps - 1)).value;
            Values::List(Axis { values: (0..steps).map(at).collect(), key: drawn.key, is_stepped: true })
        }
    })
}
