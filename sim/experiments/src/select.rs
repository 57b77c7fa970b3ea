//! Experiments and machines by the names that users give: a known name, or the path of a file.

use std::fmt;
use std::path::{Path, MAIN_SEPARATOR};

use ceasefire_machine::config::{MachineError, MachineFile, BUILTIN};
use ceasefire_machine::document::Problem;

use crate::catalogue::EXPERIMENTS;
use crate::experiment::Experiment;
use crate::names::UnknownName;
use crate::workload_file::{is_name, Given};

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
    /// The experiments with a name, or those of a workload file if the name exists as a file or looks like a path. After
    /// either, parameters of the workload may have values: `wasm-pool:batch=7`. `others` are names that an unknown one
    /// may have meant, though they are no experiments.
    ///
    /// # Errors
    /// [`SelectError`].
    pub fn select(name: &str, others: &[&str]) -> Result<Vec<&'static Self>, SelectError> {
        let found = Self::named(name);
        if !found.is_empty() {
            return Ok(found);
        }
        let (workload, given) = with_values(name);
        Self::select_with(workload, &given, others)
    }

    /// The experiments of a workload, given by its name or its file, some of whose parameters are `given` values in the
    /// place of those in the file.
    ///
    /// # Errors
    /// As for [`select`](Self::select).
    pub fn select_with(
        name: &str,
        given: &Given,
        others: &[&str],
    ) -> Result<Vec<&'static Self>, SelectError> {
        let built_in = if given.is_empty() { None } else { Self::from_built_in(name, given) };
        if let Some(experiments) = built_in {
            return experiments.map_err(SelectError::File);
        }
        let found = Self::named(name);
        if let Some((parameter, _)) = given.first().filter(|_| !found.is_empty()) {
            let bound = "left out: the experiment has no parameters";
            let problem = Problem::invalid(format!("parameter {parameter:?}"), bound);
            return Err(SelectError::File(problem.in_file(name)));
        }
        if !found.is_empty() {
            return Ok(found);
        }
        if looks_like_path(name) {
            return Self::from_file(Path::new(name), given).map_err(SelectError::File);
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

/// A workload, and the values of its parameters: the parts of `wasm-pool:batch=7,purge=never`. A name without such an
/// end has no values, and neither has that of a file.
pub fn with_values(name: &str) -> (&str, Vec<(String, Vec<String>)>) {
    let value = |part: &str| {
        let (name, value) = part.split_once('=')?;
        is_name(name).then(|| (name.to_owned(), vec![value.to_owned()]))
    };
    // A path may have colons and equals signs, and a value any character but a comma.
    let end = |(colon, _): (usize, &str)| {
        Some((&name[..colon], name[colon + 1..].split(',').map(value).collect::<Option<_>>()?))
    };
    if Path::new(name).exists() {
        return (name, Vec::new());
    }
    name.match_indices(':').find_map(end).unwrap_or((name, Vec::new()))
}

/// Whether the name exists as a file, or looks like a path.
fn looks_like_path(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || name.contains(MAIN_SEPARATOR) || path.extension().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload_file::Written;

    #[test]
    fn a_name_is_known_or_a_path() {
        let names = |name| -> Vec<&str> {
            let found = Experiment::select(name, &[]).expect("a known name");
            found.iter().map(|experiment| experiment.name).collect()
        };
        assert_eq!(names("mmap-read"), ["mmap-read"]);
        assert_eq!(names("wasm-pool:batch=10"), ["wasm-pool:batch=10"]);
        let is_listed = EXPERIMENTS.iter().any(|experiment| experiment.name == "wasm-pool:batch=7");
        assert_eq!((&names("wasm-pool:batch=7")[..], is_listed), (&["wasm-pool:batch=7"][..], false));
        assert_eq!(machine_file("1-socket", &[]).expect("a listed name").machine().name, "1-socket");
        for name in ["no/such", "nothing.toml"] {
            assert!(matches!(Experiment::select(name, &[]), Err(SelectError::File(_))), "{name}");
            assert!(matches!(machine_file(name, &[]), Err(SelectError::File(_))), "{name}");
        }
    }

    #[test]
    fn the_values_of_parameters_end_a_name() {
        let values = |given: &[(&str, &str)]| -> Vec<(String, Vec<String>)> {
            given.iter().map(|&(name, value)| (name.to_owned(), vec![value.to_owned()])).collect()
        };
        for (name, workload, given) in [
            ("wasm-pool:batch=7", "wasm-pool", values(&[("batch", "7")])),
            ("f.toml:batch=7,purge=at once", "f.toml", values(&[("batch", "7"), ("purge", "at once")])),
            ("a=b/c:d.toml:batch=7", "a=b/c:d.toml", values(&[("batch", "7")])),
            ("f.toml:at=1:2", "f.toml", values(&[("at", "1:2")])),
            ("a=b/f.toml", "a=b/f.toml", values(&[])),
            ("f.toml:batch", "f.toml:batch", values(&[])),
        ] {
            assert_eq!(with_values(name), (workload, given), "{name}");
        }
        // One in the list is the one in the list.
        let listed = EXPERIMENTS.iter().find(|experiment| experiment.name == "wasm-pool:batch=10");
        let found = Experiment::select("wasm-pool:batch=10", &[]).expect("a known name");
        assert!(std::ptr::eq(found[0], listed.expect("a listed name")));
        let ten = Written { text: "10".to_owned(), is_text: false };
        assert_eq!(found[0].parameters, [("batch".to_owned(), ten)]);
    }

    #[test]
    fn a_wrong_parameter_is_refused() {
        for (name, expected) in [
            ("wasm-pool:btch=7", "wasm-pool.toml: parameter \"btch\": must be one of its parameters: batch"),
            ("wasm-pool:batch=x", "wasm-pool.toml:"),
            ("migrate:batch=7", "migrate: parameter \"batch\": must be left out"),
            ("no/such.toml:batch=7", "no/such.toml: "),
            ("wasm-pol:batch=7", "no experiment is called 'wasm-pol'; did you mean 'wasm-pool'?"),
        ] {
            let error = Experiment::select(name, &[]).expect_err("must be refused").to_string();
            assert!(error.starts_with(expected), "{error}");
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
