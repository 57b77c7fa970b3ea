//! The command line.
//!
//! The commands are in `groups`, as the help, the manual page and the answer to a mistyped command show them. `linux`,
//! `simulator`, `engine` and `sanitize` have their arguments, `set` the keys of `--set`, and `value` the parsers of values.

mod engine;
mod groups;
mod linux;
mod sanitize;
mod set;
mod simulator;
mod value;

use clap::{ArgMatches, Command as Clap, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use engine::CheckArguments;
pub(crate) use groups::{commands, groups};
pub(crate) use linux::{
    AnonymizeArguments, By, CalibrateArguments, Decay, DiffArguments, ImportArguments, RecordArguments,
    ReplayArguments, TopArguments,
};
pub(crate) use sanitize::{Preset, SanitizeArguments};
pub(crate) use set::Settings;
pub(crate) use simulator::{
    Check, Choice, CompareArguments, Engine, FitArguments, ListArguments, Listed, Outputs, SweepArguments,
};

/// Interrupts that flush TLBs: seen on Linux, and saved on simulated machines
///
/// On a Linux server, `top` and `record` show which programs interrupt which CPUs, and why, and `replay` says how many
/// interrupts other mechanisms would have sent. For a paper or a course, `compare` runs workloads on simulated machines
/// and prints our figures beside the published ones. For a kernel, `check` tries the known TLB bugs against the engine
/// that the kernel would use.
#[derive(Debug, Parser)]
#[command(name = "ceasefire", version, args_conflicts_with_subcommands = true, max_term_width = 80)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compare: CompareArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run experiments or workload files, beside the papers' figures
    ///
    /// An argument is an experiment's name or the path of a workload file. Without one, those run that `list experiments`
    /// marks as run by default. The word `compare` may be left out. docs/src/simulator/running.md explains the tables,
    /// docs/src/simulator/workloads.md has the language of workload files.
    // `run` is the name of earlier descriptions.
    #[command(alias = "run")]
    Compare(Box<CompareArguments>),
    /// Run a study: a grid of values or draws, described in a file
    ///
    /// The results are a folder of Parquet files with a row for each run. The same command goes on after an
    /// interruption, and runs nothing twice. docs/src/simulator/studies.md has the language of study files.
    Sweep(SweepArguments),
    /// Fit numbers of a machine to published figures
    ///
    /// It also says how well the figures determine the numbers. These are the ones that the machine file marks as
    /// fitted. docs/src/simulator/fit.md says how they are found.
    Fit(FitArguments),
    /// Record the TLB shootdowns of this machine (as root)
    ///
    /// Records until Ctrl-C, for --duration, or until CMD has ended. The file is in Parquet's format, one row an event.
    Record(RecordArguments),
    /// Make a recording of a file of perf record or trace-cmd
    ///
    /// The file is a perf.data or a trace.dat. It needs no privileges. `replay` and `diff` read the recording as any
    /// other. docs/src/linux/record.md says which events to record.
    Import(ImportArguments),
    /// Make a recording that strangers may have: no names of programs
    ///
    /// Names of programs, the command, addresses and the kernel's build are replaced. Replays give the same figures.
    Anonymize(AnonymizeArguments),
    /// Replay a recording under other mechanisms: what would they send?
    Replay(ReplayArguments),
    /// Watch which processes interrupt which CPUs, and why (as root)
    ///
    /// It shows the TLB shootdowns of this Linux machine. F1 lists the keys.
    Top(TopArguments),
    /// Compare two recordings: do they differ, and in what?
    Diff(DiffArguments),
    /// Try the known TLB bugs on a machine that does the worst it may
    ///
    /// Each scenario runs on many schedules with its guards, and must hold. Then it runs without a guard, and must
    /// break. A schedule that breaks a rule is printed as a timeline, with the command that repeats it.
    Check(CheckArguments),
    /// Find missing TLB flushes of any kernel that runs in QEMU
    ///
    /// It runs QEMU with a plugin that knows which translations each CPU may have cached, and compares each access with
    /// them. The kernel needs no change. The status is 1 if a flush was missing. docs/src/adopt/sanitizer.md explains
    /// the finds: ceasefire sanitize -- qemu-system-x86_64 -smp 4 -kernel vmlinuz ...
    Sanitize(SanitizeArguments),
    /// List experiments, machines or mechanisms
    List(ListArguments),
    /// Measure what this computer's operations cost, for --machine host
    ///
    /// It needs no privileges and takes about ten seconds on two CPUs. An idle computer gives the best figures.
    Calibrate(CalibrateArguments),
    /// Print the completions of a shell
    ///
    /// For bash: `ceasefire completions bash > ~/.local/share/bash-completion/completions/ceasefire`. For zsh: write
    /// them to a file `_ceasefire` in a folder of `$fpath`. For fish: to
    /// `~/.config/fish/completions/ceasefire.fish`.
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page: ceasefire man | man -l -
    Man,
}

impl Arguments {
    /// The definition of the command line, with the help by groups.
    pub(crate) fn definition() -> Clap {
        // A negative number is a wrong value, not an unknown option.
        let negative = |command: Clap| {
            command.mut_args(|arg| {
                let takes_values = arg.get_action().takes_values();
                arg.allow_negative_numbers(takes_values)
            })
        };
        let whole = negative(Self::command()).mut_subcommands(negative);
        let template = groups::help(&whole);
        whole.help_template(template)
    }

    /// Parses the command line of this process.
    ///
    /// # Errors
    /// Clap's, help and version among them.
    pub(crate) fn parse_all() -> Result<Self, clap::Error> {
        let matches: ArgMatches = Self::definition().try_get_matches()?;
        Self::from_arg_matches(&matches)
    }
}
