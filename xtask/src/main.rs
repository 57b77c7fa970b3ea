//! Build, test and bench tasks that cargo does not have: `cargo xtask test`, `cargo xtask bench` and others.
//!
//! Each task is one module with a plain function. `failure` is how a task fails, `workspace` the information of cargo
//! and git about this repository.

mod adopt;
mod bench;
mod failure;
mod guests;
mod json_file;
mod kernel;
mod linux;
mod mutants;
mod nightly;
mod page;
mod picture;
mod programs;
mod python;
mod steps;
mod table;
mod test;
mod workspace;

use std::process::ExitCode;

use failure::Failure;
use workspace::Workspace;

/// The list of tasks, in two parts around the kernel's own help.
const HELP: [&str; 2] = [
    "\
usage: cargo xtask <task>

tasks:
  test                            all checks of a change, in order; stops at the first failure
  adopt ostd [--stock] [--cpus N] ostd's own tests in QEMU on the engine, for machines of N CPUs (4); --stock: without it
                                    --arch ARCH  x86_64 (default) or riscv64; needs Debian's `qemu-system-misc`
                                    --bochs      on processors with PCIDs; needs Debian's `bochs` and more, which it names
                                    --rounds     counts interrupts of unmaps instead, without and with the engine
  bench [--quick] [--json FILE|-] the engine's costs in instructions, and the simulator's speed
                                    --quick      only the instruction counts: exact, within a minute
                                    --json FILE  the results as JSON; - for standard output, without tables
  guests [6.1|6.12|7.2]...        records loads on Linux guests of these kernels; needs Debian's `qemu-system-x86`
  linux fetch|build               the sources of Linux 7.2 with the series of ports/linux/, and a kernel with and without it
  linux boot [--tiers] [--append PARAMETERS] stock|lazy|debug [COMMAND]
                                  one of them in QEMU; needs Debian's `qemu-system-x86`, `busybox-static`, `e2fsprogs`
  linux test [SECONDS]            the series' own test on it (60)
  linux compare [BOOTS [LOAD...]] TLB interrupts per page on both, boot by boot in turn (5)
  mutants engine|memory           changes the crate in one place at a time; a change that no test notices must be explained
                                    --shard K/N  only every N-th change, from the K-th on
                                    --check      only checks that each explanation is of a change; runs no tests
  nightly [--part] [STEP...]      the searches that take long, or some of them; their results are written to the book:
                                    scenarios, random, programs, kernel, orderings, swaps, unchecked, miri, thread,
                                    address, fuzz
                                    --part       as much as every change can wait for; nothing is written
  page                            checks a page of `ceasefire compare --html` in a browser; needs Debian's `chromium`
  picture                         draws the picture of the README from the default experiments
  programs [N] [--from NUMBER]    N random programs (100000) against a plain model of memory; shrinks one that fails
  python                          the Python package and its tests in a fresh environment; needs `python3-venv`
",
    "  help                            this text\n",
];

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
            print!("{}{}{}", HELP[0], kernel::HELP, HELP[1]);
            Ok(())
        }
        ["test"] => test::run(),
        ["test", surplus, ..] => Err(Failure::usage(format!("`test` takes no arguments, got `{surplus}`"))),
        ["adopt", options @ ..] => adopt::run(&adopt::Options::parse(options)?),
        ["bench", options @ ..] => bench::run(&bench::Options::parse(options)?),
        ["guests", versions @ ..] => guests::run(versions),
        ["kernel", options @ ..] if options.iter().any(|option| ["--help", "-h"].contains(option)) => {
            print!("usage: cargo xtask kernel [OPTION...]\n\n{}", kernel::HELP);
            Ok(())
        }
        ["kernel", options @ ..] => kernel::run(&kernel::Options::parse(options)?),
        ["linux", options @ ..] => linux::run(&linux::Options::parse(options)?),
        ["mutants", options @ ..] => mutants::run(&mutants::Options::parse(options)?),
        ["nightly", options @ ..] => nightly::run(&nightly::Options::parse(options)?),
        ["page"] => page::run(),
        ["page", surplus, ..] => Err(Failure::usage(format!("`page` takes no arguments, got `{surplus}`"))),
        ["picture"] => picture::run(),
        ["picture", surplus, ..] => {
            Err(Failure::usage(format!("`picture` takes no arguments, got `{surplus}`")))
        }
        ["python"] => python::run(),
        ["python", surplus, ..] => Err(Failure::usage(format!("`python` takes no arguments, got `{surplus}`"))),
        ["programs", options @ ..] => {
            programs::run(&Workspace::load()?, &programs::Options::parse(options)?, programs::Build::Checked)
        }
        [unknown, ..] => Err(Failure::usage(format!(
            "unknown task `{unknown}`; known: test, adopt, bench, guests, kernel, linux, mutants, nightly, page, picture, programs, python and help"
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
            &["mutants"],
            &["page", "--wide"],
            &["picture", "--dark"],
            &["python", "--fast"],
            &["guests", "5.10"],
            &["nightly", "daily"],
            &["kernel", "--cpus"],
            &["kernel", "--program", "no-such-program"],
        ] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(task(&arguments).unwrap_err().code(), 2, "{arguments:?}");
        }
    }

    #[test]
    fn help_is_no_failure_and_nothing_is_run() {
        for arguments in [&["help"][..], &["-h"], &["kernel", "--help"], &["kernel", "--cpus", "4", "-h"]] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert!(task(&arguments).is_ok(), "{arguments:?}");
        }
    }

    #[test]
    fn the_help_names_every_program_of_the_kernel() {
        for program in ceasefire_kernel_abi::PROGRAMS {
            assert!(kernel::HELP.contains(program), "{program}");
        }
    }
}
