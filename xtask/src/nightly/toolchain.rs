//! The searches with a nightly toolchain, whose date is pinned: another one may print other things or fail otherwise.
//!
//! Miri interprets the engine's tests and the memory manager's own, with a check of each access. It takes some thousand
//! times as long as a processor. So the engine is built for 64 CPUs, and tests that try many cases try few of them: those
//! that say `cfg!(miri)`, and by a variable all others. The sanitizers of threads and of addresses run the tests with real
//! threads.

use std::process::Command;

use super::searches::passed;
use super::{Done, Extent};
use crate::failure::{self, Failure};
use crate::workspace::{self, Workspace};

const NIGHTLY: &str = "nightly-2026-05-20";

/// The target for which the standard library is built anew.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Installs the toolchain where it is missing.
pub(super) fn ensure() -> Result<(), Failure> {
    workspace::toolchain(NIGHTLY, &["miri", "rust-src"], &[])
}

/// A command of the nightly cargo. It builds in a folder of its own, since its results are of no use to others.
pub(super) fn cargo(workspace: &Workspace, line: &str) -> Command {
    let mut command = workspace.cargo(&format!("+{NIGHTLY} {line}"));
    command.env("CARGO_TARGET_DIR", workspace.target.join("nightly"));
    command
}

/// The tests see neither files nor variables of the environment, and the same random numbers in each run.
const MIRI: &str = "-Zmiri-isolation-error=hide -Zmiri-env-set=PROPTEST_CASES=2";

const WHOLE: &[&str] =
    &["--package ceasefire --lib", "--package ceasefire --test laws", "--package ceasefire-memory --lib"];

/// The parts of the engine with `unsafe` code and atomics, and one random history on threads.
const PART: &[&str] = &[
    "--package ceasefire --lib",
    "--package ceasefire --test laws -- keep_every_rule_with_broadcasts --skip random_histories",
];

/// Interprets the tests.
pub(super) fn miri(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    ensure()?;
    let mut tests = 0;
    for chosen in extent.choose(WHOLE, PART) {
        let mut command = cargo(workspace, &format!("miri test {chosen}"));
        command.envs([("MIRIFLAGS", MIRI), ("CEASEFIRE_MAX_CPUS", "64")]);
        tests += passed(&failure::shown(&mut command)?);
    }
    Ok(Done { command: "cargo xtask nightly miri".to_owned(), figure: format!("{tests} tests") })
}

/// The tests with threads: the command of cargo, and the names of the tests.
const TESTS: [(&str, &str); 4] = [
    ("test --package ceasefire --lib", ""),
    ("test --package ceasefire --test laws", "-- interleaved retirement"),
    ("test --package ceasefire-memory --test manager", "threads::"),
    ("run --package ceasefire-conformance --example template", ""),
];

/// Runs the tests under a sanitizer.
pub(super) fn sanitized(workspace: &Workspace, sanitizer: &str) -> Result<Done, Failure> {
    ensure()?;
    let mut sum = 0;
    for (tests, names) in TESTS {
        // The sanitizer must see the standard library's accesses too, so that library is built anew.
        let mut command = cargo(workspace, &format!("{tests} -Zbuild-std --target {TARGET} {names}"));
        command.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
        // Tests may leave memory to the end of their process.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
        sum += passed(&failure::shown(&mut command)?);
    }
    Ok(Done {
        command: format!("cargo xtask nightly {sanitizer}"),
        figure: format!("{sum} tests, and the template of conformance"),
    })
}
