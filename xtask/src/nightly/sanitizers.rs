//! The sanitizers of threads and of addresses, over the tests with real threads.

use super::output::{passed, shown};
use super::toolchain::{self, TARGET};
use super::{Done, Extent};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The tests with threads: the command of cargo, and the names of the tests.
const TESTS: [(&str, &str); 4] = [
    ("test --package ceasefire --lib", ""),
    ("test --package ceasefire --test laws", "-- interleaved retirement"),
    ("test --package ceasefire-memory --test manager", "threads::"),
    ("run --package ceasefire-conformance --example template", ""),
];

/// Finds two accesses of which one is a store, and which nothing orders.
pub(super) fn thread(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    run(workspace, "thread", extent)
}

/// Finds accesses outside of what is allocated, and memory that is used after it was freed.
pub(super) fn address(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    run(workspace, "address", extent)
}

fn run(workspace: &Workspace, sanitizer: &str, _: Extent) -> Result<Done, Failure> {
    toolchain::ensure()?;
    let mut sum = 0;
    for (tests, names) in TESTS {
        // The sanitizer must see the standard library's accesses too, so that library is built anew.
        let mut command =
            toolchain::cargo(workspace, &format!("{tests} -Zbuild-std --target {TARGET} {names}"));
        command.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
        // Tests may leave memory to the end of their process.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
        sum += passed(&shown(&mut command)?);
    }
    Ok(Done {
        command: format!("cargo xtask nightly {sanitizer}"),
        figure: format!("{sum} tests, and the template of conformance"),
    })
}
