//! ostd under the sanitizer: as it is published, on the engine, and on the engine without its guards.

use std::path::Path;

use super::emulator::Emulator;
use super::{report, Row};
use crate::adopt::{self, Watched};
use crate::failure::{self, Failure};
use crate::guests;
use crate::kernel::Ending;

/// The runs, and what is missing in each. As it is published, ostd flushes no other CPU where a kernel range is dropped
/// (asterinas#2849).
const CASES: &[(&str, Watched)] = &[
    ("a flush (asterinas#2849)", Watched::Published),
    ("", Watched::Engine),
    ("others", Watched::Without("others")),
    ("kernel-flush", Watched::Without("kernel-flush")),
];

/// Makes the runs.
pub(super) fn run(emulator: &Emulator, folder: &Path) -> Result<Vec<Row>, Failure> {
    let emulators = folder.join("emulators");
    guests::make(&emulators)?;
    let mut rows = Vec::new();
    for (number, (removed, what)) in CASES.iter().enumerate() {
        let path = folder.join(format!("ostd-{number}.report"));
        let command = failure::line(&emulator.command("x86_64", &path)?);
        // The search path begins with the script's own folder.
        let script = format!("#!/bin/sh\nPATH=\"${{PATH#*:}}\"\nexec env {command} \"$@\"\n");
        guests::program(&emulators.join("qemu-system-x86_64"), &script)?;
        let ended = match adopt::watched(*what, &emulators) {
            Ok(()) => (Ending::Done, "done".to_owned()),
            Err(why) => (Ending::Died(why.to_string()), why.to_string()),
        };
        let found = report::read(&path);
        let run = format!("{what:?}");
        let row = Row { target: "ostd 0.19.0, x86_64".to_owned(), run, removed, found, ended, report: path };
        println!("{}", row.line());
        rows.push(row);
    }
    Ok(rows)
}
