//! Build, test and bench tasks that cargo has no word for: `cargo xtask test`, `cargo xtask bench` and others.
//!
//! Each task is one module and a plain function; `failure` says how a task stops, `workspace` what cargo knows of this
//! repository.

mod bench;
mod costs;
mod failure;
mod hosts;
mod licences;
mod links;
mod msrv;
mod programs;
mod speed;
mod table;
mod test;
mod workspace;

use std::process::ExitCode;

use failure::Failure;

const HELP: &str = "\
usage: cargo xtask <task>

tasks:
  test                            everything a change has to pass, in order; stops at the first failure
  bench [--quick] [--json FILE|-] what the engine costs in instructions, how fast the simulator runs
                                    --quick      the instruction counts alone: exact, and done within a minute
                                    --json FILE  the same as JSON; - for standard output, without the tables
  programs [N] [--from NUMBER]    N random programs (100000) against a plain model of memory; what fails is made small
  help                            this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match task(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn task(arguments: &[String]) -> Result<(), Failure> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] | ["help" | "--help" | "-h", ..] => {
            print!("{HELP}");
            Ok(())
        }
        ["test"] => test::run(),
        ["test", surplus, ..] => Err(Failure::usage(format!("`test` takes no arguments, got `{surplus}`"))),
        ["bench", options @ ..] => bench::run(&bench::Options::parse(options)?),
        ["programs", options @ ..] => programs::run(&programs::Options::parse(options)?),
        [unknown, ..] => {
            Err(Failure::usage(format!("no task `{unknown}`: there are test, bench, programs and help")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tasks_and_surplus_arguments_are_usage_errors() {
        for arguments in [&["tset"][..], &["test", "--fast"], &["bench", "--json"], &["bench", "--slow"]] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(task(&arguments).unwrap_err().code(), 2, "{arguments:?}");
        }
    }
}
