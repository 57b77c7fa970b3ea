//! `ceasefire import`: a recording of a file that another program recorded.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::iter;
use std::path::{Path, PathBuf};

use ceasefire_linux::import::{import, ImportError, Imported, Kallsyms};
use ceasefire_linux::recording::RecordingError;
use serde_json::json;

use crate::args::ImportArguments;
use crate::failure::{Done, Failure};
use crate::output::distinct::distinct;
use crate::output::replacement::Place;
use crate::output::text::{self, Text};
use crate::summary::{json_of, words};
use crate::tables::grid::wrapped;
use crate::terminal;
use crate::trace::{is_read_again, Trace};

pub(crate) fn run(arguments: &ImportArguments) -> Done {
    let ImportArguments { file, output, kallsyms, json, trace } = arguments;
    distinct([
        ("the file", Some(file.as_path())),
        ("--kallsyms", kallsyms.as_deref()),
        ("--output", Some(output.as_path())),
        ("--json", text::file(json.as_deref())),
        ("--trace", trace.as_deref()),
    ])?;
    if trace.is_some() {
        is_read_again("--trace", output)?;
    }
    let unreadable = |path: &Path, error: io::Error| Failure::Input(format!("{}: {error}", path.display()));
    let opened = |path: &Path| File::open(path).map(BufReader::new).map_err(|error| unreadable(path, error));
    let (first, others) = files(file)?;
    let from = opened(&first)?;
    let others = others.iter().map(|path| opened(path)).collect::<Result<_, _>>()?;
    let given =
        kallsyms.as_deref().map(|path| fs::read_to_string(path).map_err(|error| unreadable(path, error)));
    let given = given.transpose()?;
    let trace = trace.as_deref().map(Trace::check).transpose()?;
    let json = json.as_deref().map(Text::check).transpose()?;
    let recording = Place::check(output)?.stream()?;
    let shown = output.display().to_string();
    let to = File::create(recording.path()).map_err(|error| Failure::writing(&shown, &error))?;
    // They are absent where they are not Linux's, or may not be read.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let running = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let kallsyms = Kallsyms { given: given.as_deref(), running: Some((release.trim(), &running)) };
    let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let failed = |error| match error {
        ImportError::Recording(RecordingError::Io(error)) => Failure::writing(&shown, &error),
        error => Failure::Input(format!("{}: {error}", file.display())),
    };
    let Imported { mut recorded, absent } =
        import(from, others, kallsyms, command, BufWriter::new(to)).map_err(failed)?;
    let written = recorded.to.flush();
    written.map_err(|error| Failure::writing(&shown, &error))?;
    let place = recording.finish_beside_former()?;
    let traced = trace.map_or(Ok(()), |trace| trace.write(output));
    let value = || {
        let mut value = json_of(&recorded, &shown);
        value["absent"] = json!(absent);
        value
    };
    let words = || {
        let mut words = words(&recorded, &place);
        if !absent.is_empty() {
            let note = format!(
                "events of a full recording that the file does not have, so causes and replay lack them: {}",
                absent.join(", ")
            );
            words.push_str(&wrapped(&note, terminal::width()).join("\n"));
            words.push('\n');
        }
        words
    };
    Failure::both(traced, text::write(json, value, words))
}

/// The file that is to be imported, and those beside it. perf record makes a directory where it has more, which it
/// numbers.
fn files(path: &Path) -> Result<(PathBuf, Vec<PathBuf>), Failure> {
    if !path.is_dir() {
        return Ok((path.to_owned(), Vec::new()));
    }
    let listed = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let listed = listed.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    let number = |name: &OsStr| name.to_str()?.strip_prefix("data.")?.parse::<usize>().ok();
    let numbered =
        listed.iter().filter_map(|entry| number(&entry.file_name())).max().map_or(1, |last| last + 1);
    // Without any, `data.0` is missed.
    let first = path.join("data");
    let others: Vec<PathBuf> = (0..numbered).map(|number| path.join(format!("data.{number}"))).collect();
    match iter::once(&first).chain(&others).find(|file| !file.is_file()) {
        Some(absent) => {
            Err(Failure::Input(format!("{}: perf record's directory lacks this file", absent.display())))
        }
        None => Ok((first, others)),
    }
}
