//! The origin of a number: its source, its range, and its marks, the published figures to which it was fitted or in
//! sight of which it was chosen.

use serde::{Serialize, Serializer};

use super::range::Range;
use super::{MachineError, Problem};
use crate::document::{Entry, Section};

/// The name of published figures in a machine file, such as `mmap-read 1-socket user before`, and its place there.
///
/// This crate knows no published figures. The experiments look the name up and report an unknown one with
/// [`error`](Self::error).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    name: String,
    file: String,
    line: Option<u32>,
    key: String,
}

impl Mark {
    /// The name of the figures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The error for a name that is not allowed. `bound` describes the allowed names.
    pub fn error(&self, bound: impl Into<String>) -> MachineError {
        MachineError {
            file: self.file.clone(),
            line: self.line,
            column: None,
            key: Some(self.key.clone()),
            problem: Problem::invalid(format!("{:?}", self.name), bound),
        }
    }
}

impl Serialize for Mark {
    /// The name alone.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

/// The published figures that determined a number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// The figure to which the number was fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Mark>,
    /// The figures in sight of which the number was chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Mark>,
}

impl Marks {
    /// The names of [`seen`](Self::seen), separated by commas; empty if there are none.
    pub fn seen_names(&self) -> String {
        let names: Vec<&str> = self.seen.iter().map(Mark::name).collect();
        names.join(", ")
    }
}

/// The source of a number, with its marks and its range.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) source: String,
    pub(super) marks: Marks,
    pub(super) range: Option<Range>,
}

impl Origin {
    /// Takes `source`, a text that is not blank, and the optional marks beside it: `fitted`, a name, and `seen`, a
    /// list of names.
    pub(super) fn take(section: &mut Section<'_>) -> Result<Self, MachineError> {
        let entry = section.take("source")?;
        let source = entry.text()?;
        if source.starts_with("fitted:") {
            let problem = Problem::invalid(format!("{source:?}"), "a source; the figure belongs in `fitted`");
            return Err(entry.place().error(problem));
        }
        let mark = |entry: Entry<'_>| {
            let name = entry.text()?;
            // The place of an error at this entry.
            let MachineError { file, line, key, .. } = entry.place().error(Problem::Missing);
            Ok(Mark { name, file, line, key: key.unwrap_or_default() })
        };
        let fitted = section.take_if_there("fitted").map(mark).transpose()?;
        let seen = match section.take_if_there("seen") {
            Some(entry) => {
                let place = entry.place().clone();
                let seen = entry.items()?.into_iter().map(mark).collect::<Result<Vec<_>, _>>()?;
                if seen.is_empty() {
                    return Err(place.error(Problem::invalid("an empty list", "at least one name")));
                }
                seen
            }
            None => Vec::new(),
        };
        Ok(Self { source, marks: Marks { fitted, seen }, range: None })
    }

    /// The same in a table of one number, `value`, which may have a range unless it was fitted. `read` reads a bound of
    /// the range as it reads the number.
    pub(super) fn take_with_range(
        section: &mut Section<'_>,
        value: f64,
        read: impl Fn(&Entry<'_>) -> Result<f64, MachineError>,
    ) -> Result<Self, MachineError> {
        let origin = Self::take(section)?;
        let range = Range::take(section, value, read)?;
        if range.is_some() && origin.marks.fitted.is_some() {
            let problem =
                Problem::invalid("`range` beside `fitted`", "one of the two: a fit determines its number");
            return Err(section.place().error(problem));
        }
        Ok(Self { range, ..origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn take(text: &str) -> Result<Origin, String> {
        let section = parse("f", text).and_then(|mut root| root.take("a")).and_then(Entry::section);
        section
            .and_then(|mut section| {
                let origin = Origin::take(&mut section)?;
                section.finish()?;
                Ok(origin)
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn marks_stand_beside_the_source() {
        let origin = take("[a]\nsource = 's'\nfitted = 'x y'\nseen = ['u', 'v w']").expect("valid");
        assert_eq!(origin.source, "s");
        assert_eq!(origin.range, None);
        let Marks { fitted, seen } = origin.marks;
        assert_eq!(fitted.as_ref().map(Mark::name), Some("x y"));
        assert_eq!(seen.iter().map(Mark::name).collect::<Vec<_>>(), ["u", "v w"]);
        assert_eq!(seen[1].error("known").to_string(), "f:4: a.seen[1]: \"v w\": must be known");
        assert_eq!(take("[a]\nsource = 's'").expect("valid").marks, Marks::default());
    }

    #[test]
    fn marks_of_another_form_are_refused() {
        for (text, expected) in [
            ("fitted = ['x']", "f:3: a.fitted: expected a text, found a list"),
            ("fitted = ' '", "f:3: a.fitted: \" \": must be a text that is not blank"),
            ("seen = 'x'", "f:3: a.seen: expected a list, found a text"),
            ("seen = [3]", "f:3: a.seen[0]: 3: must be a text: \"3\""),
            ("seen = []", "f:3: a.seen: an empty list: must be at least one name"),
            ("tuned = 'x'", "f:3: a.tuned: unknown key"),
        ] {
            assert_eq!(take(&format!("[a]\nsource = 's'\n{text}")).expect_err("must be refused"), expected);
        }
    }

    #[test]
    fn a_fitted_number_has_no_range() {
        let take = |text: &str| {
            let text = format!("[a]\nsource = 's'\nrange = {{ from = 2, to = 5, because = 'why' }}\n{text}");
            let section = parse("f", &text).and_then(|mut root| root.take("a")).and_then(Entry::section);
            let origin = section.and_then(|mut section| {
                Origin::take_with_range(&mut section, 3.0, |entry| entry.count(0, 9).map(f64::from))
            });
            origin.map(|origin| origin.range).map_err(|error| error.to_string())
        };
        let range = Range { from: 2.0, to: 5.0, because: "why".into() };
        assert_eq!(take("seen = ['x']"), Ok(Some(range)));
        let refused = "f:1: a: `range` beside `fitted`: must be one of the two: a fit determines its number";
        assert_eq!(take("fitted = 'x'"), Err(refused.to_owned()));
    }

    #[test]
    fn a_fit_that_only_the_source_names_is_refused() {
        let refused = take("[a]\nsource = 'fitted: user'").expect_err("must be refused");
        assert_eq!(
            refused,
            "f:2: a.source: \"fitted: user\": must be a source; the figure belongs in `fitted`"
        );
        assert!(take("[a]\nsource = 'assumed: fitted: no'").is_ok());
    }
}
