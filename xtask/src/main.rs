//! Build, test and bench tasks that cargo has no word for: `cargo xtask test`, `cargo xtask bench` and others.
//!
//! Each task is one module and a plain function; `failure` says how a task stops, `workspace` what cargo knows of this
//! repository.

mod bench;
mod costs;
mod failure;
mod hosts;
mod json_file;
mod kernel;
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
  kernel [OPTION...]              builds the kernel and boots it on QEMU; what it reports, or where it failed
                                    --program LIST    mmap-read, migrate, stale (the default), hello, panic, fault, hang
                                    --mechanism LIST  per-page, batched (the default); none flushes nothing, to be caught
                                    --compare         mmap-read and migrate, per-page and batched, beside the simulator
                                    --cpus N          1 to 64 (8)
                                    --nodes N         1 to 8, at most one for each CPU (2)
                                    --memory SIZE     such as 512M (the default) or 1G
                                    --seconds S       how long stale and migrate measure (10)
                                    --seed N          varies what is left to chance (1)
                                    --threads N       that use memory; --pages N that they use; --swap N pages of swap:
                                                      the program's own choice, and no swap, unless told otherwise
                                    --pinned          threads that may stay on one CPU do
                                    --timeout S       when a run is given up: long after it should have ended
                                    --qemu PATH       another QEMU than that of the search path
                                    --json FILE       the results as JSON; - for standard output, which is then nothing else
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
        ["kernel", options @ ..] => kernel::run(&kernel::Options::parse(options)?),
        ["programs", options @ ..] => programs::run(&programs::Options::parse(options)?),
        [unknown, ..] => Err(Failure::usage(format!(
            "no task `{unknown}`: there are test, bench, kernel, programs and help"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tasks_and_surplus_arguments_are_usage_errors() {
        for arguments in [
            &["tset"][..],
            &["test", "--fast"],
            &["bench", "--json"],
            &["bench", "--slow"],
            &["kernel", "--cpus"],
            &["kernel", "--program", "no-such-program"],
        ] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(task(&arguments).unwrap_err().code(), 2, "{arguments:?}");
        }
    }

    #[test]
    fn the_help_names_every_program_of_the_kernel() {
        for program in ceasefire_kernel_abi::PROGRAMS {
            assert!(HELP.contains(program), "{program}");
        }
    }
}
