//! Machines with some numbers changed, as studies need them.
//!
//! A [`MachineFile`] is a machine file as text, whose numbers are set by their keys: `costs.fault` to `900 ns`. A
//! number that was set says so in its source, and has no marks and no range: nothing published determined it, and
//! nothing about it is uncertain. The machine is read after each change, so a file is valid at any time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml_edit::{value, DocumentMut, Item, TableLike, Value};

use super::file::read_text;
use super::machine::Machine;
use super::quantity::{convert, is_stated};
use super::{builtin, MachineError, Parameter, Problem};
use crate::document::nearest;

/// A number of a machine, and its new value: `costs.fault=900 ns`.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The dotted key, as in [`Parameter::key`](super::Parameter::key).
    pub key: String,
    /// The value.
    pub value: f64,
    /// The unit; none for that of the file.
    pub unit: Option<String>,
}

/// A text that is no [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoChange(String);

impl fmt::Display for NoChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: must be KEY=NUMBER or KEY=NUMBER UNIT, as in costs.fault=900 ns", self.0)
    }
}

impl std::error::Error for NoChange {}

impl FromStr for Change {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Self, NoChange> {
        let parse = || {
            let (key, amount) = text.split_once('=')?;
            Self::of(key.trim(), amount)
        };
        parse().ok_or_else(|| NoChange(text.to_owned()))
    }
}

impl Change {
    /// The change of a key to an amount, such as `900 ns`; none if the amount does not begin with a number.
    pub fn of(key: &str, amount: &str) -> Option<Self> {
        let amount = amount.trim();
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E' | '_');
        let end = amount.find(|c| !digits(c)).unwrap_or(amount.len());
        let value = amount[..end].replace('_', "").parse().ok().filter(|value: &f64| value.is_finite())?;
        let unit = amount[end..].trim();
        let unit = (!unit.is_empty()).then(|| unit.to_owned());
        (!key.is_empty()).then(|| Self { key: key.to_owned(), value, unit })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)?;
        self.unit.as_ref().map_or(Ok(()), |unit| write!(f, " {unit}"))
    }
}

/// A machine file whose numbers can be changed. It describes a valid machine.
#[derive(Debug, Clone)]
pub struct MachineFile {
    document: DocumentMut,
    /// The file's name in errors.
    name: String,
    base_dir: PathBuf,
    machine: Machine,
}

impl MachineFile {
    /// That of the built-in machine called `name`, if there is one.
    ///
    /// # Errors
    /// As for [`Machine::from_toml`]. The built-in files are valid.
    pub fn builtin(name: &str) -> Option<Result<Self, MachineError>> {
        builtin::text(name).map(|text| Self::new(name, text, PathBuf::new(), None))
    }

    /// The file at `path`.
    ///
    /// # Errors
    /// As for [`Machine::from_file`].
    pub fn open(path: &Path) -> Result<Self, MachineError> {
        let base_dir = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        Self::new(&path.to_string_lossy(), &read_text(path)?, base_dir, Some(path))
    }

    fn new(name: &str, text: &str, base_dir: PathBuf, path: Option<&Path>) -> Result<Self, MachineError> {
        let mut machine = Machine::from_toml(name, text, &base_dir)?;
        machine.files.extend(path.map(Path::to_owned));
        let syntax = |error: toml_edit::TomlError| Problem::Syntax(error.message().to_owned()).in_file(name);
        Ok(Self { document: text.parse().map_err(syntax)?, name: name.to_owned(), base_dir, machine })
    }

    /// The machine that it describes now.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The number with this key, such as `costs.fault`.
    ///
    /// # Errors
    /// The machine has no such number.
    pub fn parameter(&self, key: &str) -> Result<&Parameter, MachineError> {
        let found = self.machine.sources.iter().find(|parameter| parameter.key == key);
        found.ok_or_else(|| {
            let known = self.machine.sources.iter().map(|parameter| parameter.key.as_str());
            self.error(key, Problem::Unknown(nearest(key, known).map(str::to_owned)))
        })
    }

    /// The change with its value in the unit that the number has now.
    ///
    /// # Errors
    /// The machine has no such number, or its unit is of another kind.
    pub fn in_own_unit(&self, change: &Change) -> Result<Change, MachineError> {
        let own = &self.parameter(&change.key)?.unit;
        let value = match &change.unit {
            None => change.value,
            Some(unit) => convert(change.value, unit, own).ok_or_else(|| {
                let value = format!("{} {unit}", change.value);
                self.error(&change.key, Problem::invalid(value, format!("in {own}, or such a unit")))
            })?,
        };
        Ok(Change { key: change.key.clone(), value, unit: is_stated(own).then(|| own.clone()) })
    }

    fn error(&self, key: &str, problem: Problem) -> MachineError {
        MachineError { key: Some(key.to_owned()), ..problem.in_file(&self.name) }
    }

    /// Sets a number. After an error the file is as it was.
    ///
    /// # Errors
    /// The machine has no such number, or the value or its unit is not allowed.
    pub fn set(&mut self, change: &Change) -> Result<(), MachineError> {
        self.set_all(std::slice::from_ref(change))
    }

    /// Sets several numbers, and reads the machine once. After an error the file is as it was.
    ///
    /// # Errors
    /// As for [`set`](Self::set), or the values do not fit together.
    pub fn set_all(&mut self, changes: &[Change]) -> Result<(), MachineError> {
        self.change(changes.iter().map(|change| (change, Origin::Chosen)))
    }

    /// Sets numbers that were fitted, each to the published figure of that name. `source` says how.
    ///
    /// # Errors
    /// As for [`set_all`](Self::set_all), or a number has no source of its own.
    pub fn set_fitted(&mut self, fitted: &[(Change, String)], source: &str) -> Result<(), MachineError> {
        let fitted = fitted.iter();
        self.change(fitted.map(|(change, figure)| (change, Origin::Fitted { figure, source })))
    }

    fn change<'a>(
        &mut self,
        changes: impl Iterator<Item = (&'a Change, Origin<'a>)>,
    ) -> Result<(), MachineError> {
        let mut document = self.document.clone();
        for (change, origin) in changes {
            self.parameter(&change.key)?;
            let target = find(document.as_item_mut(), &change.key);
            let target = target.ok_or_else(|| self.error(&change.key, Problem::Unknown(None)))?;
            replace(target, change, origin).map_err(|problem| self.error(&change.key, problem))?;
            // A number without a table of its own has its range beside it.
            let table =
                change.key.rsplit_once('.').and_then(|(table, _)| find(document.as_item_mut(), table));
            if let Some(table) = table.and_then(Item::as_table_like_mut) {
                table.remove("range");
            }
        }
        let text = document.to_string();
        // The number, not its place in a text that nobody has.
        let read = Machine::from_toml(&self.name, &text, &self.base_dir);
        let machine = read.map_err(|error| MachineError { line: None, ..error })?;
        let files = std::mem::take(&mut self.machine.files);
        self.machine = Machine { files, ..machine };
        self.document = document;
        Ok(())
    }
}

impl fmt::Display for MachineFile {
    /// The text of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document.fmt(f)
    }
}

/// The reason for which a number has its new value.
#[derive(Debug, Clone, Copy)]
enum Origin<'a> {
    /// It was chosen.
    Chosen,
    /// It was fitted to a figure.
    Fitted { figure: &'a str, source: &'a str },
}

/// A part of a dotted key.
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// The parts of a key such as `topology.nodes[0].memory`. A number that is none leads nowhere.
fn segments(key: &str) -> impl Iterator<Item = Segment<'_>> {
    key.split('.').flat_map(|part| {
        let (name, indices) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        let indices = indices.split('[').filter(|index| !index.is_empty());
        let index = |text: &str| {
            let number = text.strip_suffix(']').and_then(|text| text.parse().ok());
            Segment::Index(number.unwrap_or(usize::MAX))
        };
        std::iter::once(Segment::Key(name)).chain(indices.map(index))
    })
}

/// The part of a document at a dotted key.
fn find<'a>(document: &'a mut Item, key: &str) -> Option<&'a mut Item> {
    segments(key).try_fold(document, |item, segment| match segment {
        Segment::Key(key) => item.get_mut(key),
        Segment::Index(index) => item.get_mut(index),
    })
}

/// Sets the number at a place: a table with `value`, or a number in a table of several.
fn replace(item: &mut Item, change: &Change, origin: Origin<'_>) -> Result<(), Problem> {
    let Some(table) = item.as_table_like_mut() else {
        if let Origin::Fitted { figure, .. } = origin {
            let number = format!("fitted to {figure:?}");
            return Err(Problem::invalid(number, "a number with a source of its own"));
        }
        if let Some(unit) = &change.unit {
            return Err(Problem::invalid(format!("{unit:?}"), "a number without a unit"));
        }
        put(item, change.value);
        return Ok(());
    };
    let Some(number) = table.get_mut("value") else {
        return Err(Problem::invalid("a table of several numbers", "one number: add its key"));
    };
    put(number, change.value);
    if let Some(unit) = &change.unit {
        table.insert("unit", value(unit.as_str()));
    }
    say(table, change, origin);
    Ok(())
}

/// Writes a number: a whole one if it is whole, as counts are.
fn put(item: &mut Item, number: f64) {
    // Numbers that are whole and this small are exact.
    let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
    let new = if is_whole { Value::from(number as i64) } else { Value::from(number) };
    *item = value(new);
}

/// Says in the source that the number was chosen, or how it was fitted. Neither has a range of measurements.
fn say(table: &mut dyn TableLike, change: &Change, origin: Origin<'_>) {
    table.remove("range");
    match origin {
        Origin::Chosen => {
            table.insert("source", value(format!("chosen: {change}")));
            table.remove("fitted");
            table.remove("seen");
        }
        Origin::Fitted { figure, source } => {
            table.insert("source", value(source));
            table.insert("fitted", value(figure));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::builtin::BUILTIN;
    use super::super::Range;
    use super::*;

    fn file(name: &str) -> MachineFile {
        MachineFile::builtin(name).expect("a listed name").expect("a valid file")
    }

    fn change(text: &str) -> Change {
        text.parse().expect("a change")
    }

    #[test]
    fn a_change_is_a_key_a_number_and_perhaps_a_unit() {
        let of = |key: &str, value, unit: Option<&str>| Change {
            key: key.into(),
            value,
            unit: unit.map(str::to_owned),
        };
        for (text, expected) in [
            ("costs.fault=900 ns", of("costs.fault", 900.0, Some("ns"))),
            (" costs.fault = 0.9us", of("costs.fault", 0.9, Some("us"))),
            ("tlb.l1.entries=1_024", of("tlb.l1.entries", 1024.0, None)),
        ] {
            assert_eq!(change(text), expected, "{text}");
        }
        for text in ["costs.fault", "=3", "costs.fault=", "costs.fault=ns", "costs.fault=inf", "a=1e999"] {
            assert!(text.parse::<Change>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_that_was_set_says_so_and_has_no_marks_and_no_range() {
        let mut file = file("1-socket");
        file.set(&change("costs.access=5 ns")).expect("allowed");
        assert_eq!(file.machine().costs.access, 5000);
        assert_eq!(file.machine().built_in(), None);
        let parameter = file.machine().sources.iter().find(|known| known.key == "costs.access");
        let parameter = parameter.expect("a known key");
        assert_eq!(parameter.source, "chosen: costs.access=5 ns");
        assert!(!parameter.is_fitted() && !parameter.is_assumed() && !parameter.is_tuned());
        for (key, value) in [("costs.lock", "900 ns"), ("tlb.walk_cache.entries", "4096")] {
            assert!(file.parameter(key).is_ok_and(|parameter| parameter.range.is_some()), "{key}");
            file.set(&change(&format!("{key}={value}"))).expect("allowed, if outside the range");
            assert!(file.parameter(key).is_ok_and(|parameter| parameter.range.is_none()), "{key}");
        }
    }

    #[test]
    fn the_ends_of_all_ranges_make_a_valid_machine() {
        for name in BUILTIN {
            let whole = file(name);
            for end in [|range: &Range| range.from, |range: &Range| range.to] {
                let mut drawn = whole.clone();
                let changes: Vec<Change> = whole
                    .machine()
                    .sources
                    .iter()
                    .filter_map(|parameter| {
                        let value = end(parameter.range.as_ref()?);
                        Some(Change { key: parameter.key.clone(), value, unit: None })
                    })
                    .collect();
                drawn.set_all(&changes).unwrap_or_else(|error| panic!("{error}"));
                assert!(drawn.machine().sources.iter().all(|parameter| parameter.range.is_none()));
            }
        }
    }

    #[test]
    fn a_number_that_was_fitted_keeps_its_mark_and_is_read_again() {
        let mut file = file("1-socket");
        let figure = "mmap-read 1-socket user before".to_owned();
        let fitted =
            [(change("costs.access=3.5"), figure.clone()), (change("costs.l2_hit=4"), figure.clone())];
        file.set_fitted(&fitted, "fitted here").expect("allowed");
        let again = Machine::from_toml("1-socket", &file.to_string(), Path::new("")).expect("a valid file");
        for (key, value) in [("costs.access", 3.5), ("costs.l2_hit", 4.0)] {
            let parameter = again.sources.iter().find(|known| known.key == key).expect("a known key");
            assert_eq!((parameter.value, parameter.source.as_str()), (value, "fitted here"));
            assert_eq!(parameter.marks.fitted.as_ref().expect("a mark").name(), figure);
        }
        let refused = file.set_fitted(&[(change("tlb.l1.entries=128"), figure)], "s").expect_err("no source");
        assert_eq!(
            refused.to_string(),
            "1-socket: tlb.l1.entries: fitted to \"mmap-read 1-socket user before\": must be a number with a source \
             of its own"
        );
    }

    #[test]
    fn every_number_of_every_machine_can_be_set_to_itself() {
        for name in BUILTIN {
            let mut file = file(name);
            let machine = file.machine().clone();
            for parameter in machine.sources.iter().filter(|parameter| parameter.key != "latency.matrix") {
                let is_plain = !["ns", "us", "ms", "ps", "GiB", "KiB", "MiB", "B", "GB/s", "GiB/s"]
                    .contains(&parameter.unit.as_str());
                let unit = (!is_plain).then(|| parameter.unit.clone());
                let change = Change { key: parameter.key.clone(), value: parameter.value, unit };
                file.set(&change).unwrap_or_else(|error| panic!("{error}"));
            }
            assert_eq!(file.machine().hash(), machine.hash(), "{name}");
        }
    }

    #[test]
    fn a_number_is_found_by_its_key() {
        let file = file("1-socket");
        let parameter = file.parameter("costs.fault").expect("a known key");
        assert_eq!((parameter.key.as_str(), parameter.unit.as_str()), ("costs.fault", "ns"));
        let unknown = file.parameter("costs.fautl").expect_err("must be refused").to_string();
        assert_eq!(unknown, "1-socket: costs.fautl: unknown key; did you mean 'costs.fault'?");
    }

    #[test]
    fn a_change_is_converted_to_the_unit_of_the_file() {
        let file = file("1-socket");
        let own = |text: &str| file.in_own_unit(&change(text)).map(|own| own.to_string());
        assert_eq!(own("costs.fault=0.9 us").as_deref(), Ok("costs.fault=900 ns"));
        assert_eq!(own("costs.fault=900").as_deref(), Ok("costs.fault=900 ns"));
        assert_eq!(own("tlb.l1.entries=64").as_deref(), Ok("tlb.l1.entries=64"));
        assert_eq!(own("smt.slowdown=150 percent").as_deref(), Ok("smt.slowdown=150"));
        let refused = own("costs.fault=9 GiB").expect_err("must be refused").to_string();
        assert_eq!(refused, "1-socket: costs.fault: 9 GiB: must be in ns, or such a unit");
    }

    #[test]
    fn what_cannot_be_set_is_refused_in_one_line_and_nothing_changes() {
        let mut file = file("1-socket");
        let before = file.machine().clone();
        for (text, expected) in [
            ("costs.fautl=3 ns", "1-socket: costs.fautl: unknown key; did you mean 'costs.fault'?"),
            ("costs.fault.value=3", "1-socket: costs.fault.value: unknown key"),
            ("zzzzzzz=3", "1-socket: zzzzzzz: unknown key"),
            ("idle[9].exit=3 us", "1-socket: idle[9].exit: unknown key; did you mean 'idle[0].exit'?"),
            ("costs.fault=-3 ns", "1-socket: costs.fault.value: -3 ns: must be 0 to 1000 ms"),
            ("costs.fault=3 m", "1-socket: costs.fault.unit: \"m\": must be one of ps, ns, us, ms"),
            ("tlb.l1.entries=64 ns", "1-socket: tlb.l1.entries: \"ns\": must be a number without a unit"),
        ] {
            assert_eq!(file.set(&change(text)).expect_err("must be refused").to_string(), expected);
        }
        assert_eq!(*file.machine(), before);
    }

    proptest! {
        #[test]
        fn no_text_and_no_number_panics(key in "[a-z.\\[\\]0-9]{0,20}", value in any::<f64>(), unit in "[a-zA-Z]{0,3}") {
            let text = format!("{key}={value}{unit}");
            let _ = text.parse::<Change>();
            let unit = (!unit.is_empty()).then_some(unit);
            let mut file = file("1-socket");
            let _ = file.set(&Change { key, value, unit: unit.clone() });
            let _ = file.set(&Change { key: "costs.fault".into(), value, unit });
        }
    }
}
