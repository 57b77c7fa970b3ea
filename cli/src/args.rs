//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ceasefire_experiments::Figure;
use ceasefire_machine::config::{Change, MAX_CPUS};
use clap::{value_parser, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// The most schedules of a scenario in one search.
const MOST_SCHEDULES: u64 = 1_000_000_000;

/// Measure on simulated machines how much TLB-flush mechanisms save, and compare with the papers' figures
///
/// Without a command, runs the experiments (all that run by default, or those that are named) with each mechanism and
/// prints the results beside the published figures.
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
    /// Run experiments and compare them with the published figures (the default)
    Compare(Box<CompareArguments>),
    /// Run workload files, or experiments by name, as compare does
    #[command(mut_arg("experiments", |experiments| experiments
        .required(true)
        .value_name("FILE|EXPERIMENT")
        .help("The workload files, or names of experiments")))]
    Run(Box<CompareArguments>),
    /// Run a study: a grid of values or draws from ranges, described in a file
    ///
    /// The results are a folder of Parquet files with a row for each run. The same command goes on after an
    /// interruption, and runs nothing twice. The book has the language of study files.
    Sweep(SweepArguments),
    /// Fit numbers of a machine to published figures, and say how well these determine them
    ///
    /// The numbers are those that the machine file marks as fitted. The book says how they are found.
    Fit(FitArguments),
    /// Record the TLB shootdowns of this Linux machine (as root)
    ///
    /// Records until Ctrl-C, for --duration, or until CMD has ended. The file is in Parquet's format, one row an event.
    Record(RecordArguments),
    /// Make a recording of a file of perf record (perf.data) or trace-cmd (trace.dat)
    ///
    /// It needs no privileges. `replay` and `diff` read the recording as any other. The book says which events to
    /// record.
    Import(ImportArguments),
    /// Replay a recording under other mechanisms: which interrupts would they have sent?
    Replay(ReplayArguments),
    /// Watch the TLB shootdowns of this Linux machine (as root)
    ///
    /// Shows on the terminal which processes interrupt which CPUs, and why. F1 lists the keys.
    Top(TopArguments),
    /// Compare two recordings: do they differ, and in what?
    Diff(DiffArguments),
    /// Try the known TLB bugs on a machine that does the worst it may
    ///
    /// Each scenario runs on many schedules with its guards, and must hold. Then it runs without a guard, and must
    /// break. A schedule that breaks a rule is printed as a timeline, with the command that repeats it.
    Check(CheckArguments),
    /// List experiments, machines or mechanisms
    List(ListArguments),
    /// Measure what the operations of this computer cost, for `--machine host`
    ///
    /// It needs no privileges and takes about ten seconds on two CPUs. An idle computer gives the best figures.
    Calibrate(CalibrateArguments),
    /// Print the completions of a shell: see `ceasefire completions --help`
    ///
    /// For bash: `ceasefire completions bash > ~/.local/share/bash-completion/completions/ceasefire`. For zsh: write
    /// them to a file `_ceasefire` in a folder of `$fpath`. For fish: to
    /// `~/.config/fish/completions/ceasefire.fish`.
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page: `ceasefire man | man -l -`
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// The study file
    #[arg(value_name = "STUDY")]
    pub(crate) study: PathBuf,
    /// The folder of the results [default: the study file's name without its ending]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// The engine that runs the points
    #[arg(long, value_name = "ENGINE", default_value = "threads")]
    pub(crate) engine: Engine,
    /// The address of a Ray cluster, such as HOST:6379 [default: a cluster on this computer]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
    /// The number of runs at a time [default: the number of processors of this computer or the cluster]
    #[arg(long, value_name = "N", value_parser = some, allow_negative_numbers = true)]
    pub(crate) jobs: Option<u16>,
    /// Run those points again that failed
    #[arg(long)]
    pub(crate) again: bool,
    /// Print how many points the study has and how many are left, and end
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// An engine of studies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Threads of this computer
    Threads,
    /// A Ray cluster: needs the Python packages ceasefire and ray
    Ray,
}

#[derive(Debug, Args)]
pub(crate) struct FitArguments {
    /// The machine: a name or a machine file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) machine: String,
    /// A published figure, such as "mmap-read 1-socket user before"; may be given several times [default: all that the
    /// machine's numbers are fitted to]
    #[arg(long, value_name = "ROW")]
    pub(crate) to: Vec<Figure>,
    /// A number to fit to a figure that none is fitted to, by its key, such as costs.fault; may be given several times
    #[arg(long, value_name = "KEY", requires = "to")]
    pub(crate) vary: Vec<String>,
    /// The size relative to the paper's, as a number or as a fraction such as 1/16 [default: the experiment's own]
    #[arg(long, value_name = "F", value_parser = scale, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// The seed of the runs
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// With more than one, also measure the figures with so many seeds, and print the spread of the fitted numbers
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) repeats: u16,
    /// The number of runs at a time [default: the number of processors of this computer]
    #[arg(long, value_name = "N", value_parser = some, allow_negative_numbers = true)]
    pub(crate) jobs: Option<u16>,
    /// Write the machine file with the fitted numbers
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "recording.parquet")]
    pub(crate) output: PathBuf,
    /// Record interrupts alone, not what led to them: next to no overhead
    #[arg(long)]
    pub(crate) light: bool,
    /// Keep the kernel functions that led to each interrupt
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Write a summary as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE", conflicts_with = "light")]
    pub(crate) html: Option<PathBuf>,
    /// Write the recording for ui.perfetto.dev; FILE ends in .pftrace or .perfetto-trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Record so long, such as 10s, 500ms or 2min
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "program")]
    pub(crate) duration: Option<Duration>,
    /// Record until this program has ended
    #[arg(value_name = "CMD", last = true)]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The file of perf record or trace-cmd
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "recording.parquet")]
    pub(crate) output: PathBuf,
    /// A copy of /proc/kallsyms of the recorded machine, made as root since its last start [default: what the file has,
    /// or this machine's own if it is the same]
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,
    /// Write a summary as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the recording for ui.perfetto.dev; FILE ends in .pftrace or .perfetto-trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
    /// The mechanisms, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<String>,
    /// Flush so many calls of munmap or madvise of a process together
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) batch: Option<u64>,
    /// Make one call of the calls of madvise that a thread makes back to back, as `process_madvise` does since Linux
    /// 6.16
    #[arg(long)]
    pub(crate) process_madvise: bool,
    /// Give pages back so much later, such as 500ms or 10s, and keep those that are used again before
    #[arg(long, value_name = "TIME", value_parser = decay)]
    pub(crate) decay: Option<Decay>,
    /// The parts of the interrupts to print
    #[arg(long, value_enum, default_value_t = By::Cause)]
    pub(crate) by: By,
    /// Write everything as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the recording for ui.perfetto.dev; FILE ends in .pftrace or .perfetto-trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// The time between two screens, such as 500ms, 2s or 1min
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub(crate) interval: Duration,
    /// End after so many intervals
    #[arg(long, value_name = "N", value_parser = some, allow_negative_numbers = true)]
    pub(crate) count: Option<u16>,
    /// Print the processes and the causes of one interval as text, and end
    #[arg(long, conflicts_with = "count")]
    pub(crate) once: bool,
    /// Instead of a screen, write one JSON object an interval, each in a line; with `-`, to standard output
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The first recording
    #[arg(value_name = "FILE")]
    pub(crate) one: PathBuf,
    /// The second recording
    #[arg(value_name = "FILE")]
    pub(crate) other: PathBuf,
    /// Write everything as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HTML page with a plot
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// The values of `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// By the process that sends them
    Process,
    /// By the cause of the flush
    Cause,
    /// By the CPU that sends them
    Sender,
    /// By the CPU that receives them
    Victim,
}

/// A time, and its text on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Decay {
    pub(crate) text: String,
    pub(crate) time: Duration,
}

fn decay(text: &str) -> Result<Decay, String> {
    Ok(Decay { text: text.to_owned(), time: duration(text)? })
}

/// A time such as `10s`.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is no unit of time: use ms, s, min or h")),
    };
    let number: f64 = number.trim().parse().map_err(|_| "it is no time: an example is 10s".to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| "it is out of range".to_owned())?;
    if time.is_zero() {
        return Err("it must be longer than 0".to_owned());
    }
    Ok(time)
}

// Each flag is an option of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The experiments, or workload files [default: those that `list experiments` marks as run by default]
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// The mechanisms, separated by commas [default: the paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "What to run")]
    pub(crate) mechanism: Vec<String>,
    /// How the debts of lazy and all are settled: by switches and ticks that happen anyway (free), or only by
    /// interrupts, when frames run out (demand) [default: free]
    #[arg(long, value_enum, help_heading = "What to run")]
    pub(crate) settle: Option<Payment>,
    /// The machine: a name, `host`, or a machine file [default: the paper's machines]
    #[arg(long, value_name = "NAME|FILE", help_heading = "What to run")]
    pub(crate) machine: Option<String>,
    /// A number of the machine, by its key in the machine file: `--set "costs.fault=900 ns"`; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = change, help_heading = "What to run")]
    pub(crate) set: Vec<Change>,
    /// The number of CPUs [default: the machine's own]
    #[arg(long, value_name = "N", value_parser = cpus, allow_negative_numbers = true, help_heading = "What to run")]
    pub(crate) cpus: Option<u32>,
    /// The numbers of threads, separated by commas, where the paper varies them [default: the paper's]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = some,
        allow_negative_numbers = true,
        help_heading = "What to run"
    )]
    pub(crate) threads: Vec<u16>,
    /// When a CPU puts its new pages on the LRU list, where the number of threads can be chosen, separated by commas:
    /// before each unmap (eager, Linux before 6.14), or when it has a batch of them (batched) [default: the paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, help_heading = "What to run")]
    pub(crate) lru_drain: Vec<LruDrain>,
    /// The size relative to the paper's, as a number or as a fraction such as 1/16 [default: a size that ends within a
    /// minute on two cores, or the smallest that holds the working set]
    #[arg(
        long,
        value_name = "F",
        value_parser = scale,
        allow_negative_numbers = true,
        help_heading = "What to run"
    )]
    pub(crate) scale: Option<f64>,
    /// The effects to leave out of the model of the machine, separated by commas, to see what each adds: contention,
    /// smt, idle, far-walks, bandwidth, ticks
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "What to run")]
    pub(crate) without: Vec<String>,
    /// Let walkers fill translations that no access asked for, at RATE of the moments at which CPUs can notice each other:
    /// 0 to 1 [default without a number: 0.1]
    #[arg(
        long,
        value_name = "RATE",
        value_parser = rate,
        num_args = 0..=1,
        default_missing_value = "0.1",
        allow_negative_numbers = true,
        help_heading = "What to run"
    )]
    pub(crate) speculate: Option<f64>,
    /// The seed of all random choices of the first run
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = seed,
        allow_negative_numbers = true,
        help_heading = "How to run it"
    )]
    pub(crate) seed: u64,
    /// The number of runs of each case, with seed after seed; the tables show median and range [default: 1, 3 or 5, as
    /// `list experiments` says; 1 with --trace]
    #[arg(
        long,
        value_name = "N",
        value_parser = some,
        allow_negative_numbers = true,
        help_heading = "How to run it"
    )]
    pub(crate) repeats: Option<u16>,
    /// Let the oracle and the shadow record check every run; by default they check the first run of each case
    #[arg(long, conflicts_with = "no_oracle", help_heading = "How to run it")]
    pub(crate) check_all: bool,
    /// Turn the oracle and the shadow record off, for speed; broken rules are then not detected, and no load is
    /// compared
    #[arg(long, help_heading = "How to run it")]
    pub(crate) no_oracle: bool,
    /// Turn the shadow record off, for speed; the oracle alone then detects broken rules
    #[arg(long, help_heading = "How to run it")]
    pub(crate) no_shadow: bool,
    /// Run on so many more machines, drawn from the ranges in the machine file, and print the interval in which nine
    /// of ten results lie [default without a number: 200]
    #[arg(
        long,
        value_name = "N",
        value_parser = some,
        num_args = 0..=1,
        default_missing_value = "200",
        conflicts_with = "trace",
        help_heading = "How to run it"
    )]
    pub(crate) uncertainty: Option<u16>,
    /// Say which numbers of the machine the results depend on, from N pairs of machines drawn from the ranges in the
    /// machine file, and for each number a machine more [default without a number: 64]
    #[arg(
        long,
        value_name = "N",
        value_parser = pairs,
        num_args = 0..=1,
        default_missing_value = "64",
        conflicts_with = "trace",
        help_heading = "How to run it"
    )]
    pub(crate) sensitivity: Option<u16>,
    /// The number of simulations at a time [default: the number of processors of this computer]
    #[arg(
        long,
        value_name = "N",
        value_parser = some,
        allow_negative_numbers = true,
        help_heading = "How to run it"
    )]
    pub(crate) jobs: Option<u16>,
    /// Show no progress
    #[arg(long, short, help_heading = "Results")]
    pub(crate) quiet: bool,
    /// Print every figure, not the headlines alone
    #[arg(long, help_heading = "Results")]
    pub(crate) all: bool,
    /// Write the results as JSON; with `-`, standard output holds nothing else
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,
    /// Write a row for each run and figure as CSV; with `-`, standard output holds nothing else
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the same rows as Parquet
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) parquet: Option<PathBuf>,
    /// Write the results as an HTML page with plots, beside the published figures
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,
    /// Write each flush and each interrupt, for ui.perfetto.dev if FILE ends in .pftrace or .perfetto-trace, otherwise
    /// as text; exactly one run must be selected
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) trace: Option<PathBuf>,
}

/// The values of `--settle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Payment {
    Free,
    Demand,
}

impl From<Payment> for ceasefire_experiments::Payment {
    fn from(settle: Payment) -> Self {
        match settle {
            Payment::Free => Self::Free,
            Payment::Demand => Self::Demand,
        }
    }
}

/// The values of `--lru-drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LruDrain {
    Eager,
    Batched,
}

impl From<LruDrain> for ceasefire_experiments::LruDrain {
    fn from(drain: LruDrain) -> Self {
        match drain {
            LruDrain::Eager => Self::Eager,
            LruDrain::Batched => Self::Batched,
        }
    }
}

/// Parses a number. The machine checks that it may have so many CPUs.
fn cpus(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("must be 1 to {MAX_CPUS} CPUs"))
}

/// Parses a number of pairs. The variance of fewer than two is unknown.
fn pairs(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 1);
    count.ok_or_else(|| format!("must be a whole number, 2 to {}", u16::MAX))
}

/// Parses a count of at least 1.
fn some(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("must be a whole number, 1 to {}", u16::MAX))
}

/// Parses a number or a fraction. The experiment checks that it can run at this scale.
fn scale(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().ok();
    let scale = match text.split_once('/') {
        Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
        None => number(text),
    };
    scale.ok_or_else(|| "must be a number above 0 and at most 1, such as 0.0625 or 1/16".into())
}

/// Parses a rate.
fn rate(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate)).ok_or("must be a number, 0 to 1")
}

/// Parses a number of a machine. The machine checks that it has it.
fn change(text: &str) -> Result<Change, &'static str> {
    text.parse().map_err(|_| "must be KEY=NUMBER or KEY=NUMBER UNIT, such as 'costs.fault=900 ns'")
}

/// Parses a number of schedules.
fn schedules(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST_SCHEDULES).contains(count));
    count.ok_or_else(|| format!("must be a whole number, 1 to {MOST_SCHEDULES}"))
}

/// Parses any number that fits.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("must be a whole number, 0 to {}", u64::MAX))
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// The machine file to write [default: the one that `--machine host` reads, ceasefire/host.toml in
    /// `$XDG_DATA_HOME` or ~/.local/share; with --only, none]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The parts to measure, separated by commas: latency, switch, fault, flush, shootdown, tlb [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The scenarios, by their names or by how the names begin [default: all]
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// Take away a guard of the engine or a promise of the hardware, and show how a rule breaks
    #[arg(long, value_name = "GUARD")]
    pub(crate) without: Option<String>,
    /// Try only the schedule with this seed, and show it; with --random, the first seed
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Try so many schedules of random operations, on ten machines in turn
    #[arg(long, value_name = "N", value_parser = schedules, conflicts_with_all = ["scenarios", "without", "schedules"], allow_negative_numbers = true)]
    pub(crate) random: Option<u64>,
    /// The schedules to try of each scenario with its guards; each is run twice and compared
    #[arg(long, value_name = "N", value_parser = schedules, default_value_t = 1000, conflicts_with = "seed", allow_negative_numbers = true)]
    pub(crate) schedules: u64,
    /// The number of scenarios at a time [default: the number of processors of this computer]
    #[arg(long, value_name = "N", value_parser = some, allow_negative_numbers = true)]
    pub(crate) jobs: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// The list to print [default: the names of all]
    #[arg(value_enum)]
    pub(crate) what: Option<Listed>,
    /// With `machines`: every parameter of each machine, with its unit, its source, the published figures that
    /// determined it, and its range
    #[arg(long)]
    pub(crate) parameters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    Experiments,
    Machines,
    Mechanisms,
}
