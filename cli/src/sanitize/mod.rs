//! `ceasefire sanitize`: the flushes that a kernel forgot, found by a plugin in the emulator that runs it.
//!
//! `emulator` checks and runs QEMU, `symbols` names addresses, and `text` is what the terminal shows.

mod emulator;
mod symbols;
mod text;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use ceasefire_sanitizer::find::{Find, Line, Summary};

use self::emulator::Emulator;
use crate::args::SanitizeArguments;
use crate::failure::{Done, Failure};
use crate::stdout::print;

/// A report of the plugin.
#[derive(Debug, Default)]
struct Report {
    finds: Vec<Find>,
    /// `None`: the emulator was ended before it could be written.
    end: Option<Summary>,
}

pub(crate) fn run(arguments: &SanitizeArguments) -> Done {
    let symbols = arguments.kernel.as_deref().map(symbols::read).transpose()?.unwrap_or_default();
    let emulator = Emulator::find(&arguments.command, arguments.plugin.as_deref())?;
    let folder;
    let path = if let Some(path) = &arguments.output {
        path
    } else {
        folder = tempfile::tempdir().map_err(|error| Failure::writing("the report", &error))?;
        &folder.path().join("report")
    };
    let ended = emulator.run(path)?;
    let report = Report::read(path)?;
    print(&text::of(&report, &symbols))?;
    if !report.finds.is_empty() {
        let found = report.end.as_ref().map_or(report.finds.len() as u64, |end| end.finds);
        return Err(Failure::Checked(vec![format!(
            "translations were used that had to be flushed: {found} uses"
        )]));
    }
    if report.end.is_none() {
        return Err(Failure::Input(format!("{} {ended} before the report was whole", emulator.name())));
    }
    Ok(())
}

impl Report {
    fn read(path: &Path) -> Result<Self, Failure> {
        let unreadable =
            |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        let mut report = Self::default();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| unreadable(&error))?;
            match serde_json::from_str(&line) {
                Ok(Line::Find(find)) => report.finds.push(*find),
                Ok(Line::End(summary)) => report.end = Some(summary),
                Ok(Line::Begin { .. }) => {}
                // The emulator was ended while it wrote the line, or the disk was full.
                Err(_) => break,
            }
        }
        Ok(report)
    }
}
