//! `cargo xtask programs`: random programs against a plain model of memory, by the hundred thousand.
//!
//! It is the test that `cargo test` runs with a few hundred programs, in an optimised build with every assertion.

use crate::failure::{self, Failure};
use crate::workspace::{Variant, Workspace};

/// The default number of programs.
const PROGRAMS: u64 = 100_000;

/// The programs to try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    count: u64,
    /// The number of the first.
    from: u64,
}

impl Options {
    /// The first programs of all.
    pub(crate) fn first(count: u64) -> Self {
        Self { count, from: 0 }
    }

    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let number = |text: &str| {
            let refused = || Failure::usage(format!("`{text}` is not a number of programs: a whole number"));
            text.parse::<u64>().map_err(|_| refused())
        };
        let mut options = Self::first(PROGRAMS);
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            match (argument, rest.len()) {
                ("--from", 0) => return Err(Failure::usage("--from needs the number of a program")),
                ("--from", _) => options.from = number(rest.next().copied().unwrap_or_default())?,
                _ => options.count = number(argument)?,
            }
        }
        Ok(options)
    }
}

/// How the test is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// With all tests, so that nothing is left to build after them.
    Tests,
    /// Optimised, with every assertion.
    Checked,
}

/// Tries them. The first that fails is shrunk and printed.
pub(crate) fn run(workspace: &Workspace, options: &Options, build: Build) -> Result<(), Failure> {
    let mut command = match build {
        Build::Tests => workspace.variant(Variant::Sabotage, "test --workspace --test model -- --nocapture"),
        Build::Checked => {
            workspace.cargo("test --profile checked --package ceasefire-machine --test model -- --nocapture")
        }
    };
    command.env("CEASEFIRE_PROGRAMS", options.count.to_string());
    failure::run(command.env("CEASEFIRE_SEED", options.from.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_anything_else_is_refused() {
        assert_eq!(Options::parse(&[]).unwrap(), Options { count: PROGRAMS, from: 0 });
        assert_eq!(Options::parse(&["7", "--from", "90"]).unwrap(), Options { count: 7, from: 90 });
        for wrong in [&["--from"][..], &["many"], &["-1"], &["--from", "x"]] {
            assert_eq!(Options::parse(wrong).unwrap_err().code(), 2, "{wrong:?}");
        }
    }
}
