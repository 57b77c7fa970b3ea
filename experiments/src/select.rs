//! Experiments and machines by the names that users give: a known name, or the path of a file.

use std::fmt;
use std::path::{Path, MAIN_SEPARATOR};

use ceasefire_machine::config::{MachineError, MachineFile, BUILTIN};

use crate::catalogue::EXPERIMENTS;
use crate::experiment::Experiment;
use crate::names::UnknownName;

/// A name that leads to nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectError {
    /// It is not known.
    Unknown(UnknownName),
    /// The file that it names cannot be read or is not valid.
    File(MachineError),
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SelectError {}

impl Experiment {
    /// The experiments with a name, or those of a workload file if the name exists as a file or looks like a path.
    /// `others` are names that an unknown one may have meant, though they are no experiments.
    ///
    /// # Errors
    /// [`SelectError`].
    pub fn select(name: &str, others: &[&str]) -> Result<Vec<&'static Self>, SelectError> {
        let found = Self::named(name);
        if !found.is_empty() {
            return Ok(found);
        }
        if looks_like_path(name) {
            return Self::from_file(Path::new(name)).map_err(SelectError::File);
        }
        // The variants of a workload share the name before the colon.
        let mut known: Vec<&str> =
            EXPERIMENTS.iter().filter_map(|experiment| experiment.name.split(':').next()).collect();
        known.dedup();
        Err(SelectError::Unknown(UnknownName::new("experiment", name, &known, others)))
    }
}

/// A machine by name, or from a file if the name exists as a file or looks like a path. `more` are the names of
/// machines that the caller knows beside the built-in ones.
///
/// # Errors
/// [`SelectError`].
pub fn machine_file(name: &str, more: &[&str]) -> Result<MachineFile, SelectError> {
    let file = match MachineFile::builtin(name) {
        Some(file) => file,
        None if looks_like_path(name) => MachineFile::open(Path::new(name)),
        None => {
            let known = [BUILTIN, more].concat();
            return Err(SelectError::Unknown(UnknownName::new("machine", name, &known, &[])));
        }
    };
    file.map_err(SelectError::File)
}

/// Whether the name exists as a file, or looks like a path.
fn looks_like_path(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || name.contains(MAIN_SEPARATOR) || path.extension().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_or_a_path() {
        let names = |name| -> Vec<&str> {
            let found = Experiment::select(name, &[]).expect("a known name");
            found.iter().map(|experiment| experiment.name).collect()
        };
        assert_eq!(names("mmap-read"), ["mmap-read"]);
        assert_eq!(machine_file("1-socket", &[]).expect("a listed name").machine().name, "1-socket");
        for name in ["no/such", "nothing.toml"] {
            assert!(matches!(Experiment::select(name, &[]), Err(SelectError::File(_))), "{name}");
            assert!(matches!(machine_file(name, &[]), Err(SelectError::File(_))), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_the_caller_knows() {
        let line = machine_file("hots", &["host"]).expect_err("no such machine").to_string();
        assert!(
            line.starts_with("no machine is called 'hots'; did you mean 'host'? Known machines: "),
            "{line}"
        );
        let line = Experiment::select("lits", &["list"]).expect_err("no such experiment").to_string();
        assert!(line.contains("did you mean 'list'?"), "{line}");
    }
}
