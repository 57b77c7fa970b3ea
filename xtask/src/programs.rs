//! `cargo xtask programs`: random programs against a plain model of memory, by the hundred thousand.
//!
//! It is the test that `cargo test` runs with a few hundred programs, in an optimised build with every assertion.

use crate::failure::{self, Failure};
use crate::workspace::{Variant, Workspace};

/// The programs to try.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// How many.
    #[arg(default_value_t = 100_000)]
    pub(crate) count: u64,
    /// The number of the first.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) from: u64,
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
