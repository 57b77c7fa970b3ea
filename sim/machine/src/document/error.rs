//! Errors in a file, in one line that names the place and the bound.

use std::fmt::{self, Write as _};

/// An error in a file, or in the machine that it describes, and its place.
///
/// Displayed as one line, `file:line:column: key: problem`, without the parts that are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The file with the error, or the machine's name if there is no file.
    pub file: String,
    /// The line in `file`, from 1.
    pub line: Option<u32>,
    /// The cell in `line`, from 1; only for matrices.
    pub column: Option<u32>,
    /// The dotted key, such as `costs.access.unit`.
    pub key: Option<String>,
    /// The problem there.
    pub problem: Problem,
}

/// The problem at the place that an [`Error`] names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The file cannot be read. Holds the operating system's message.
    Unreadable(String),
    /// The text is not TOML. Holds the parser's message.
    Syntax(String),
    /// A required value is missing.
    Missing,
    /// An unknown key. Holds the known key that is nearest to it, if one is near.
    Unknown(Option<String>),
    /// A value of the wrong type.
    WrongType {
        /// The type that the key requires.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// A value of the right type that is not allowed.
    Invalid {
        /// The value as written.
        value: String,
        /// The allowed values.
        bound: String,
    },
    /// A value that another part of the program refuses. Holds its message.
    Refused(String),
}

impl Problem {
    /// An [`Invalid`](Problem::Invalid) value, and the allowed values.
    pub fn invalid(value: impl fmt::Display, bound: impl Into<String>) -> Self {
        Self::Invalid { value: value.to_string(), bound: bound.into() }
    }

    /// This problem with the whole of `file`.
    pub fn in_file(self, file: &str) -> Error {
        Error { file: file.to_owned(), line: None, column: None, key: None, problem: self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(message) => write!(f, "cannot read: {message}"),
            Self::Syntax(message) | Self::Refused(message) => write!(f, "{message}"),
            Self::Missing => write!(f, "missing"),
            Self::Unknown(None) => write!(f, "unknown key"),
            Self::Unknown(Some(nearest)) => write!(f, "unknown key; did you mean '{nearest}'?"),
            Self::WrongType { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Invalid { value, bound } => write!(f, "{value}: must be {bound}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = OneLine(f);
        write!(f, "{}", self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for Error {}

/// Escapes control characters, since file names, keys and values may hold line breaks.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| {
            if c.is_control() {
                write!(self.0, "{}", c.escape_default())
            } else {
                self.0.write_char(c)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_every_known_part() {
        let error = Error {
            file: "a.toml".into(),
            line: Some(3),
            column: Some(4),
            key: Some("tlb.l1".into()),
            problem: Problem::invalid(0, "at least 1"),
        };
        assert_eq!(error.to_string(), "a.toml:3:4: tlb.l1: 0: must be at least 1");
    }

    #[test]
    fn an_error_leaves_out_unknown_parts() {
        assert_eq!(Problem::Missing.in_file("a.toml").to_string(), "a.toml: missing");
    }

    #[test]
    fn an_error_stays_on_one_line() {
        let error = Problem::invalid("x\ny", "z").in_file("a\r\n.toml");
        assert_eq!(error.to_string(), r"a\r\n.toml: x\ny: must be z");
    }
}
