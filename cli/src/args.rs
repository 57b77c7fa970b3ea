//! The command line.

use std::path::PathBuf;

use ceasefire_machine::config::MAX_CPUS;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// What TLB-flush mechanisms save, on simulated machines, beside what the papers measured.
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
    /// Say what there is to choose from
    List(ListArguments),
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The experiments [default: all that can run on the machine and at the scale, but those of which `list experiments`
    /// says that they have to be named]
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiments: Vec<String>,
    /// The mechanisms, separated by commas [default: those that the paper compares]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<String>,
    /// What settles the debts of lazy and all: what CPUs do anyway, or interrupts alone when frames run out [default: free]
    #[arg(long, value_enum)]
    pub(crate) settle: Option<Settle>,
    /// A machine by name, `host`, or a machine file [default: the machines of the paper]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Give the machine that many CPUs instead of its own
    #[arg(long, value_name = "N", value_parser = cpus, allow_negative_numbers = true)]
    pub(crate) cpus: Option<u32>,
    /// Numbers of threads, separated by commas, of experiments whose paper varied that [default: as in the paper]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = some, allow_negative_numbers = true)]
    pub(crate) threads: Vec<u16>,
    /// When a CPU lists its new pages, separated by commas, in the same experiments: before each unmap (Linux before 6.14), or
    /// when it has a batch of them [default: as in the paper]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) lru_drain: Vec<LruDrain>,
    /// The part of the paper's size, as a number or as a fraction such as 1/16 [default: what ends within a minute on two cores, or the least that holds the
    /// working set]
    #[arg(long, value_name = "F", value_parser = scale, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Varies what is left to chance
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Write the results as JSON; `-` writes nothing else to standard output
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Write the results as a page with plots, beside the published figures
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each flush and each interrupt of the one run selected, a line each
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Run without the oracle, for speed: no violation is seen then
    #[arg(long)]
    pub(crate) no_oracle: bool,
    /// Simulations at a time [default: one for each processor of this computer]
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
            jobs: None,
        }
    }
}

/// What settles debts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Settle {
    Free,
    Demand,
}

impl From<Settle> for ceasefire_experiments::Settle {
    fn from(settle: Settle) -> Self {
        match settle {
            Settle::Free => Self::Free,
            Settle::Demand => Self::Demand,
        }
    }
}

/// When new pages are listed.
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

/// A number; whether a machine may have so many CPUs, the machine says.
fn cpus(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("must be 1 to {MAX_CPUS} CPUs"))
}

/// How many of something that there has to be one of.
fn some(text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("must be a whole number, 1 to {}", u16::MAX))
}

/// A number, or a fraction as papers and tables have it; whether anything can run at it, the experiment says.
fn scale(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().ok();
    let scale = match text.split_once('/') {
        Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
        None => number(text),
    };
    scale.ok_or_else(|| "must be a number above 0 and at most 1, such as 0.0625 or 1/16".into())
}

/// Any number that fits.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("must be a whole number, 0 to {}", u64::MAX))
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Of what
    #[arg(value_enum)]
    pub(crate) what: Listed,
    /// With machines: every number of each, with its unit and source
    #[arg(long)]
    pub(crate) parameters: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    Experiments,
    Machines,
    Mechanisms,
}
