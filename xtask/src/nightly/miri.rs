//! Miri: the engine's tests and the memory manager's own, interpreted, with a check of each access.
//!
//! Miri takes some thousand times as long as a processor. So the engine is built for 64 CPUs, and tests that try many
//! cases try few of them: those that say `cfg!(miri)`, and by this variable all others.

use super::output::{passed, shown};
use super::{toolchain, Done, Extent};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The tests see neither files nor variables of the environment, and the same random numbers in each run.
const FLAGS: &str = "-Zmiri-isolation-error=hide -Zmiri-env-set=PROPTEST_CASES=2";

const WHOLE: &[&str] =
    &["--package ceasefire --lib", "--package ceasefire --test laws", "--package ceasefire-memory --lib"];

/// The parts of the engine with `unsafe` code and atomics, and one random history on threads.
const PART: &[&str] = &[
    "--package ceasefire --lib",
    "--package ceasefire --test laws -- keep_every_rule_with_broadcasts --skip random_histories",
];

pub(super) fn run(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    toolchain::ensure()?;
    let mut tests = 0;
    for chosen in extent.choose(WHOLE, PART) {
        let mut command = toolchain::cargo(workspace, &format!("miri test {chosen}"));
        command.envs([("MIRIFLAGS", FLAGS), ("CEASEFIRE_MAX_CPUS", "64")]);
        tests += passed(&shown(&mut command)?);
    }
    Ok(Done { command: "cargo xtask nightly miri".to_owned(), figure: format!("{tests} tests") })
}
