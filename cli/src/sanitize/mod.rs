//! `ceasefire sanitize`: the flushes that a kernel forgot, found by a plugin in the emulator that runs it.
//!
//! `emulator` checks and runs QEMU, and `symbols` names addresses. `rules` reads what is known of a kernel: `suppress` is
//! what it does on purpose, which `judged` leaves out, and `free` the functions that free frames. `events` puts a find in
//! words and in order, and `text` is what the terminal shows. The page is in `html`.

mod emulator;
pub(crate) mod events;
mod free;
mod judged;
mod rules;
mod suppress;
pub(crate) mod symbols;
pub(crate) mod text;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::process::ExitStatus;

use ceasefire_sanitizer::find::Find;
use ceasefire_sanitizer::reader::Reading;

use self::emulator::Emulator;
use self::events::told;
pub(crate) use self::judged::Judged;
use crate::args::SanitizeArguments;
use crate::failure::{complain, Done, Failure};
use crate::html;
use crate::output::distinct::distinct;
use crate::output::replacement::Place;
use crate::output::{command_line, text::is_file};
use crate::stdout::print;

/// Where a report comes from.
enum Source<'a> {
    /// It was kept.
    File(&'a Path),
    /// An emulator has run.
    Ended(String, ExitStatus),
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Ended(name, status) => write!(f, "{name} ended ({status})"),
        }
    }
}

pub(crate) fn run(arguments: &SanitizeArguments) -> Done {
    let SanitizeArguments { kernel, preset, suppress, read, output, html, plugin, command } = arguments;
    is_file("--html", html.as_deref())?;
    let written = [("--output", output.as_deref()), ("--html", html.as_deref())];
    let others = [("--kernel", kernel.as_deref()), ("--read", read.as_deref())];
    distinct(written.into_iter().chain(others))?;
    let rules_of = suppress.iter().map(|path| ("--suppress", Some(path.as_path())));
    distinct(written.into_iter().chain(rules_of))?;
    let symbols = kernel.as_deref().map(symbols::read).transpose()?.unwrap_or_default();
    let rules = rules::read(preset, suppress, &symbols)?;
    let page = html.as_deref().map(Place::check).transpose()?;
    let rule_for = |find: &Find| rules.suppress.iter().find(|rule| rule.matches(find, &symbols));
    let (reading, source, kept) = if let Some(path) = read {
        let wrong = |error| Failure::Input(format!("{}: {error}", path.display()));
        (Reading::of(path).map_err(wrong)?, Source::File(path), Ok(()))
    } else {
        let emulator = Emulator::find(command, plugin.as_deref())?;
        let mut keep = Keep::open(output.as_deref())?;
        let mut frees: Vec<_> = rules.free.iter().flat_map(|free| free.frees(&symbols)).collect();
        frees.sort_by_key(|free| free.function);
        frees.dedup();
        let running = emulator.start(symbols.ends(), &frees)?;
        let reading = watch(&running.report, &mut keep, |find| rule_for(find).is_none());
        let wrong = |error| Failure::Input(format!("{}: {error}", emulator.name()));
        let status = running.end().map_err(wrong)?;
        (reading.map_err(wrong)?, Source::Ended(emulator.name(), status), keep.failed)
    };
    let is_begun = reading.is_begun;
    // What a kept report has not followed cannot be followed now.
    let mut unseen: Vec<_> = rules.free.iter().map(|free| free.unseen(&symbols)).collect();
    unseen.retain(|_| read.is_none());
    unseen.dedup();
    let judged = Judged::of(reading, rule_for, unseen);
    if is_begun {
        print(&text::of(&judged, &symbols))?;
        if let Some(page) = page {
            page.write(html::sanitizer::of(&command_line(), &judged, &symbols).as_bytes())?;
        }
    }
    Failure::both(of(&judged, is_begun, &source), kept)
}

/// The file of `--output`.
#[derive(Debug)]
struct Keep<'a> {
    file: Option<(&'a Path, File)>,
    /// The first error of writing, after which nothing is written.
    failed: Done,
}

impl<'a> Keep<'a> {
    fn open(path: Option<&'a Path>) -> Result<Self, Failure> {
        let file = path.map(|path| Ok((path, Place::check(path)?.open()?))).transpose()?;
        Ok(Self { file, failed: Ok(()) })
    }

    fn write(&mut self, line: &[u8]) {
        let Some((path, file)) = &mut self.file else { return };
        if let Err(error) = file.write_all(line) {
            // What was found is still shown.
            self.failed = Err(Failure::writing(path.display(), &error));
            self.file = None;
        }
    }
}

/// Reads a report while it is written, keeps it, and says at once that there is a find.
fn watch(report: impl Read, keep: &mut Keep<'_>, is_new: impl Fn(&Find) -> bool) -> io::Result<Reading> {
    let mut is_first = true;
    let found = |find: &Find| {
        if is_first && is_new(find) {
            is_first = false;
            complain(&format!("a flush was missing; all are shown when QEMU ends: {}", told(find)));
        }
    };
    Reading::along(report, |line| keep.write(line), found)
}

/// What the program ends with.
fn of(judged: &Judged, is_begun: bool, source: &Source) -> Done {
    if !judged.finds.is_empty() {
        let counted = text::counted(judged.finds.len(), judged.uses());
        return Err(Failure::Checked(vec![format!("flushes were missing: {counted}")]));
    }
    let why = match &judged.end {
        _ if !is_begun => ": there is no report of the plugin",
        None => ": the report is not whole",
        Some(end) if end.looks == 0 => {
            ": nothing was compared: the guest must run by TCG, without KVM, and long enough to use page tables"
        }
        Some(_) if matches!(source, Source::Ended(_, status) if !status.success()) => "",
        Some(_) => return Ok(()),
    };
    Err(Failure::Input(format!("{source}{why}")))
}
