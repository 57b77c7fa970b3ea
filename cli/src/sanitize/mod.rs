//! `ceasefire sanitize`: the flushes that a kernel forgot, found by a plugin in the emulator that runs it.
//!
//! `emulator` checks and runs QEMU, `symbols` names addresses, `suppress` leaves out what a kernel does on purpose, `events`
//! puts a find in words and in order, and `text` is what the terminal shows. The page is in `html`.

mod emulator;
pub(crate) mod events;
mod suppress;
pub(crate) mod symbols;
pub(crate) mod text;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use ceasefire_sanitizer::find::{Find, Line, Summary};

use self::emulator::Emulator;
use self::suppress::Rule;
use crate::args::SanitizeArguments;
use crate::failure::{Done, Failure};
use crate::html;
use crate::output::distinct::distinct;
use crate::output::replacement::Place;
use crate::output::{command_line, text::is_file};
use crate::stdout::print;

/// A report of the plugin.
#[derive(Debug, Default)]
struct Report {
    finds: Vec<Find>,
    /// The plugin has begun.
    is_begun: bool,
    /// `None`: the emulator was ended before it could be written.
    end: Option<Summary>,
}

/// A report without what rules leave out.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The finds, and how often each was made, if that is known.
    pub(crate) finds: Vec<(Find, Option<u64>)>,
    /// The rules that left something out: how many finds, and how many uses.
    pub(crate) suppressed: Vec<(Rule, usize, Option<u64>)>,
    pub(crate) end: Option<Summary>,
}

pub(crate) fn run(arguments: &SanitizeArguments) -> Done {
    let SanitizeArguments { kernel, preset, suppress, output, html, plugin, command } = arguments;
    is_file("--html", html.as_deref())?;
    let (of_output, of_html) = (("--output", output.as_deref()), ("--html", html.as_deref()));
    distinct([of_output, of_html, ("--kernel", kernel.as_deref())])?;
    distinct(
        [of_output, of_html]
            .into_iter()
            .chain(suppress.iter().map(|path| ("--suppress", Some(path.as_path())))),
    )?;
    let symbols = kernel.as_deref().map(symbols::read).transpose()?.unwrap_or_default();
    let rules = suppress::read(preset, suppress)?;
    let page = html.as_deref().map(Place::check).transpose()?;
    let emulator = Emulator::find(command, plugin.as_deref())?;
    let folder;
    let path = if let Some(path) = output {
        path
    } else {
        folder = tempfile::tempdir().map_err(|error| Failure::writing("the report", &error))?;
        &folder.path().join("report")
    };
    let ended = emulator.run(path, symbols.ends())?;
    let report = Report::read(path)?;
    if !report.is_begun {
        return Err(Failure::Input(format!("{} ended ({ended}) before the plugin began", emulator.name())));
    }
    let judged = report.judged(&rules, |rule, find| rule.matches(find, &symbols));
    print(&text::of(&judged, &symbols))?;
    if let Some(page) = page {
        page.write(html::sanitizer::of(&command_line(), &judged, &symbols).as_bytes())?;
    }
    if !judged.finds.is_empty() {
        let counted = text::counted(judged.finds.len(), judged.uses());
        return Err(Failure::Checked(vec![format!("flushes were missing: {counted}")]));
    }
    let Some(end) = &judged.end else {
        return Err(Failure::Input(format!(
            "{} ended ({ended}) before the report was whole",
            emulator.name()
        )));
    };
    if end.looks == 0 {
        let why = "nothing was compared: the guest must run by TCG, without KVM, and long enough to use page tables";
        return Err(Failure::Input(format!("{} ended ({ended}), and {why}", emulator.name())));
    }
    if !ended.success() {
        return Err(Failure::Input(format!("{} ended ({ended})", emulator.name())));
    }
    Ok(())
}

impl Judged {
    /// How often the finds were made, if that is known.
    fn uses(&self) -> Option<u64> {
        self.finds.iter().map(|(_, uses)| *uses).sum()
    }
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
                Ok(Line::Begin { .. }) => report.is_begun = true,
                // The emulator was ended while it wrote the line, or the disk was full.
                Err(_) => break,
            }
        }
        Ok(report)
    }

    /// Leaves out what rules name.
    fn judged(self, rules: &[Rule], matches: impl Fn(&Rule, &Find) -> bool) -> Judged {
        let uses = |number: usize| self.end.as_ref().and_then(|end| end.uses.get(number).copied());
        let mut suppressed: Vec<(Rule, usize, Option<u64>)> = Vec::new();
        let mut finds = Vec::new();
        for (number, find) in self.finds.into_iter().enumerate() {
            let Some(rule) = rules.iter().find(|rule| matches(rule, &find)) else {
                finds.push((find, uses(number)));
                continue;
            };
            let more = uses(number);
            match suppressed.iter_mut().find(|(known, ..)| known == rule) {
                Some((_, finds, uses)) => (*finds, *uses) = (*finds + 1, uses.zip(more).map(|(a, b)| a + b)),
                None => suppressed.push((rule.clone(), 1, more)),
            }
        }
        Judged { finds, suppressed, end: self.end }
    }
}
