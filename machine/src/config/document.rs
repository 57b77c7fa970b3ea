//! A TOML document, read key by key. Every part knows its place.

use toml::de::{DeTable, DeValue};

use super::error::{MachineError, Problem};

/// The greatest number of characters of a value that an error repeats.
const SHOWN: usize = 60;

/// Parses `text`; `file` is its name in errors.
pub(super) fn parse<'a>(file: &'a str, text: &'a str) -> Result<Section<'a>, MachineError> {
    let place = Place { file, text, key: String::new(), offset: None };
    match DeTable::parse(text) {
        Ok(table) => Ok(Section { place, table: table.into_inner() }),
        Err(error) => {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            Err(Place { offset: error.span().map(|span| span.start), ..place }
                .error(Problem::Syntax(message)))
        }
    }
}

/// The place of a part of a document.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    file: &'a str,
    text: &'a str,
    key: String,
    offset: Option<usize>,
}

impl Place<'_> {
    /// `problem`, at this place.
    pub(super) fn error(&self, problem: Problem) -> MachineError {
        MachineError {
            file: self.file.to_owned(),
            line: self.offset.map(|offset| self.line(offset)),
            column: None,
            key: (!self.key.is_empty()).then(|| self.key.clone()),
            problem,
        }
    }

    /// The dotted key of this place.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The place of `key` within this one, at the offset of this one.
    fn inner(&self, key: &str) -> Self {
        let dot = if self.key.is_empty() { "" } else { "." };
        Self { key: format!("{}{dot}{key}", self.key), ..self.clone() }
    }

    fn line(&self, offset: usize) -> u32 {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count() as u32
    }
}

/// A table. The reader takes out the keys that it knows, and then no key may be left.
#[derive(Debug)]
pub(super) struct Section<'a> {
    place: Place<'a>,
    table: DeTable<'a>,
}

impl<'a> Section<'a> {
    /// The place of the table.
    pub(super) fn place(&self) -> &Place<'a> {
        &self.place
    }

    /// Takes out the value of `key`, or reports that it is missing.
    pub(super) fn take(&mut self, key: &str) -> Result<Entry<'a>, MachineError> {
        self.take_if_there(key).ok_or_else(|| self.place.inner(key).error(Problem::Missing))
    }

    /// Takes out the value of `key`, if it is there.
    pub(super) fn take_if_there(&mut self, key: &str) -> Option<Entry<'a>> {
        let value = self.table.remove(key)?;
        let place = Place { offset: Some(value.span().start), ..self.place.inner(key) };
        Some(Entry { place, value: value.into_inner() })
    }

    /// Refuses a key that was not taken.
    pub(super) fn finish(self) -> Result<(), MachineError> {
        match self.table.iter().map(|(key, _)| key).min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                let place = Place { offset: Some(key.span().start), ..self.place.inner(key.get_ref()) };
                Err(place.error(Problem::Unknown))
            }
        }
    }
}

/// A value and its place.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    place: Place<'a>,
    value: DeValue<'a>,
}

impl<'a> Entry<'a> {
    /// The place of the value.
    pub(super) fn place(&self) -> &Place<'a> {
        &self.place
    }

    /// The value as a text that is not blank.
    pub(super) fn text(&self) -> Result<String, MachineError> {
        match &self.value {
            DeValue::String(text) if text.trim().is_empty() => {
                Err(self.place.error(Problem::invalid(format!("{text:?}"), "a text that is not blank")))
            }
            DeValue::String(text) => Ok(text.clone().into_owned()),
            other => Err(wrong_type(&self.place, "a text", other)),
        }
    }

    /// The value as a finite number.
    pub(super) fn number(&self) -> Result<f64, MachineError> {
        let number = match &self.value {
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|integer| integer as f64)
            }
            DeValue::Float(float) => float.as_str().parse().ok(),
            other => return Err(wrong_type(&self.place, "a number", other)),
        };
        number
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| self.place.error(Problem::invalid(shown(&self.value), "a finite number")))
    }

    /// The value as a whole number from `least` to `most`.
    pub(super) fn count(&self, least: u32, most: u32) -> Result<u32, MachineError> {
        let DeValue::Integer(integer) = &self.value else {
            return Err(wrong_type(&self.place, "a whole number", &self.value));
        };
        u32::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|count| (least..=most).contains(count))
            .ok_or_else(|| {
                self.place.error(Problem::invalid(shown(&self.value), format!("{least} to {most}")))
            })
    }

    /// The value as true or false.
    pub(super) fn flag(&self) -> Result<bool, MachineError> {
        match &self.value {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(wrong_type(&self.place, "true or false", other)),
        }
    }

    /// The value as a table.
    pub(super) fn section(self) -> Result<Section<'a>, MachineError> {
        match self.value {
            DeValue::Table(table) => Ok(Section { place: self.place, table }),
            other => Err(wrong_type(&self.place, "a table", &other)),
        }
    }

    /// The value as a list, whose items are keyed `[0]`, `[1]` and so on.
    pub(super) fn items(self) -> Result<Vec<Entry<'a>>, MachineError> {
        let DeValue::Array(items) = self.value else {
            return Err(wrong_type(&self.place, "a list", &self.value));
        };
        let entry = |(index, item): (usize, toml::Spanned<DeValue<'a>>)| Entry {
            place: Place {
                key: format!("{}[{index}]", self.place.key),
                offset: Some(item.span().start),
                ..self.place.clone()
            },
            value: item.into_inner(),
        };
        Ok(items.into_iter().enumerate().map(entry).collect())
    }

    /// The value as a list of tables, each of which `read` reads. Each `subject` is given at most once.
    pub(super) fn each<T>(
        self,
        mut read: impl FnMut(Section<'a>) -> Result<T, MachineError>,
        subject: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, MachineError> {
        let mut all = Vec::new();
        for item in self.items()? {
            let place = item.place().clone();
            let one = read(item.section()?)?;
            if all.iter().any(|earlier| subject(earlier) == subject(&one)) {
                let value = format!("{} again", subject(&one));
                return Err(place.error(Problem::invalid(value, "given only once")));
            }
            all.push(one);
        }
        Ok(all)
    }
}

fn wrong_type(place: &Place<'_>, expected: &'static str, found: &DeValue<'_>) -> MachineError {
    let found = match found {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    place.error(Problem::WrongType { expected, found })
}

fn shown(value: &DeValue<'_>) -> String {
    let text = match value {
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        other => other.type_str().to_owned(),
    };
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &'static str) -> Entry<'static> {
        parse("f", text).and_then(|mut root| root.take("a")).expect("a test's own document")
    }

    fn message<T: std::fmt::Debug>(result: Result<T, MachineError>) -> String {
        result.expect_err("must be refused").to_string()
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let error = message(parse("f", "a = 1\nb = = 2\n"));
        assert!(error.starts_with("f:2: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn a_duplicate_key_is_refused() {
        assert_eq!(message(parse("f", "a = 1\na = 2\n")), "f:2: duplicate key");
    }

    #[test]
    fn errors_name_missing_and_unknown_keys() {
        let mut root = parse("f", "[s]\nx = 1\n\n[t]\n").expect("valid");
        assert_eq!(message(root.take("u")), "f: u: missing");
        let mut section = root.take("s").and_then(Entry::section).expect("a table");
        assert_eq!(message(section.take("y")), "f:1: s.y: missing");
        assert_eq!(message(section.finish()), "f:2: s.x: unknown key");
        assert_eq!(message(root.finish()), "f:4: t: unknown key");
    }

    #[test]
    fn errors_name_wrong_types() {
        assert_eq!(message(value("a = 1").text()), "f:1: a: expected a text, found a whole number");
        assert_eq!(message(value("a = 'x'").number()), "f:1: a: expected a number, found a text");
        assert_eq!(message(value("a = 1.5").count(0, 9)), "f:1: a: expected a whole number, found a number");
        assert_eq!(message(value("a = 0").flag()), "f:1: a: expected true or false, found a whole number");
        assert_eq!(message(value("a = []").section()), "f:1: a: expected a table, found a list");
        assert_eq!(message(value("a = {}").items()), "f:1: a: expected a list, found a table");
        assert_eq!(message(value("a = true").items()), "f:1: a: expected a list, found true or false");
        assert_eq!(message(value("a = 07:32:00").items()), "f:1: a: expected a list, found a date or time");
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        assert_eq!(message(value("a = -1").count(0, 9)), "f:1: a: -1: must be 0 to 9");
        assert_eq!(message(value("a = 0x10").count(0, 9)), "f:1: a: 0x10: must be 0 to 9");
        assert_eq!(message(value("a = inf").number()), "f:1: a: inf: must be a finite number");
        assert_eq!(message(value("a = nan").number()), "f:1: a: nan: must be a finite number");
        assert_eq!(message(value("a = ' '").text()), "f:1: a: \" \": must be a text that is not blank");
    }

    #[test]
    fn an_error_shortens_a_long_value() {
        let text = format!("a = {}", "9".repeat(500));
        let error =
            message(parse("f", &text).and_then(|mut root| root.take("a")).and_then(|entry| entry.number()));
        assert!(error.len() < 120, "{error}");
    }

    #[test]
    fn integers_and_floats_are_numbers() {
        assert_eq!(value("a = 1_000").number(), Ok(1000.0));
        assert_eq!(value("a = 2.5e1").number(), Ok(25.0));
        assert_eq!(value("a = 0x10").count(0, 16), Ok(16));
    }

    #[test]
    fn flags_are_true_or_false() {
        assert_eq!((value("a = true").flag(), value("a = false").flag()), (Ok(true), Ok(false)));
    }

    #[test]
    fn the_items_of_a_list_are_keyed_by_position() {
        let mut items = value("a = [1,\n 'x']").items().expect("a list");
        assert_eq!(message(items.remove(1).number()), "f:2: a[1]: expected a number, found a text");
    }
}
