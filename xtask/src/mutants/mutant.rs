//! A change of the sources in one place, as `cargo mutants` names it: `engine/src/flush.rs:77:33: replace / with %`.

use crate::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mutant {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// What is replaced, by what, and in which function.
    pub(crate) change: String,
    name: String,
}

/// Reads a list of mutants, one a line.
pub(crate) fn parse(list: &str) -> Result<Vec<Mutant>, Failure> {
    let mutant = |name: &str| {
        let (place, change) = name.split_once(": ")?;
        let mut place = place.split(':');
        let (file, line) = (place.next()?.to_owned(), place.next()?.parse().ok()?);
        Some(Mutant { file, line, change: change.to_owned(), name: name.to_owned() })
    };
    let unexpected =
        |name: &str| Failure::new(format!("`cargo mutants` printed `{name}`, which names no change"));
    list.lines().map(|name| mutant(name).ok_or_else(|| unexpected(name))).collect()
}

impl Mutant {
    /// The mutant without the line and the column, which other changes of the file move.
    pub(crate) fn lasting(&self) -> String {
        format!("{}: {}", self.file, self.change)
    }

    /// The regular expression that matches the name of this mutant alone.
    pub(crate) fn pattern(&self) -> String {
        let mut pattern = String::from("^");
        for letter in self.name.chars() {
            // Only these: the regular expressions of Rust read `\<` and `\>` as the ends of a word.
            if r"\.+*?()|[]{}^$".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "$"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_place_and_a_change() {
        let mutants = parse("a/b.rs:12:7: replace a::b -> u8 with 1\n").unwrap();
        assert_eq!((mutants[0].file.as_str(), mutants[0].line), ("a/b.rs", 12));
        assert_eq!(mutants[0].lasting(), "a/b.rs: replace a::b -> u8 with 1");
        assert_eq!(mutants[0].pattern(), r"^a/b\.rs:12:7: replace a::b -> u8 with 1$");
        assert_eq!(parse("a.rs: replace").unwrap_err().code(), 1);
    }
}
