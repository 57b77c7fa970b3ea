//! A study on a Ray cluster.
//!
//! Ray is driven from Python. So the sweep is a process of the Python package, `python3 -m ceasefire`, which writes an
//! event to each line of its output. It ends when its output is closed, and thus when this process ends.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ceasefire_studies::{Progress, Row, SweepError, Watch};
use rustix::process::{kill_process, Pid, Signal};
use serde::Deserialize;

use crate::args::SweepArguments;
use crate::failure::Failure;

/// The variable that names the interpreter.
const INTERPRETER: &str = "CEASEFIRE_PYTHON";
/// The interpreter without it.
const DEFAULT: &str = "python3";
/// The longest time until a request to stop is seen.
const STOPS: Duration = Duration::from_millis(100);

/// A line of the process's output.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    Progress(Progress),
    Failed(Box<Row>),
    Error(String),
}

/// Runs the points of the study that the folder does not have.
pub(super) fn sweep(
    arguments: &SweepArguments,
    folder: &Path,
    watch: &dyn Watch,
) -> Result<Progress, Failure> {
    let python = env::var_os(INTERPRETER).unwrap_or_else(|| DEFAULT.into());
    check_package(&python)?;
    let mut command = Command::new(&python);
    command.args(["-m", "ceasefire"]).arg(&arguments.study).arg(folder);
    if let Some(address) = &arguments.address {
        command.args(["--address", address]);
    }
    if let Some(jobs) = arguments.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    if arguments.again {
        command.arg("--again");
    }
    // In a process group of its own it gets Ctrl-C from here alone, and once.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().map_err(|error| failed(&python, error))?;
    let seen = follow(&mut process, watch).map_err(|error| failed(&python, error));
    let status = process.wait().map_err(|error| failed(&python, error))?;
    let progress = seen??;
    match progress.filter(|_| status.success()) {
        Some(progress) if progress.left() == 0 => Ok(progress),
        Some(progress) => Err(Failure::input(SweepError::Stopped(progress))),
        None => Err(failed(&python, format!("ended early, {status}"))),
    }
}

/// Checks that the interpreter has the package of this version.
fn check_package(python: &OsString) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let tried = Command::new(python)
        .args(["-c", "import ceasefire; print(ceasefire.__version__)"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            failed(python, format!("{error}: install Python, or name an interpreter in ${INTERPRETER}"))
        })?;
    if !tried.status.success() {
        return Err(failed(python, "the Python package ceasefire is not installed: pip install ./python"));
    }
    let found = String::from_utf8_lossy(&tried.stdout);
    if found.trim() == version {
        Ok(())
    } else {
        let found = format!("version {} of the Python package ceasefire: must be {version}", found.trim());
        Err(failed(python, found))
    }
}

/// Follows the events until the process closes its output. The last progress, if there is any; or its error.
fn follow(process: &mut Child, watch: &dyn Watch) -> io::Result<Result<Option<Progress>, Failure>> {
    let output = process.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
    let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    let (sender, lines) = channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            // A receiver that has gone needs no lines.
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let (mut last, mut error, mut is_stopped) = (None, None, false);
    loop {
        if !is_stopped && !watch.goes_on() {
            is_stopped = true;
            if let Some(id) = id {
                kill_process(id, Signal::INT)?;
            }
        }
        match lines.recv_timeout(STOPS) {
            Ok(line) => match serde_json::from_str(&line?)? {
                Event::Progress(progress) => {
                    watch.progress(&progress);
                    last = Some(progress);
                }
                Event::Failed(row) => watch.failed(&row),
                Event::Error(line) => error = Some(line),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Its panic has been reported by the hook.
    let _ = reader.join();
    Ok(error.map_or(Ok(last), |line| Err(Failure::Input(line))))
}

fn failed(python: &OsString, error: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("engine ray: {}: {error}", python.to_string_lossy()))
}
