//! What goes wrong, in one line, and the exit code for it: 1 a rule was broken or a load was wrong, 2 usage or input.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// The result of a command.
pub(crate) type Done = Result<(), Failure>;

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Usage or input: one line that a person can act on.
    Input(String),
    /// Rules of coherence were broken, or loads returned what they must not: how often in all, and in words what is known
    /// of them.
    Broken { rules: u64, loads: u64, lines: Vec<String> },
    /// Whoever reads our output has gone; nothing is wrong.
    NoReader,
}

impl Failure {
    pub(crate) fn input(message: impl Display) -> Self {
        Self::Input(message.to_string())
    }

    /// An error of writing to `what`.
    pub(crate) fn writing(what: impl Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::NoReader
        } else {
            Self::Input(format!("{what}: {error}"))
        }
    }

    /// What came of two things of which neither is to go unsaid; the first decides what to exit with.
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

    /// Prints it, and says with what to exit.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::NoReader => ExitCode::SUCCESS,
            Self::Input(message) => {
                complain(&message);
                ExitCode::from(2)
            }
            Self::Broken { rules, loads, lines } => {
                for line in lines {
                    complain(&line);
                }
                if rules > 0 {
                    complain(&format!("rules were broken {rules} times"));
                }
                if loads > 0 {
                    complain(&format!("loads returned something else than was stored {loads} times"));
                }
                ExitCode::from(1)
            }
        }
    }
}

/// Writes one line to standard error, whatever names and values it repeats. If nobody reads that, there is nobody to tell.
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

/// Prints what the argument parser has to say: help as it is, an error as one line.
pub(crate) fn of_clap(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Help or version; whether anybody reads it is not our business.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    // What clap says in further lines, but its usage: the possible values, a tip.
    let rest: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    let message = if rest.is_empty() { first } else { format!("{first} {}", rest.join(" ")) };
    Failure::Input(format!("{message} (see --help)")).report()
}
