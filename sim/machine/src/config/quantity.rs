//! Numbers with a unit and a source.

use std::num::NonZeroU32;

use serde::Serialize;

use super::mark::{Marks, Origin};
use super::range::Range;
use super::{MachineError, Problem};
use crate::document::Entry;

/// Picoseconds of simulated time.
pub type Picoseconds = u64;

/// One number of a machine, as its file states it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// The dotted key in the machine file, such as `costs.access`.
    pub key: String,
    /// The number, in `unit`.
    pub value: f64,
    /// The unit, such as `ns`, `GiB` or `entries`.
    pub unit: String,
    /// The source of the number: a publication or `assumed: <why>`.
    pub source: String,
    /// The published figures to which the number was fitted, or in sight of which it was chosen.
    #[serde(flatten)]
    pub marks: Marks,
    /// The values that the number may really have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
}

impl Parameter {
    /// A number whose source, marks and range are those of `origin`.
    pub(super) fn new(key: impl Into<String>, value: f64, unit: impl Into<String>, origin: &Origin) -> Self {
        let Origin { source, marks, range } = origin.clone();
        Self { key: key.into(), value, unit: unit.into(), source, marks, range }
    }

    /// Whether the number was fitted to a published figure. The simulation cannot predict that figure.
    pub fn is_fitted(&self) -> bool {
        self.marks.fitted.is_some()
    }

    /// Whether the number is an assumption: nobody measured it.
    pub fn is_assumed(&self) -> bool {
        self.source.starts_with("assumed")
    }

    /// Whether the number was not fitted but chosen with published figures in sight.
    pub fn is_tuned(&self) -> bool {
        !self.is_fitted() && !self.marks.seen.is_empty()
    }

    /// The value with its unit, its source, the published figures that determined it, and its range with the reason.
    pub fn described(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let fitted =
            self.marks.fitted.as_ref().map_or(String::new(), |mark| format!("; fitted to: {}", mark.name()));
        let seen = match self.marks.seen_names() {
            names if names.is_empty() => names,
            names => format!("; tuned in sight of: {names}"),
        };
        let range = self.range.as_ref().map_or(String::new(), |range| {
            format!("; may be {} to {}{unit} ({})", range.from, range.to, range.because)
        });
        format!("{}{unit}  ({}){fitted}{seen}{range}", self.value, self.source)
    }

    /// Replaces the value. The marks and the range of the former value go.
    pub(super) fn replace(&mut self, value: f64, source: impl Into<String>) {
        self.value = value;
        self.source = source.into();
        self.marks = Marks::default();
        self.range = None;
    }
}

/// The units of one kind of quantity.
#[derive(Debug)]
pub(super) struct Scale {
    /// Each unit, as a multiple of the smallest.
    units: &'static [(&'static str, f64)],
    /// The largest allowed value, in the smallest unit.
    most: f64,
    /// `most` in words.
    most_shown: &'static str,
}

/// Times; the smallest unit is a picosecond.
pub(super) const TIME: Scale = Scale {
    units: &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9)],
    most: 1e12,
    most_shown: "0 to 1000 ms",
};

/// Amounts of memory; the smallest unit is a byte.
pub(super) const MEMORY: Scale = Scale {
    units: &[
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
    ],
    most: 1_125_899_906_842_624.0,
    most_shown: "0 to 1024 TiB",
};

/// Rates of reading or writing memory; the smallest unit is a byte a second.
pub(super) const RATE: Scale = Scale {
    units: &[("GB/s", 1e9), ("GiB/s", 1_073_741_824.0)],
    most: 1e15,
    most_shown: "0 to 1000000 GB/s",
};

/// The value in another unit of the same kind of quantity; none if there is no such unit.
pub(super) fn convert(value: f64, unit: &str, into: &str) -> Option<f64> {
    if unit == into {
        return Some(value);
    }
    SCALES.iter().find_map(|scale| Some(value * scale.size(unit)? / scale.size(into)?))
}

/// Whether a file states such a unit. Others, as entries and ways, are in the key.
pub(super) fn is_stated(unit: &str) -> bool {
    SCALES.iter().any(|scale| scale.size(unit).is_some())
}

/// All kinds of quantities with units.
const SCALES: [Scale; 3] = [TIME, MEMORY, RATE];

impl Scale {
    /// A unit as a multiple of the smallest.
    fn size(&self, unit: &str) -> Option<f64> {
        self.units.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size)
    }

    /// Reads `{ value, unit, source }` with its marks and its range, adds it to `sources`, and returns it in the
    /// smallest unit, rounded.
    pub(super) fn read(&self, entry: Entry<'_>, sources: &mut Vec<Parameter>) -> Result<u64, MachineError> {
        let mut section = entry.section()?;
        let key = section.place().key().to_owned();
        let (value_entry, unit_entry) = (section.take("value")?, section.take("unit")?);
        let unit = unit_entry.text()?;
        let Some(&(_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let known: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
            let bound = format!("one of {}", known.join(", "));
            return Err(unit_entry.place().error(Problem::invalid(format!("{unit:?}"), bound)));
        };
        let allowed = |entry: &Entry<'_>| {
            let value = entry.number()?;
            if !(0.0..=self.most).contains(&(value * factor)) {
                return Err(entry
                    .place()
                    .error(Problem::invalid(format!("{value} {unit}"), self.most_shown)));
            }
            Ok(value)
        };
        let value = allowed(&value_entry)?;
        let origin = Origin::take_with_range(&mut section, value, allowed)?;
        section.finish()?;
        sources.push(Parameter::new(key, value, unit, &origin));
        Ok((value * factor).round() as u64)
    }
}

/// Reads `{ value, unit, source }` of a count of `unit`, from 1 to `most`, and adds it to `sources`.
pub(super) fn read_count(
    entry: Entry<'_>,
    unit: &str,
    most: u32,
    sources: &mut Vec<Parameter>,
) -> Result<NonZeroU32, MachineError> {
    // At least 1, as just checked.
    read_whole(entry, unit, (1, most), sources).map(|count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN))
}

/// The same with a lower bound of `least`.
pub(super) fn read_whole(
    entry: Entry<'_>,
    unit: &str,
    (least, most): (u32, u32),
    sources: &mut Vec<Parameter>,
) -> Result<u32, MachineError> {
    let mut section = entry.section()?;
    let key = section.place().key().to_owned();
    let (value, unit_entry) = (section.take("value")?.count(least, most)?, section.take("unit")?);
    let bound = |entry: &Entry<'_>| entry.count(least, most).map(f64::from);
    let origin = Origin::take_with_range(&mut section, value.into(), bound)?;
    section.finish()?;

    let given = unit_entry.text()?;
    if given != unit {
        return Err(unit_entry.place().error(Problem::invalid(format!("{given:?}"), unit)));
    }
    sources.push(Parameter::new(key, f64::from(value), given, &origin));
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn read(scale: &Scale, text: &str) -> Result<(u64, Vec<Parameter>), String> {
        let mut sources = Vec::new();
        let value = parse("f", text).and_then(|mut root| scale.read(root.take("a")?, &mut sources));
        value.map(|value| (value, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_unit_is_converted() {
        for (scale, unit, expected) in [
            (&TIME, "ps", 2),
            (&TIME, "ns", 1_500),
            (&TIME, "us", 1_500_000),
            (&TIME, "ms", 1_500_000_000),
            (&MEMORY, "B", 2),
            (&MEMORY, "KiB", 1536),
            (&MEMORY, "MiB", 3 << 19),
            (&MEMORY, "GiB", 3 << 29),
            (&MEMORY, "TiB", 3 << 39),
        ] {
            let text = format!("a = {{ value = 1.5, unit = '{unit}', source = 's' }}");
            assert_eq!(read(scale, &text).expect("valid").0, expected, "{unit}");
        }
    }

    #[test]
    fn a_parameter_keeps_the_number_as_written() {
        let text = "a = { value = 6.76, unit = 'ns', source = 's', fitted = 'x', seen = ['y'] }";
        let (_, sources) = read(&TIME, text).expect("valid");
        let [parameter] = &sources[..] else { panic!("one parameter, not {sources:?}") };
        assert_eq!((parameter.key.as_str(), parameter.value, parameter.unit.as_str()), ("a", 6.76, "ns"));
        assert!(parameter.is_fitted() && !parameter.is_tuned());

        let text = "a = { value = 6.76, unit = 'ns', source = 's', seen = ['y'] }";
        let (_, mut sources) = read(&TIME, text).expect("valid");
        assert!(!sources[0].is_fitted() && sources[0].is_tuned());
        sources[0].replace(1.0, "chosen");
        assert!(!sources[0].is_tuned());
    }

    #[test]
    fn a_parameter_has_its_range_in_its_unit() {
        let range = "range = { from = 0.5, to = 3, because = 'why' }";
        let (value, mut sources) =
            read(&TIME, &format!("a = {{ value = 1, unit = 'us', source = 's', {range} }}")).expect("valid");
        let expected = Range { from: 0.5, to: 3.0, because: "why".into() };
        assert_eq!((value, sources[0].range.as_ref()), (1_000_000, Some(&expected)));
        assert_eq!(sources[0].described(), "1 us  (s); may be 0.5 to 3 us (why)");
        sources[0].replace(1.0, "chosen");
        assert_eq!(sources[0].range, None);
        assert_eq!(
            read(
                &TIME,
                "a = { value = 1, unit = 'us', source = 's', range = { from = -1, to = 3, because = 'w' } }"
            ),
            Err("f:1: a.range.from: -1 us: must be 0 to 1000 ms".to_owned())
        );
    }

    #[test]
    fn a_count_has_its_own_unit_and_bounds() {
        let count = |text| {
            let mut sources = Vec::new();
            parse("f", text)
                .and_then(|mut root| read_count(root.take("a")?, "requests", 9, &mut sources))
                .map(|count| (count.get(), sources.remove(0).unit))
                .map_err(|error| error.to_string())
        };
        for (text, expected) in [
            ("a = { value = 9, unit = 'requests', source = 's' }", Ok((9, "requests".to_owned()))),
            (
                "a = { value = 10, unit = 'requests', source = 's' }",
                Err("f:1: a.value: 10: must be 1 to 9".to_owned()),
            ),
            (
                "a = { value = 9, unit = 'ns', source = 's' }",
                Err("f:1: a.unit: \"ns\": must be requests".to_owned()),
            ),
            ("a = { value = 9, unit = 'requests' }", Err("f:1: a.source: missing".to_owned())),
            (
                "a = { value = 8, unit = 'requests', source = 's', range = { from = 8, to = 10, because = 'w' } }",
                Err("f:1: a.range.to: 10: must be 1 to 9".to_owned()),
            ),
        ] {
            assert_eq!(count(text), expected);
        }
    }

    #[test]
    fn bad_quantities_are_refused() {
        for (text, expected) in [
            ("a = 3", "f:1: a: expected a table, found a whole number"),
            ("a = { unit = 'ns', source = 's' }", "f:1: a.value: missing"),
            ("a = { value = 3, source = 's' }", "f:1: a.unit: missing"),
            ("a = { value = 3, unit = 'ns' }", "f:1: a.source: missing"),
            (
                "a = { value = 3, unit = 'ns', source = '' }",
                "f:1: a.source: \"\": must be a text that is not blank",
            ),
            ("a = { value = 3, unit = 'ns', source = 's', x = 1 }", "f:1: a.x: unknown key"),
            ("a = { value = -3, unit = 'ns', source = 's' }", "f:1: a.value: -3 ns: must be 0 to 1000 ms"),
            (
                "a = { value = 2e6, unit = 'ms', source = 's' }",
                "f:1: a.value: 2000000 ms: must be 0 to 1000 ms",
            ),
            (
                "a = { value = 3, unit = 's', source = 's' }",
                "f:1: a.unit: \"s\": must be one of ps, ns, us, ms",
            ),
        ] {
            assert_eq!(read(&TIME, text).expect_err("must be refused"), expected);
        }
    }
}
