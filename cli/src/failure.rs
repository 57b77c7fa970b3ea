//! Failures, each reported in one line, and their exit codes: 1 for a broken rule or a wrong load, 2 for usage or
//! input. `record` ends as the recorded program did.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::{ExitCode, ExitStatus};

use ceasefire_experiments::UnknownName;

/// The result of a command.
pub(crate) type Done = Result<(), Failure>;

/// The reason for which a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Usage or input: one line that the user can act on.
    Input(String),
    /// Coherence rules were broken, or loads returned wrong values: the numbers of both, and a line for each known
    /// case.
    Broken { rules: u64, loads: u64, lines: Vec<String> },
    /// A scenario did not end as it must: a line for each.
    Checked(Vec<String>),
    /// The program that was recorded failed, though the command did not.
    Program(ExitStatus),
    /// The reader of the output has closed it. This is not an error.
    NoReader,
}

/// The failure for a `name` that is not of a known `what`.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str], others: &[&str]) -> Failure {
    Failure::input(UnknownName::new(what, name, known, others))
}

impl Failure {
    pub(crate) fn input(message: impl Display) -> Self {
        Self::Input(message.to_string())
    }

    /// The failure for an error of writing to `what`.
    pub(crate) fn writing(what: impl Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::NoReader
        } else {
            Self::Input(format!("cannot write {what}: {error}"))
        }
    }

    /// Combines two results and reports every failure. The first one decides the exit code.
    pub(crate) fn both(one: Done, other: Done) -> Done {
        match (one, other) {
            (Ok(()) | Err(Self::NoReader), other @ Err(_)) => other,
            (one @ Err(_), Err(Self::Input(line))) => {
                complain(&line);
                one
            }
            (one, _) => one,
        }
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::NoReader => ExitCode::SUCCESS,
            Self::Input(message) => {
                complain(&message);
                ExitCode::from(2)
            }
            Self::Program(ended) => {
                complain(&format!("the program ended with {ended}; its recording is whole"));
                ExitCode::from(status(ended))
            }
            Self::Checked(lines) => {
                for line in lines {
                    complain(&line);
                }
                ExitCode::from(1)
            }
            Self::Broken { rules, loads, lines } => {
                for line in lines {
                    complain(&line);
                }
                if rules > 0 {
                    complain(&format!("coherence rules were broken {rules} times"));
                }
                if loads > 0 {
                    complain(&format!("loads returned wrong values {loads} times"));
                }
                ExitCode::from(1)
            }
        }
    }
}

/// The status with which a shell reports a program's end: 128 and the number of a signal.
fn status(ended: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended).map(|signal| 128 + signal);
    #[cfg(not(unix))]
    let signal = None;
    ended.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Writes one line to standard error, with control characters escaped. An error of writing is ignored, since there is
/// no other place to report it.
pub(crate) fn complain(message: &str) {
    let mut line = String::from("ceasefire: ");
    for c in message.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints the argument parser's output: help as it is, an error as one line.
pub(crate) fn of_clap(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help or version. A closed output is not an error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    // clap's further lines except its usage: the possible values, a tip.
    let rest: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    let message = if rest.is_empty() { first } else { format!("{first} {}", rest.join(" ")) };
    Failure::Input(format!("{message} (see --help)")).report()
}
