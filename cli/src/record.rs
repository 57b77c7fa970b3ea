//! `ceasefire record`: the TLB shootdowns of this Linux machine.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use ceasefire_linux::events::Level;
use ceasefire_linux::record::{record, Length, Options, RecordError};
use ceasefire_linux::recording::{Recording, RecordingError};
use ceasefire_linux::replay::{replay, ReplayError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::RecordArguments;
use crate::failure::{Done, Failure};
use crate::html;
use crate::output::command_line;
use crate::output::distinct::distinct;
use crate::output::interrupt;
use crate::output::replacement::Place;
use crate::output::text::{self, Text};
use crate::summary::{json_of, words};
use crate::trace::{is_read_again, Trace};

pub(crate) fn run(arguments: &RecordArguments) -> Done {
    let RecordArguments { output, light, stacks, anonymous, json, html, trace, duration, program } =
        arguments;
    text::is_file("--html", html.as_deref())?;
    let summary = ("--json", text::file(json.as_deref()));
    let (of_html, of_trace) = (("--html", html.as_deref()), ("--trace", trace.as_deref()));
    distinct([("--output", Some(output.as_path())), summary, of_html, of_trace])?;
    for (option, _) in [of_html, of_trace].into_iter().filter(|(_, path)| path.is_some()) {
        is_read_again(option, output)?;
    }
    let trace = trace.as_deref().map(Trace::check).transpose()?;
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
        anonymous: *anonymous,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    let failed = |error: RecordError| match error {
        RecordError::Recording(RecordingError::Io(error)) => Failure::writing(&shown, &error),
        error => Failure::input(error),
    };
    let stopped = interrupt::stops_early();
    let bar = bar();
    let show = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let recorded = record(&options, length, &beside, BufWriter::new(file), stopped, show);
    bar.finish_and_clear();
    let (mut recorded, ended) = recorded.map_err(failed)?;
    let written = recorded.to.flush();
    written.map_err(|error| Failure::writing(&shown, &error))?;
    let place = recording.finish_beside_former()?;
    let traced = trace.map_or(Ok(()), |trace| trace.write(output));
    let page = html.map_or(Ok(()), |place| place.write(page(output)?.as_bytes()));
    let written = text::write(json, || json_of(&recorded, &shown), || words(&recorded, &place));
    let ended = ended.filter(|ended| !ended.success()).map_or(Ok(()), |ended| Err(Failure::Program(ended)));
    Failure::both(traced, Failure::both(page, Failure::both(written, ended)))
}

/// Shows on a terminal how much of the recording is written. That may take longer than the recording did.
fn bar() -> ProgressBar {
    // It is hidden where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("writing [{bar:40}] {percent:>3}%") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// The page of a recording that was written.
fn page(path: &Path) -> Result<String, Failure> {
    let failed = |error: ReplayError| Failure::Input(format!("{}: {error}", path.display()));
    let mut recording = Recording::open(path).map_err(|error| failed(error.into()))?;
    let replayed = replay(&mut recording, &[]).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(html::recording::of(&command_line(), &name, &replayed, &[]))
}
