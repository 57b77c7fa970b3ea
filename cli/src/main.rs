//! The command `ceasefire`: the interrupts that flush TLBs, on Linux machines and on simulated ones, and the tests of
//! the engine that saves them.

mod anonymize;
mod args;
mod calibrate;
mod check;
mod compare;
mod diff;
mod failure;
mod fit;
mod host;
mod html;
mod import;
mod list;
mod locks;
mod manual;
mod names;
mod number;
mod output;
mod record;
mod replay;
mod results;
mod sanitize;
mod stdout;
mod summary;
mod sweep;
mod tables;
mod terminal;
mod top;
mod trace;

use std::process::ExitCode;

use crate::args::{Arguments, Command};
use crate::compare::Word;

fn main() -> ExitCode {
    let arguments = match Arguments::parse_all() {
        Ok(arguments) => arguments,
        Err(error) => return failure::of_clap(&error),
    };
    let done = match arguments.command {
        None => compare::run(&arguments.compare, Word::CommandOrExperiment),
        Some(Command::Compare(arguments)) => compare::run(&arguments, Word::Experiment),
        Some(Command::Sweep(arguments)) => sweep::run(&arguments),
        Some(Command::Fit(arguments)) => fit::run(&arguments),
        Some(Command::Record(arguments)) => record::run(&arguments),
        Some(Command::Import(arguments)) => import::run(&arguments),
        Some(Command::Anonymize(arguments)) => anonymize::run(&arguments),
        Some(Command::Diff(arguments)) => diff::run(&arguments),
        Some(Command::Replay(arguments)) => replay::run(&arguments),
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Check(arguments)) => check::run(&arguments),
        Some(Command::Sanitize(arguments)) => sanitize::run(&arguments),
        Some(Command::List(arguments)) => list::run(&arguments),
        Some(Command::Calibrate(arguments)) => calibrate::run(&arguments),
        Some(Command::Completions { shell }) => manual::completions(shell),
        Some(Command::Man) => manual::page(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
