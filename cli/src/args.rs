//! The command line.

use std::path::PathBuf;

use ceasefire_machine::config::MAX_CPUS;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measure on simulated machines how much TLB-flush mechanisms save, and compare with the papers' figures.
#[derive(Debug, Parser)]
#[command(name = "ceasefire", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run experiments with each mechanism and print them beside the published figures (the default)
    Compare(Box<CompareArguments>),
    /// List the experiments, the machines or the mechanisms
    List(ListArguments),
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The experiments [default: all that can run on the machine at the scale, except those that `list experiments`
    /// marks as run only if named]
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// The mechanisms, separated by commas [default: the paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<String>,
    /// How the debts of lazy and all are settled: by switches and ticks that happen anyway (free), or only by
    /// interrupts, when frames run out (demand) [default: free]
    #[arg(long, value_enum)]
    pub(crate) settle: Option<Payment>,
    /// The machine: a name, `host`, or a machine file [default: the paper's machines]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// The number of CPUs [default: the machine's own]
    #[arg(long, value_name = "N", value_parser = cpus, allow_negative_numbers = true)]
    pub(crate) cpus: Option<u32>,
    /// The numbers of threads, separated by commas, for experiments whose paper varies the number [default: the
    /// paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = some, allow_negative_numbers = true)]
    pub(crate) threads: Vec<u16>,
    /// When a CPU puts its new pages on the LRU list, for the same experiments, separated by commas: before each unmap
    /// (eager, Linux before 6.14), or when it has a batch of them (batched) [default: the paper's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) lru_drain: Vec<LruDrain>,
    /// The size relative to the paper's, as a number or as a fraction such as 1/16 [default: a size that ends within a
    /// minute on two cores, or the smallest that holds the working set]
    #[arg(long, value_name = "F", value_parser = scale, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Write the results as JSON; with `-`, standard output holds nothing else
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write the results as an HTML page with plots, beside the published figures
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a line for each flush and each interrupt; exactly one run must be selected
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Turn the oracle and the shadow record off, for speed; broken rules are then not detected, and no load is compared
    #[arg(long)]
    pub(crate) no_oracle: bool,
    /// Turn the shadow record off, for speed; the oracle alone then detects broken rules
    #[arg(long)]
    pub(crate) no_shadow: bool,
    /// The effects to leave out of the model of the machine, separated by commas, to see what each adds: contention,
    /// smt, idle, far-walks, bandwidth, ticks
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// The number of simulations at a time [default: the number of processors of this computer]
    #[arg(long, value_name = "N", value_parser = some, allow_negative_numbers = true)]
    pub(crate) jobs: Option<u16>,
}

impl Default for CompareArguments {
    fn default() -> Self {
        Self {
            experiments: Vec::new(),
            mechanism: Vec::new(),
            settle: None,
            machine: None,
            cpus: None,
            threads: Vec::new(),
            lru_drain: Vec::new(),
            scale: None,
            seed: 1,
            json: None,
            html: None,
            trace: None,
            no_oracle: false,
            no_shadow: false,
            without: Vec::new(),
            jobs: None,
        }
    }
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

/// Parses any number that fits.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("must be a whole number, 0 to {}", u64::MAX))
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// The list to print
    #[arg(value_enum)]
    pub(crate) what: Listed,
    /// With `machines`: every parameter of each machine, with its unit, its source and the published figures that
    /// determined it
    #[arg(long)]
    pub(crate) parameters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    Experiments,
    Machines,
    Mechanisms,
}
