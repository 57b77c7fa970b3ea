//! Ranges: the values that a number may really have, and the reason.
//!
//! A run uses the number itself. A study draws from the range, to say how far a result depends on the number. So a
//! range is not part of the machine's content.

use serde::Serialize;

use super::{MachineError, Problem};
use crate::document::{Entry, Section};

/// The values that a number may really have, in its unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Range {
    /// The least value: at most the number, and less than `to`.
    pub from: f64,
    /// The greatest value: at least the number.
    pub to: f64,
    /// The reason for the bounds.
    pub because: String,
}

impl Range {
    /// Takes the optional `range` of the number `value`. `read` reads a bound as it reads the number, so a bound is a
    /// value that the number may have.
    pub(super) fn take(
        section: &mut Section<'_>,
        value: f64,
        read: impl Fn(&Entry<'_>) -> Result<f64, MachineError>,
    ) -> Result<Option<Self>, MachineError> {
        let Some(entry) = section.take_if_there("range") else { return Ok(None) };
        let place = entry.place().clone();
        let mut range = entry.section()?;
        let (from_entry, to_entry) = (range.take("from")?, range.take("to")?);
        let (from, to) = (read(&from_entry)?, read(&to_entry)?);
        let because = range.take("because")?.text()?;
        range.finish()?;
        if from > value {
            let bound = format!("at most {value}, the value");
            return Err(from_entry.place().error(Problem::invalid(from, bound)));
        }
        if to < value {
            let bound = format!("at least {value}, the value");
            return Err(to_entry.place().error(Problem::invalid(to, bound)));
        }
        if from >= to {
            let problem = Problem::invalid(format!("{from} to {to}"), "left out, or two different bounds");
            return Err(place.error(problem));
        }
        Ok(Some(Self { from, to, because }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    /// The range of the number 3, which is at most 100.
    fn take(range: &str) -> Result<Option<Range>, String> {
        let text = format!("[a]\n{range}\n");
        let read = |entry: &Entry<'_>| entry.count(0, 100).map(f64::from);
        let section = parse("f", &text).and_then(|mut root| root.take("a")).and_then(Entry::section);
        section
            .and_then(|mut section| {
                let range = Range::take(&mut section, 3.0, read)?;
                section.finish()?;
                Ok(range)
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_range_has_two_bounds_and_a_reason() {
        let of = |from, to| Some(Range { from, to, because: "why".into() });
        assert_eq!(take("range = { from = 1, to = 6, because = 'why' }"), Ok(of(1.0, 6.0)));
        assert_eq!(take("range = { from = 3, to = 6, because = 'why' }"), Ok(of(3.0, 6.0)));
        assert_eq!(take("range = { from = 1, to = 3, because = 'why' }"), Ok(of(1.0, 3.0)));
        assert_eq!(take(""), Ok(None));
    }

    #[test]
    fn bad_ranges_are_refused() {
        for (range, expected) in [
            ("3", "f:2: a.range: expected a table, found a whole number"),
            ("{ to = 6, because = 'why' }", "f:2: a.range.from: missing"),
            ("{ from = 1, because = 'why' }", "f:2: a.range.to: missing"),
            ("{ from = 1, to = 6 }", "f:2: a.range.because: missing"),
            (
                "{ from = 1, to = 6, because = '' }",
                "f:2: a.range.because: \"\": must be a text that is not blank",
            ),
            ("{ from = 1, to = 6, because = 'why', x = 1 }", "f:2: a.range.x: unknown key"),
            ("{ from = 4, to = 6, because = 'why' }", "f:2: a.range.from: 4: must be at most 3, the value"),
            ("{ from = 1, to = 2, because = 'why' }", "f:2: a.range.to: 2: must be at least 3, the value"),
            (
                "{ from = 3, to = 3, because = 'why' }",
                "f:2: a.range: 3 to 3: must be left out, or two different bounds",
            ),
            (
                "{ from = 1.5, to = 6, because = 'why' }",
                "f:2: a.range.from: expected a whole number, found a number",
            ),
            ("{ from = 1, to = 101, because = 'why' }", "f:2: a.range.to: 101: must be 0 to 100"),
        ] {
            assert_eq!(take(&format!("range = {range}")).expect_err("must be refused"), expected);
        }
    }
}
