//! Our kernel under the sanitizer: with all its guards nothing may be found, without any of them something must.

use std::path::Path;

use ceasefire_sanitizer::find::Kind;

use super::emulator::Emulator;
use super::{report, Row};
use crate::failure::Failure;
use crate::kernel::Watched;
use crate::workspace::Workspace;

/// The kind of find that is none here. The kernel may leave to ticks, or to a later purge, what a call that has returned
/// took away.
const ALLOWED: Kind = Kind::LateUse;

/// The options of all runs, and of those that must end by a find: the kernel does not look itself, and goes on.
const ALL: &str = "--cpus 4 --memory 256M";
const FOUND: &str = "--unchecked --seconds 60";

/// Debts that grow old, and what meets them.
const LAZY: &str = "--mechanism lazy --max-age 300";

/// What is removed, and the options of the run.
type Case = (&'static str, &'static [&'static str]);

/// The runs for a change. Few scenarios at a time have much of the machine.
const CASES: &[Case] = &[
    ("", &["--seconds 4"]),
    ("", &["--seconds 4 --scenarios rewrite,alias,replace,drain", LAZY]),
    ("", &["--seconds 4 --scenarios kernel-unmap,kernel-purge --undisturbed"]),
    ("", &["--seconds 4 --scenarios kernel-unmap,kernel-purge,offline"]),
    // Readers that only load: stale stores could end the programs before anything is found.
    ("every flush", &[FOUND, "--mechanism none --scenarios rewrite,alias,replace"]),
    ("slot", &[FOUND, LAZY, "--without slot --scenarios rewrite,alias"]),
    ("stamp", &[FOUND, LAZY, "--without stamp --scenarios rewrite,alias,replace,drain"]),
    ("settle", &[FOUND, LAZY, "--without settle --scenarios replace"]),
    ("kernel-flush", &[FOUND, "--without kernel-flush --scenarios kernel-unmap,kernel-purge"]),
    ("kernel-entry", &[FOUND, "--without kernel-entry --undisturbed --scenarios kernel-unmap,kernel-purge"]),
];

/// The runs that take longer.
const LONG: &[Case] = &[
    ("", &["--seconds 60"]),
    ("", &["--seconds 60 --mechanism per-page"]),
    ("", &["--seconds 60 --mechanism lazy"]),
    ("", &["--seconds 60 --undisturbed"]),
];

/// Makes the runs.
pub(super) fn run(
    workspace: &Workspace,
    emulator: &Emulator,
    folder: &Path,
    all: bool,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for kernel in Watched::build_all(workspace)? {
        let cases = CASES.iter().chain(if all { LONG } else { &[] });
        for (number, (removed, words)) in cases.enumerate() {
            let path = folder.join(format!("kernel-{}-{number}.report", kernel.arch()));
            let read = || {
                let mut reading = report::read(&path);
                reading.finds.retain(|find| find.kind != ALLOWED);
                reading
            };
            let line = format!("{ALL} {}", words.join(" "));
            let emulator = emulator.command(kernel.arch(), &path)?;
            let ended = kernel.boot(&line, emulator, &|| !read().finds.is_empty())?;
            let target = format!("our kernel, {}", kernel.arch());
            let row = Row { target, run: line, removed, found: read(), ended, report: path };
            println!("{}", row.line());
            rows.push(row);
        }
    }
    Ok(rows)
}
