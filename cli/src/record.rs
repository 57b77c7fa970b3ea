//! `ceasefire record`: the TLB shootdowns of this Linux machine.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use ceasefire_linux::events::{Level, Names};
use ceasefire_linux::record::{record, Length, Options, RecordError, Recorded};
use ceasefire_linux::recording::{Count, Facts, Recording, RecordingError};
use ceasefire_linux::replay::{replay, ReplayError};
use ceasefire_linux::shootdowns::Totals;
use serde_json::json;

use crate::args::RecordArguments;
use crate::failure::{Done, Failure};
use crate::html;
use crate::number::compact;
use crate::output::command_line;
use crate::output::distinct::distinct;
use crate::output::interrupt;
use crate::output::replacement::Place;
use crate::output::text::{self, Text};

/// The causes and the processes that the summary shows.
const SHOWN: usize = 5;

pub(crate) fn run(arguments: &RecordArguments) -> Done {
    let RecordArguments { output, light, stacks, json, html, duration, program } = arguments;
    text::is_file("--html", html.as_deref())?;
    let summary = ("--json", text::file(json.as_deref()));
    distinct([("--output", Some(output.as_path())), summary, ("--html", html.as_deref())])?;
    if html.is_some() && output.exists() && !output.is_file() {
        let shown = output.display();
        return Err(Failure::input(format!(
            "{shown}: --html needs a recording in a file that can be read again"
        )));
    }
    let html = html.as_deref().map(Place::check).transpose()?;
    let json = json.as_deref().map(Text::check).transpose()?;
    let recording = Place::check(output)?.stream()?;
    let shown = output.display().to_string();
    let file = File::create(recording.path()).map_err(|error| Failure::writing(&shown, &error))?;
    let beside = recording.path().parent().unwrap_or(Path::new(".")).to_owned();
    let length = match (program.split_first(), duration) {
        (Some((name, rest)), _) => {
            let mut command = Command::new(name);
            command.args(rest);
            Length::Program(command)
        }
        (None, Some(time)) => Length::For(*time),
        (None, None) => Length::Unlimited,
    };
    let options = Options {
        level: if *light { Level::Light } else { Level::Full },
        stacks: *stacks,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let failed = |error: RecordError| match error {
        RecordError::Recording(RecordingError::Io(error)) => Failure::writing(&shown, &error),
        error => Failure::input(error),
    };
    let stopped = interrupt::stops_early();
    let Recorded { facts, totals, names, to: file } =
        record(&options, length, &beside, BufWriter::new(file), stopped).map_err(failed)?;
    let written = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|mut file| file.flush());
    written.map_err(|error| Failure::writing(&shown, &error))?;
    recording.finish()?;
    let page = html.map_or(Ok(()), |place| place.write(page(output)?.as_bytes()));
    let written = text::write(json, || json_of(&facts, &shown), || words(&facts, &totals, &names, &shown));
    Failure::both(page, written)
}

/// The page of a recording that was written.
fn page(path: &Path) -> Result<String, Failure> {
    let failed = |error: ReplayError| Failure::Input(format!("{}: {error}", path.display()));
    let mut recording = Recording::open(path).map_err(|error| failed(error.into()))?;
    let replayed = replay(&mut recording, &[]).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(html::recording::of(&command_line(), &name, &replayed, &[]))
}

/// The summary as JSON.
fn json_of(facts: &Facts, file: &str) -> serde_json::Value {
    json!({
        "ceasefire": facts.ceasefire,
        "file": file,
        "kernel": facts.kernel,
        "cpus": facts.cpus.len(),
        "duration_s": seconds(facts),
        "light": facts.light,
        "counted": facts.counted,
        "interrupts": facts.interrupts,
        "tlb_row": facts.tlb_row,
        "tlb_row_unsure": facts.tlb_row_unsure,
        "asked": facts.asked,
        "lost": facts.lost.events,
        "lost_uncounted": facts.lost.uncounted,
        "unreadable": facts.lost.unreadable,
        "overhead": facts.overhead,
    })
}

fn seconds(facts: &Facts) -> f64 {
    facts.ended_ns.saturating_sub(facts.began_ns) as f64 / 1e9
}

/// The summary in words. Writing to a string does not fail.
fn words(facts: &Facts, totals: &Totals, names: &Names, file: &str) -> String {
    let mut text = String::new();
    let time = seconds(facts);
    let rate = if time > 0.0 { facts.interrupts as f64 / time } else { 0.0 };
    let _ = writeln!(
        text,
        "interrupts for TLB flushes: {} in {time:.2} s, {}/s",
        facts.interrupts,
        compact(rate)
    );
    if facts.counted == Count::Flushed {
        text.push_str("  This kernel has no events csd:* (before Linux 6.4). Counted are flushes that another CPU asked\n  \
                       for; interrupts of CPUs with nothing to flush are not among them.\n");
    }
    match (facts.tlb_row, facts.tlb_row_unsure) {
        (None, _) => text.push_str("/proc/interrupts has no row TLB on this machine\n"),
        (Some(row), 0) => {
            let _ = writeln!(text, "TLB row of /proc/interrupts, over the same time: {row}");
        }
        (Some(row), unsure) => {
            let _ = writeln!(
                text,
                "TLB row of /proc/interrupts, over the same time: {row} (up to {unsure} came while it was read)"
            );
        }
    }
    if let Some(asked) = facts.asked {
        let _ = writeln!(text, "flushes that asked other CPUs (tlb:tlb_flush): {asked}");
    }
    if !facts.lost.is_none() {
        let least = if facts.lost.uncounted { "at least " } else { "" };
        let _ = writeln!(
            text,
            "lost: {least}{} events that the kernel could not keep, {} unreadable records",
            facts.lost.events, facts.lost.unreadable
        );
    }
    let _ = writeln!(text, "overhead: {:.2}% of the machine's processor time", facts.overhead * 100.0);
    let mut causes: Vec<_> = totals.causes.iter().filter(|_| !facts.light).collect();
    causes.sort_by_key(|(_, sum)| Reverse(sum.interrupts));
    for (cause, sum) in causes.into_iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  {}: {} interrupts of {} flushes, {} waited, {} in handlers",
            cause.name(),
            sum.interrupts,
            sum.flushes,
            milliseconds(sum.sender_ns),
            milliseconds(sum.victim_ns)
        );
    }
    for (process, sum) in totals.senders().into_iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  {} ({}): {} interrupts of {} flushes",
            names.get(process.program),
            process.id,
            sum.interrupts,
            sum.flushes
        );
    }
    let _ = writeln!(text, "written: {file}");
    text
}

fn milliseconds(ns: u64) -> String {
    format!("{} ms", compact(ns as f64 / 1e6))
}
