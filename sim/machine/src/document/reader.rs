//! A TOML document, read key by key. Every part knows its place.

use toml::de::{DeString, DeTable, DeValue};

use super::error::{Error, Problem};

/// The greatest number of characters of a value that an error repeats.
const SHOWN: usize = 60;

/// Parses `text`; `file` is its name in errors.
///
/// # Errors
/// The text is not TOML.
pub fn parse<'a>(file: &'a str, text: &'a str) -> Result<Section<'a>, Error> {
    let place = Place { file, text, key: String::new(), offset: None };
    match DeTable::parse(text) {
        Ok(table) => Ok(Section::new(place, table.into_inner())),
        Err(error) => {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            Err(Place { offset: error.span().map(|span| span.start), ..place }
                .error(Problem::Syntax(message)))
        }
    }
}

/// The place of a part of a document.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    file: &'a str,
    text: &'a str,
    key: String,
    offset: Option<usize>,
}

impl Place<'_> {
    /// `problem`, at this place.
    pub fn error(&self, problem: Problem) -> Error {
        Error {
            file: self.file.to_owned(),
            line: self.offset.map(|offset| self.line(offset)),
            column: None,
            key: (!self.key.is_empty()).then(|| self.key.clone()),
            problem,
        }
    }

    /// The dotted key of this place.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The place of `key` within this one, at the offset of this one.
    fn inner(&self, key: &str) -> Self {
        let dot = if self.key.is_empty() { "" } else { "." };
        Self { key: format!("{}{dot}{key}", self.key), ..self.clone() }
    }

    /// The place of an item of the list at this place, at the offset of the list.
    fn item(&self, index: usize) -> Self {
        Self { key: format!("{}[{index}]", self.key), ..self.clone() }
    }

    fn line(&self, offset: usize) -> u32 {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count() as u32
    }
}

/// A table. The reader takes out the keys that it knows, and then no key may be left.
#[derive(Debug)]
pub struct Section<'a> {
    place: Place<'a>,
    table: DeTable<'a>,
    /// The keys that the reader has asked for.
    known: Vec<String>,
}

impl<'a> Section<'a> {
    fn new(place: Place<'a>, table: DeTable<'a>) -> Self {
        Self { place, table, known: Vec::new() }
    }

    /// The place of the table.
    pub fn place(&self) -> &Place<'a> {
        &self.place
    }

    /// Takes out the value of `key`.
    ///
    /// # Errors
    /// The key is missing.
    pub fn take(&mut self, key: &str) -> Result<Entry<'a>, Error> {
        self.take_if_there(key).ok_or_else(|| self.place.inner(key).error(Problem::Missing))
    }

    /// Takes out the value of `key`, if it is there.
    pub fn take_if_there(&mut self, key: &str) -> Option<Entry<'a>> {
        self.known.push(key.to_owned());
        let value = self.table.remove(key)?;
        let place = Place { offset: Some(value.span().start), ..self.place.inner(key) };
        Some(Entry { place, value: value.into_inner() })
    }

    /// Takes out all values, in the order of the file, with their keys.
    pub fn take_all(&mut self) -> Vec<(String, Entry<'a>)> {
        let mut all: Vec<_> = std::mem::take(&mut self.table).into_iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (toml::Spanned<DeString<'a>>, toml::Spanned<DeValue<'a>>)| {
            let key = key.into_inner().into_owned();
            let place = Place { offset: Some(value.span().start), ..self.place.inner(&key) };
            (key, Entry { place, value: value.into_inner() })
        };
        all.into_iter().map(entry).collect()
    }

    /// Replaces every text in the table, however deep, for which `find` has a value. The value keeps the text's place.
    ///
    /// # Errors
    /// That of `find`, which gets the text's place too.
    pub fn replace_texts(
        &mut self,
        find: &impl Fn(&Place<'a>, &str) -> Result<Option<Entry<'a>>, Error>,
    ) -> Result<(), Error> {
        self.table
            .iter_mut()
            .try_for_each(|(key, value)| replace_texts(&self.place.inner(key.get_ref()), value, find))
    }

    /// Refuses a key that was not taken, and suggests the nearest of those that were asked for.
    ///
    /// # Errors
    /// A key was not taken.
    pub fn finish(self) -> Result<(), Error> {
        match self.table.iter().map(|(key, _)| key).min_by_key(|key| key.span().start) {
            None => Ok(()),
            Some(key) => {
                Err(self.unknown(key, nearest(key.get_ref(), self.known.iter().map(String::as_str))))
            }
        }
    }

    /// Refuses a key that is known elsewhere for what is called `meant` here.
    ///
    /// # Errors
    /// The key is there.
    pub fn refuse(&self, key: &str, meant: &str) -> Result<(), Error> {
        let found = self.table.iter().map(|(key, _)| key).find(|found| found.get_ref() == key);
        found.map_or(Ok(()), |found| Err(self.unknown(found, Some(meant))))
    }

    fn unknown(&self, key: &toml::Spanned<DeString<'_>>, meant: Option<&str>) -> Error {
        let place = Place { offset: Some(key.span().start), ..self.place.inner(key.get_ref()) };
        place.error(Problem::Unknown(meant.map(str::to_owned)))
    }
}

fn replace_texts<'a>(
    place: &Place<'a>,
    value: &mut toml::Spanned<DeValue<'a>>,
    find: &impl Fn(&Place<'a>, &str) -> Result<Option<Entry<'a>>, Error>,
) -> Result<(), Error> {
    let place = Place { offset: Some(value.span().start), ..place.clone() };
    match value.get_mut() {
        DeValue::String(text) => {
            if let Some(found) = find(&place, text)? {
                *value.get_mut() = found.value;
            }
            Ok(())
        }
        DeValue::Array(items) => {
            items.iter_mut().enumerate().try_for_each(|(at, item)| replace_texts(&place.item(at), item, find))
        }
        DeValue::Table(table) => table
            .iter_mut()
            .try_for_each(|(key, item)| replace_texts(&place.inner(key.get_ref()), item, find)),
        _ => Ok(()),
    }
}

/// The end of an error about an unknown `name`: the question whether the nearest known one was meant. It is empty if
/// none is near.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |nearest| format!("; did you mean '{nearest}'?"))
}

/// The known name that is nearest to `name`, if at most a third of its letters differ.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    known.into_iter().min_by_key(distance).filter(|known| distance(known) * 3 <= known.chars().count())
}

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    place: Place<'a>,
    value: DeValue<'a>,
}

impl<'a> Entry<'a> {
    /// The place of the value.
    pub fn place(&self) -> &Place<'a> {
        &self.place
    }

    /// The value as it is written, if it is a text or a number.
    pub fn written(&self) -> Option<String> {
        match &self.value {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Integer(_) | DeValue::Float(_) => Some(shown(&self.value)),
            _ => None,
        }
    }

    /// Whether the value is a text.
    pub fn is_text(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// The error for a value of another type than `expected`.
    pub fn wrong_type(&self, expected: &'static str) -> Error {
        wrong_type(&self.place, expected, &self.value)
    }

    /// The value as a text that is not blank.
    ///
    /// # Errors
    /// The value is no text, or a blank one.
    pub fn text(&self) -> Result<String, Error> {
        match &self.value {
            DeValue::String(text) if text.trim().is_empty() => {
                Err(self.place.error(Problem::invalid(format!("{text:?}"), "a text that is not blank")))
            }
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(_) | DeValue::Float(_) => {
                let number = shown(&self.value);
                Err(self.place.error(Problem::invalid(&number, format!("a text: \"{number}\""))))
            }
            other => Err(wrong_type(&self.place, "a text", other)),
        }
    }

    /// The value of which the text is the name. The error lists all names.
    ///
    /// # Errors
    /// The value is no text, or none of the names.
    pub fn one_of<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, Error> {
        // A blank text is none of the names.
        let text = self.written().filter(|_| self.is_text()).map_or_else(|| self.text(), Ok)?;
        known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
            self.place.error(Problem::invalid(format!("{text:?}"), format!("one of {}", names.join(", "))))
        })
    }

    /// The value as a finite number.
    ///
    /// # Errors
    /// The value is no number, or not finite.
    pub fn number(&self) -> Result<f64, Error> {
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
    ///
    /// # Errors
    /// The value is no whole number, or out of range.
    pub fn count(&self, least: u32, most: u32) -> Result<u32, Error> {
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
    ///
    /// # Errors
    /// The value is neither.
    pub fn flag(&self) -> Result<bool, Error> {
        match &self.value {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(wrong_type(&self.place, "true or false", other)),
        }
    }

    /// The value as a table.
    ///
    /// # Errors
    /// The value is no table.
    pub fn section(self) -> Result<Section<'a>, Error> {
        match self.value {
            DeValue::Table(table) => Ok(Section::new(self.place, table)),
            other => Err(wrong_type(&self.place, "a table", &other)),
        }
    }

    /// The value as a list, whose items are keyed `[0]`, `[1]` and so on.
    ///
    /// # Errors
    /// The value is no list.
    pub fn items(self) -> Result<Vec<Entry<'a>>, Error> {
        let DeValue::Array(items) = self.value else {
            return Err(wrong_type(&self.place, "a list", &self.value));
        };
        let entry = |(index, item): (usize, toml::Spanned<DeValue<'a>>)| Entry {
            place: Place { offset: Some(item.span().start), ..self.place.item(index) },
            value: item.into_inner(),
        };
        Ok(items.into_iter().enumerate().map(entry).collect())
    }

    /// The value as a list of tables, each of which `read` reads. Each `subject` is given at most once.
    ///
    /// # Errors
    /// The value is no list of tables, a subject comes twice, or `read` fails.
    pub fn each<T>(
        self,
        mut read: impl FnMut(Section<'a>) -> Result<T, Error>,
        subject: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, Error> {
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

fn wrong_type(place: &Place<'_>, expected: &'static str, found: &DeValue<'_>) -> Error {
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

    fn message<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
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
    fn an_unknown_key_suggests_the_key_that_was_meant() {
        let mut root = parse("f", "acess = 1").expect("valid");
        assert!(root.take_if_there("access").is_none() && root.take_if_there("lock").is_none());
        assert_eq!(message(root.finish()), "f:1: acess: unknown key; did you mean 'access'?");
    }

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        assert_eq!(suggestion("raed", ["write", "read"]), "; did you mean 'read'?");
        for far in ["same_node", ""] {
            assert_eq!(suggestion(far, ["other_node"]), "", "{far}");
        }
        assert_eq!(suggestion("read", []), "");
    }

    #[test]
    fn texts_are_replaced_wherever_they_stand() {
        let mut root = parse("f", "a = ['$x', { b = '$x' }]\n[c]\nd = 'x'\ne = '$y'\n").expect("valid");
        let mut values = parse("f", "x = 7").expect("valid");
        let x = values.take("x").expect("there");
        let find = |place: &Place<'_>, text: &str| match text {
            "$x" => Ok(Some(x.clone())),
            "$y" => Err(place.error(Problem::Missing)),
            _ => Ok(None),
        };
        assert_eq!(message(root.replace_texts(&find)), "f:4: c.e: missing");
        let items = root.take("a").and_then(Entry::items).expect("a list");
        assert_eq!(items[0].count(0, 9), Ok(7));
        let inner = items[1].clone().section().and_then(|mut table| table.take("b"));
        assert_eq!(
            inner.and_then(|entry| entry.count(0, 6)).map_err(|error| error.to_string()),
            Err("f:1: a[1].b: 7: must be 0 to 6".to_owned())
        );
    }

    #[test]
    fn all_values_are_taken_in_the_order_of_the_file() {
        let mut root = parse("f", "b = 1\na = 2\n").expect("valid");
        let keys: Vec<String> = root.take_all().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["b", "a"]);
        assert_eq!(root.finish(), Ok(()));
    }

    #[test]
    fn errors_name_wrong_types() {
        assert_eq!(message(value("a = 1").text()), "f:1: a: 1: must be a text: \"1\"");
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
    fn a_name_stands_for_its_value() {
        let known = [("x", 1), ("y", 2)];
        assert_eq!(value("a = 'y'").one_of(&known), Ok(2));
        assert_eq!(message(value("a = 'z'").one_of(&known)), r#"f:1: a: "z": must be one of "x", "y""#);
        assert_eq!(message(value("a = 1.10").one_of(&known)), "f:1: a: 1.10: must be a text: \"1.10\"");
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
