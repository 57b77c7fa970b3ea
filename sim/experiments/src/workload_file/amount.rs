//! Amounts of memory and counts: `"64 MiB"`, `"1/4 of memory"`, `"8 * memory / page / processes"`.
//!
//! An amount is a product of terms, read from left to right. A term is a number, a number with a unit, or a word. What
//! an amount measures follows from its terms: a size by a size is a count. It is computed exactly, and the result is
//! rounded down.

use ceasefire_machine::document::{Entry, Error, Place, Problem};
use ceasefire_memory::PAGE_BYTES;

/// The units of memory, in bytes.
const UNITS: [(&str, u128); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
/// The word for the number of threads that the command line or the sweep chooses.
pub(super) const CHOSEN_THREADS: &str = "$threads";

/// A factor or a divisor.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// A fraction.
    Number(u128, u128),
    /// Bytes, as a fraction.
    Bytes(u128, u128),
    Memory,
    Cpus,
    Processes,
    Threads,
    /// The number of threads that the command line or the sweep chooses.
    Chosen,
    /// The size of a mapping.
    Mapping(String),
}

impl Term {
    fn is_size(&self) -> bool {
        matches!(self, Self::Bytes(..) | Self::Memory | Self::Mapping(_))
    }
}

/// The values of an amount's words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a> {
    /// The bytes of the machine's memory.
    pub(super) memory: u64,
    /// The CPUs of the process group, or of the machine.
    pub(super) cpus: u64,
    /// The processes of the group, and the threads of each.
    pub(super) processes: u64,
    pub(super) threads: u64,
    /// The number of threads that the command line or the sweep chooses.
    pub(super) chosen: u64,
    /// The sizes of mappings, in bytes.
    pub(super) mappings: &'a [(String, u64)],
}

/// An amount and its place in the file.
#[derive(Debug, Clone)]
pub(super) struct Amount {
    /// Each term, and whether it divides.
    terms: Vec<(Term, bool)>,
    text: String,
    /// An error at its place, whose problem is filled in.
    place: Error,
}

impl Amount {
    /// Reads an amount of memory.
    pub(super) fn size(entry: &Entry<'_>) -> Result<Self, Error> {
        Self::read(entry, 1, "an amount of memory, such as \"64 MiB\" or \"1/4 of memory\"")
    }

    /// Reads a count.
    pub(super) fn count(entry: &Entry<'_>) -> Result<Self, Error> {
        Self::read(entry, 0, "a count, such as 8, \"CPUs\" or \"memory / page\"")
    }

    /// The count of a key that is not given.
    pub(super) fn of(count: u32, place: &Place<'_>) -> Self {
        let terms = vec![(Term::Number(count.into(), 1), false)];
        Self { terms, place: place.error(Problem::Missing), text: count.to_string() }
    }

    fn read(entry: &Entry<'_>, power: i32, expected: &'static str) -> Result<Self, Error> {
        let text = entry.written().ok_or_else(|| entry.wrong_type(expected))?;
        let refused = |bound: &str| entry.place().error(Problem::invalid(format!("{text:?}"), bound));
        let terms = parse(&text).ok_or_else(|| refused(expected))?;
        let found: i32 = terms
            .iter()
            .map(|(term, divides)| i32::from(term.is_size()) * if *divides { -1 } else { 1 })
            .sum();
        if found != power {
            return Err(refused(expected));
        }
        let zero = |term: &Term| matches!(term, Term::Number(0, _) | Term::Bytes(0, _));
        if terms.iter().any(|(term, divides)| *divides && zero(term)) {
            return Err(refused("no division by 0"));
        }
        Ok(Self { terms, place: entry.place().error(Problem::Missing), text })
    }

    /// Its words that are names of mappings.
    pub(super) fn mappings(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter_map(|(term, _)| match term {
            Term::Mapping(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether it depends on the number of threads that the command line or the sweep chooses.
    pub(super) fn is_chosen(&self) -> bool {
        self.terms.iter().any(|(term, _)| *term == Term::Chosen)
    }

    /// The error that `problem` is at this amount's place.
    pub(super) fn error(&self, problem: Problem) -> Error {
        Error { problem, ..self.place.clone() }
    }

    /// The error that the amount's value must be `bound`.
    pub(super) fn must_be(&self, bound: impl Into<String>) -> Error {
        self.error(Problem::invalid(format!("{:?}", self.text), bound))
    }

    /// The value as a fraction, if it has no words.
    pub(super) fn constant(&self) -> Option<(u128, u128)> {
        let is_number = |term: &Term| matches!(term, Term::Number(..) | Term::Bytes(..));
        let none = Words { memory: 0, cpus: 0, processes: 0, threads: 0, chosen: 0, mappings: &[] };
        if self.terms.iter().all(|(term, _)| is_number(term)) {
            self.fraction(&none)
        } else {
            None
        }
    }

    /// The value, rounded down.
    ///
    /// # Errors
    /// The value is too large.
    pub(super) fn value(&self, words: &Words<'_>) -> Result<u64, Error> {
        let value = self.fraction(words).and_then(|(over, under)| u64::try_from(over / under).ok());
        value.ok_or_else(|| self.must_be(format!("at most {}", u64::MAX)))
    }

    fn fraction(&self, words: &Words<'_>) -> Option<(u128, u128)> {
        self.terms.iter().try_fold((1u128, 1u128), |(over, under), (term, divides)| {
            let (more, less) = match term {
                Term::Number(over, under) | Term::Bytes(over, under) => (*over, *under),
                Term::Memory => (words.memory.into(), 1),
                Term::Cpus => (words.cpus.into(), 1),
                Term::Processes => (words.processes.into(), 1),
                Term::Threads => (words.threads.into(), 1),
                Term::Chosen => (words.chosen.into(), 1),
                Term::Mapping(name) => {
                    let size = words.mappings.iter().find(|(known, _)| known == name);
                    (size.map_or(0, |(_, bytes)| *bytes).into(), 1)
                }
            };
            let (more, less) = if *divides { (less, more) } else { (more, less) };
            let (over, under) = (over.checked_mul(more)?, under.checked_mul(less)?);
            (under > 0).then_some((over, under))
        })
    }
}

/// The terms of a text, if it is an amount.
fn parse(text: &str) -> Option<Vec<(Term, bool)>> {
    let spaced = text.replace('*', " * ").replace('/', " / ");
    let mut words = spaced.split_whitespace().peekable();
    let (mut terms, mut divides) = (Vec::new(), false);
    loop {
        let word = words.next()?;
        let term = if word.starts_with(|first: char| first.is_ascii_digit()) {
            let (over, under) = number(word)?;
            let unit = words.peek().and_then(|unit| UNITS.iter().find(|(name, _)| name == unit));
            match unit {
                Some((_, bytes)) => {
                    words.next();
                    Term::Bytes(over.checked_mul(*bytes)?, under)
                }
                None => Term::Number(over, under),
            }
        } else {
            match word {
                "memory" => Term::Memory,
                "page" => Term::Bytes(PAGE_BYTES.into(), 1),
                "CPUs" => Term::Cpus,
                "processes" => Term::Processes,
                "threads" => Term::Threads,
                CHOSEN_THREADS => Term::Chosen,
                name if is_name(name) => Term::Mapping(name.to_owned()),
                _ => return None,
            }
        };
        terms.push((term, divides));
        divides = match words.next() {
            None => return Some(terms),
            Some("*" | "of") => false,
            Some("/") => true,
            Some(_) => return None,
        };
    }
}

/// A decimal number as a fraction.
fn number(text: &str) -> Option<(u128, u128)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || text.ends_with('.') {
        return None;
    }
    let digits = format!("{whole}{part}").replace('_', "");
    Some((digits.parse().ok().filter(|_| digits.len() <= 20)?, 10u128.pow(part.len() as u32)))
}

/// Whether a text may be the name of a process, a mapping, an allocator or a parameter.
pub(crate) fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
        && text != "of"
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::document::parse as parse_document;
    use proptest::prelude::*;

    use super::*;

    const WORDS: Words<'_> =
        Words { memory: 1 << 30, cpus: 8, processes: 3, threads: 2, chosen: 7, mappings: &[] };

    fn read(text: &str, size: bool) -> Result<Amount, String> {
        let document = format!("a = {text}");
        let mut root = parse_document("f", &document).expect("a test's own document");
        let entry = root.take("a").expect("there");
        let read = if size { Amount::size(&entry) } else { Amount::count(&entry) };
        read.map_err(|error| error.to_string())
    }

    fn value(text: &str, size: bool) -> Result<u64, String> {
        read(text, size).and_then(|amount| amount.value(&WORDS).map_err(|error| error.to_string()))
    }

    #[test]
    fn sizes_and_counts_are_products_of_terms() {
        for (text, expected) in [
            ("'64 MiB'", 64 << 20),
            ("'1/4 of memory'", 1 << 28),
            ("'10 * memory / processes'", 10 * (1 << 30) / 3),
            ("'1.5*memory'", 3 << 29),
            ("'2 MiB * CPUs'", 16 << 20),
        ] {
            assert_eq!(value(text, true), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("12", 12),
            ("2.5", 2),
            ("'5/2 * CPUs'", 20),
            ("'memory / page'", 1 << 18),
            ("'$threads / threads'", 3),
            ("'1_000'", 1000),
        ] {
            assert_eq!(value(text, false), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_amount_of_the_wrong_kind_is_refused() {
        let size = "must be an amount of memory, such as \"64 MiB\" or \"1/4 of memory\"";
        for text in
            ["'64'", "'64 MB'", "'memory * memory'", "''", "'4 KiB of'", "'-1 MiB'", "'1e3 B'", "'/ 2'"]
        {
            let error = value(text, true).expect_err(text);
            assert!(error.starts_with("f:1: a: ") && error.ends_with(size), "{error}");
        }
        let error = value("'memory'", false).expect_err("a size is no count");
        assert!(error.ends_with("must be a count, such as 8, \"CPUs\" or \"memory / page\""), "{error}");
        assert_eq!(value("'1 / 0'", false), Err("f:1: a: \"1 / 0\": must be no division by 0".into()));
        let most = "f:1: a: \"99999999999 * 99999999999\": must be at most 18446744073709551615";
        assert_eq!(value("'99999999999 * 99999999999'", false), Err(most.into()));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~]{0,40}") {
            let _ = parse(&text);
            for size in [false, true] {
                let _ = value(&format!("{text:?}"), size);
            }
        }

        #[test]
        fn a_fraction_of_memory_is_rounded_down(over in 0u64..1000, under in 1u64..1000) {
            let expected = (1 << 30) * over / under;
            prop_assert_eq!(value(&format!("'{over}/{under} of memory'"), true), Ok(expected));
        }
    }
}
