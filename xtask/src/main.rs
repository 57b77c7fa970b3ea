//! Build, test and bench tasks that cargo does not have: `cargo xtask test`, `cargo xtask bench` and others.
//!
//! Each task is one module with a plain function and its options. `failure` is how a task fails, `workspace` the
//! information of cargo and git about this repository.

mod adopt;
mod bench;
mod debian;
mod failure;
mod guests;
mod kernel;
mod linux;
mod litmus;
mod mutants;
mod nightly;
mod page;
mod picture;
mod programs;
mod python;
mod sanitize;
mod steps;
mod table;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Parser;

use failure::Failure;
use workspace::Workspace;

/// Build, test and bench tasks that cargo does not have.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// The checks of a change, those that tell most first; `--all` makes every check.
    Test(test::Options),
    /// A kernel of others on the engine.
    #[command(subcommand)]
    Adopt(adopt::Options),
    /// The engine's costs in instructions, and the simulator's speed.
    Bench(bench::Options),
    /// Records loads on Linux guests of several kernels; needs Debian's `qemu-system-x86`.
    Guests(guests::Options),
    /// Builds the kernel, boots it on QEMU, and shows its results or its failure.
    Kernel(Box<kernel::Options>),
    /// Linux with the series of ports/linux/ and without it, in QEMU.
    #[command(subcommand)]
    Linux(linux::Options),
    /// The flush paths judged by Arm's own model of virtual memory; fetches Debian's `herdtools7`.
    Litmus(litmus::Options),
    /// Changes a crate in one place at a time; a change that no test notices must be explained.
    Mutants(mutants::Options),
    /// The searches that take long, or some of them; their results are written to the book.
    Nightly(nightly::Options),
    /// Checks a page of `ceasefire compare --html` in a browser; needs Debian's `chromium`.
    Page,
    /// Draws the picture of the README.
    Picture,
    /// Random programs against a plain model of memory; shrinks one that fails.
    Programs(programs::Options),
    /// What `ceasefire sanitize` finds in kernels with and without their flushes; fetches Debian's newer QEMU if need be.
    Sanitize(sanitize::Options),
    /// The Python package and its tests in a fresh environment; needs `python3-venv`.
    Python,
}

fn main() -> ExitCode {
    match run(&Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn run(task: &Task) -> Result<(), Failure> {
    match task {
        Task::Test(options) => test::run(options),
        Task::Adopt(options) => adopt::run(options),
        Task::Bench(options) => bench::run(options),
        Task::Guests(options) => guests::run(options),
        Task::Kernel(options) => kernel::run(options),
        Task::Linux(options) => linux::run(options),
        Task::Litmus(options) => litmus::run(options),
        Task::Mutants(options) => mutants::run(options),
        Task::Nightly(options) => nightly::run(options),
        Task::Page => page::run(),
        Task::Picture => picture::run(),
        Task::Programs(options) => programs::run(&Workspace::load()?, options, programs::Build::Checked),
        Task::Python => python::run(),
        Task::Sanitize(options) => sanitize::run(options),
    }
}

/// An option's value that is one of `all`, by its name. The help lists the names.
fn one_of<T>(all: &'static [T], name: fn(&T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let find = move |given: String| all.iter().copied().find(|one| name(one) == given);
    PossibleValuesParser::new(all.iter().map(name))
        .map(move |given| find(given).expect("clap has checked it"))
}

/// The options in a line of words.
fn parse<T: Parser>(line: &str) -> Result<T, Failure> {
    let words = std::iter::once("cargo xtask").chain(line.split_whitespace());
    T::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_option_is_well_defined() {
        Task::command().debug_assert();
    }

    #[test]
    fn unknown_tasks_and_surplus_arguments_are_usage_errors() {
        #[rustfmt::skip]
        let wrong = [
            "", "tset", "adopt", "adopt linux", "adopt ostd --cpus 0", "adopt ostd --fast", "adopt ostd --arch mips",
            "bench --slow", "guests 5.10", "kernel --cpus", "kernel --program no-such-program", "linux",
            "linux mend", "linux boot new", "linux boot --tier lazy", "linux matrix --load all", "linux matrix old",
            "linux matrix --cpus 1",
            "linux test 0", "linux fetch all", "litmus --whole", "mutants", "mutants machine", "mutants engine --shard 4/4",
            "mutants engine --shard 1", "nightly daily", "page --wide", "picture --dark", "programs many",
            "programs --from -1", "python --fast", "sanitize none",
        ];
        for line in wrong {
            assert_eq!(parse::<Task>(line).unwrap_err().code(), 2, "{line}");
        }
    }
}
