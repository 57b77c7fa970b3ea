//! The arguments of the commands for simulated machines.

use std::path::PathBuf;

use ceasefire_experiments::Figure;
use clap::{Args, ValueEnum};

use super::set::{setting, Setting};
use super::value::{at_least, cpus, scale, seed, some};

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The experiments or workload files [default: an overview of the papers, within 40 seconds on two cores]
    #[arg(value_name = "EXPERIMENT|FILE")]
    pub(crate) experiments: Vec<String>,
    #[command(flatten)]
    pub(crate) choice: Choice,
    #[command(flatten)]
    pub(crate) manner: Manner,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

/// The runs that are wanted.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to run")]
pub(crate) struct Choice {
    /// The mechanisms, separated by commas [default: the paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<String>,
    /// The machine: a name, `host`, or a machine file [default: the paper's machines]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// The Linux whose locks and batches the memory manager has: 4.2, 6.3, 6.9, 6.12, 6.13, 6.18 or 7.2 [default: that of
    /// the machine file or of the workload, else the newest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// A number of the machine or a choice of the model; may be given several times
    ///
    /// A number has its key in the machine file: `--set "costs.fault=900 ns"`. The choices of the model are:
    ///
    /// `settle=free|demand`: the debts of lazy and all are settled by switches and ticks that happen anyway, or only by
    /// interrupts when frames run out [default: free]
    ///
    /// `lru_drain=LIST`: a CPU puts its new pages on the LRU list before each unmap (eager, Linux before 6.14) or when it
    /// has a batch of them (batched) [default: that of the chosen kernel, else the paper's]
    ///
    /// `without=LIST`: effects to leave out, to see what each adds: contention, smt, idle, far-walks, bandwidth, ticks
    ///
    /// `speculate=RATE`: walkers fill translations that no access asked for, at this rate (0 to 1) of the moments at which
    /// CPUs can notice each other [default: 0]
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) set: Vec<Setting>,
    /// The number of CPUs [default: the machine's own]
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub(crate) cpus: Option<u32>,
    /// The numbers of threads, separated by commas, where the paper varies them [default: the paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = some)]
    pub(crate) threads: Vec<u16>,
    /// The size relative to the paper's, as a number or as a fraction such as 1/16 [default: a size that ends within a
    /// minute on two cores, or the smallest that holds the working set]
    #[arg(long, value_name = "F", value_parser = scale)]
    pub(crate) scale: Option<f64>,
}

/// How runs are made.
#[derive(Debug, Args)]
#[command(next_help_heading = "How to run it")]
pub(crate) struct Manner {
    /// The seed of all random choices of the first run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub(crate) seed: u64,
    /// The number of runs of each case, with seed after seed; the tables show median and range [default: 1 to 5, as
    /// `list experiments` says; 1 with --trace]
    #[arg(long, value_name = "N", value_parser = some)]
    pub(crate) repeats: Option<u16>,
    /// The runs that the oracle and the shadow record check; a checked run takes 1.3 to 4.3 times the work
    #[arg(long, value_name = "RUNS", default_value = "first")]
    pub(crate) check: Check,
    /// Run on further machines too, drawn from the ranges in the machine file, to learn how sure the ratios are
    ///
    /// `uncertainty=N`: N machines, and the interval in which nine of ten results lie [default without a number: 200]
    ///
    /// `sensitivity=N`: N pairs of machines, and one more for each number of the machine; the numbers on which the results
    /// depend [default without a number: 64]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = draw, conflicts_with = "trace")]
    pub(crate) draw: Vec<Draw>,
    /// The number of simulations at a time [default: the number of processors of this computer]
    #[arg(long, value_name = "N", value_parser = some)]
    pub(crate) jobs: Option<u16>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The outputs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct Outputs {
    /// Print every figure, not the headlines alone
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the results as JSON; with `-`, standard output holds nothing else
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a row for each run and figure: as Parquet if FILE ends in .parquet, otherwise as CSV; with `-`, standard
    /// output holds nothing else
    #[arg(long, value_name = "FILE|-")]
    pub(crate) table: Option<PathBuf>,
    /// Write the results as an HTML page with plots, beside the published figures
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each flush and each interrupt, for ui.perfetto.dev if FILE ends in .pftrace or .perfetto-trace, otherwise
    /// as text; exactly one run must be selected
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// The values of `--check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Check {
    /// No run: broken rules are not detected, and no load is compared
    None,
    /// The first run of each case
    First,
    /// Every run
    All,
}

/// A part of `--draw`, with the number of draws.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Draw {
    Uncertainty(u16),
    Sensitivity(u16),
}

/// Parses a part of `--draw`. The variance of fewer than two pairs is unknown.
fn draw(text: &str) -> Result<Draw, String> {
    let (name, count) = text.split_once('=').map_or((text, None), |(name, count)| (name, Some(count)));
    match name {
        "uncertainty" => Ok(Draw::Uncertainty(count.map_or(Ok(200), some)?)),
        "sensitivity" => Ok(Draw::Sensitivity(count.map_or(Ok(64), |count| at_least(2, count))?)),
        _ => Err("must be uncertainty or sensitivity, perhaps with a number: uncertainty=200".into()),
    }
}

impl CompareArguments {
    /// The number of machines to draw for intervals, if they are wanted.
    pub(crate) fn uncertainty(&self) -> Option<u16> {
        let of = |draw: &Draw| if let Draw::Uncertainty(count) = draw { Some(*count) } else { None };
        self.manner.draw.iter().rev().find_map(of)
    }

    /// The number of pairs of machines to draw for indices, if they are wanted.
    pub(crate) fn sensitivity(&self) -> Option<u16> {
        let of = |draw: &Draw| if let Draw::Sensitivity(pairs) = draw { Some(*pairs) } else { None };
        self.manner.draw.iter().rev().find_map(of)
    }
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
    #[arg(long, value_name = "N", value_parser = some)]
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
    #[arg(long, value_name = "F", value_parser = scale)]
    pub(crate) scale: Option<f64>,
    /// The seed of the runs
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 1)]
    pub(crate) seed: u64,
    /// With more than one, also measure the figures with so many seeds, and print the spread of the fitted numbers
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 1)]
    pub(crate) repeats: u16,
    /// The number of runs at a time [default: the number of processors of this computer]
    #[arg(long, value_name = "N", value_parser = some)]
    pub(crate) jobs: Option<u16>,
    /// Write the machine file with the fitted numbers
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
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
    Kernels,
}
