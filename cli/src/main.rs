//! The command `ceasefire`: what TLB-flush mechanisms save, on simulated machines.

mod args;
mod compare;
mod failure;
mod html;
mod list;
mod number;
mod results;
mod tables;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command, CompareArguments};
use crate::failure::Failure;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::of_clap(&error),
    };
    let done = match arguments.command {
        None => compare::run(&CompareArguments::default()),
        Some(Command::Compare(arguments)) => compare::run(&arguments),
        Some(Command::List(arguments)) => list::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The result of a command.
type Done = Result<(), Failure>;

/// Writes to standard output.
fn print(text: &str) -> Done {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::writing("standard output", &error))
}
