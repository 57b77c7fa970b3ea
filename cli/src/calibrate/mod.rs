//! `ceasefire calibrate`: measures what this computer's operations cost, and writes them as a machine file.

mod formulas;
mod machine_file;
mod model;
mod table;

use std::fs;
use std::io::{stderr, IsTerminal as _};
use std::path::{Path, PathBuf};

use ceasefire_experiments::available_memory;
use ceasefire_linux::calibrate::{measure, Computer, Notes, Part, Size};
use ceasefire_linux::kernel::machine::{processor, release};
use ceasefire_machine::config::{Linux, Machine, Parameter};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::CalibrateArguments;
use crate::failure::{unknown, Done, Failure};
use crate::host::{calibration_file, description};
use crate::output::replacement::Place;
use crate::stdout::print;
use crate::{tables, terminal};

/// The rounds of each measurement.
const ROUNDS: usize = 2000;

pub(crate) fn run(arguments: &CalibrateArguments) -> Done {
    let parts = parts(&arguments.only)?;
    let host = Machine::host().map_err(Failure::input)?;
    let file = file(arguments)?;
    let place = file.as_deref().map(Place::check).transpose()?;
    let cannot = |error| Failure::input(format!("cannot read the CPUs that may be used: {error}"));
    let computer = Computer::read().map_err(cannot)?;
    let size = Size { rounds: ROUNDS, memory: available_memory() };
    let notes = measured(&parts, &computer, size, arguments.quiet);
    let name = processor();
    let linux = Linux::of_release(&release());
    let calibrated = machine_file::calibrated(&host, &description(&name, &host), linux, &computer, &notes)?;
    let width = terminal::width();
    let mut text = table::text(&computer, &notes, width);
    text.push_str(&summary(&name, &calibrated.machine, file.as_deref(), width));
    let written = place.map_or(Ok(()), |place| place.write(calibrated.text.as_bytes()));
    Failure::both(written, print(&text))
}

/// The parts with these names; all if there are none.
fn parts(only: &[String]) -> Result<Vec<Part>, Failure> {
    let known = Part::ALL.map(Part::name);
    let chosen = |part: &Part| only.is_empty() || only.iter().any(|name| name == part.name());
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown("part", name, &known, &[])),
        None => Ok(Part::ALL.into_iter().filter(chosen).collect()),
    }
}

/// The file to write: the chosen one, or the one that `--machine host` reads. A part alone makes no file by itself,
/// since it would replace a whole calibration.
fn file(arguments: &CalibrateArguments) -> Result<Option<PathBuf>, Failure> {
    match &arguments.output {
        Some(path) if path == Path::new("-") => {
            Err(Failure::input("--output writes to a file, not to standard output"))
        }
        Some(path) => Ok(Some(path.clone())),
        None if !arguments.only.is_empty() => Ok(None),
        None => {
            let path = calibration_file().ok_or_else(|| {
                Failure::input(
                    "there is no place for the machine file: set HOME, or name a file with --output",
                )
            })?;
            let folder = path.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder).map_err(|error| Failure::writing(folder.display(), &error))?;
            Ok(Some(path))
        }
    }
}

/// Measures the parts, with a bar on a terminal.
fn measured(parts: &[Part], computer: &Computer, size: Size, quiet: bool) -> Notes {
    let is_shown = stderr().is_terminal() && !quiet;
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(parts.len() as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {msg}") {
        bar.set_style(style);
    }
    let mut notes = Notes::default();
    for &part in parts {
        bar.set_message(part.name());
        measure(part, computer, size, &mut notes);
        bar.inc(1);
    }
    bar.finish_and_clear();
    notes
}

/// How many parameters were measured, and where the file is.
fn summary(processor: &str, machine: &Machine, file: Option<&Path>, width: usize) -> String {
    let all = machine.sources.len();
    let assumed = machine.sources.iter().filter(|parameter| Parameter::is_assumed(parameter)).count();
    let measured =
        machine.sources.iter().filter(|parameter| parameter.source.starts_with("measured")).count();
    let mut lines = vec![format!(
        "{processor}, CPUs: {}: of {all} parameters, {measured} are measured, {} stated by Linux, {assumed} assumed.",
        machine.topology.cpu_count(),
        all - measured - assumed
    )];
    if let Some(file) = file {
        let path = file.display();
        lines.push(if calibration_file().as_deref() == Some(file) {
            format!("Written to {path}, which --machine host uses.")
        } else {
            format!("Written to {path}: --machine {path} uses it.")
        });
    }
    let lines = lines.iter().flat_map(|line| tables::grid::wrapped(line, width));
    lines.map(|line| line + "\n").collect()
}
