//! What an experiment is.

use ceasefire_machine::config::Machine;
use ceasefire_memory::LruDrain;

use super::error::RunError;
use super::mechanism::Mechanism;
use super::setup::Setup;
use super::started::Started;

/// What reviewers of lazy unmap flush (LUF) asked for on the Linux mailing lists, and what its author never showed: loads
/// that store, fork, allocate in a hurry, or run on a small machine. No figures were published.
pub(crate) const LUF: &str =
    "LUF: B. Park, 2024 and 2025, lazy unmap flush, in what its reviewers asked for: no figures";

/// What an experiment is run with, each with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Numbers of threads.
    pub threads: Vec<u16>,
    /// When new pages are listed.
    pub lru_drains: Vec<LruDrain>,
}

/// A paper's workload.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// What it does, in a line.
    pub description: &'static str,
    /// The machines of the paper.
    pub machines: &'static [&'static str],
    /// What the paper compares: the baseline first, and what it proposes second.
    pub mechanisms: &'static [Mechanism],
    /// The part of the paper's size that is run unless told otherwise.
    pub scale: f64,
    /// Whether it is run when none is named. What no paper measured has to be named, so that all the rest
    /// together ends within a minute.
    pub by_default: bool,
    /// How many nodes with CPUs it needs.
    pub nodes: usize,
    /// Whether it measures between two moments of its run. The programs' own times are of the whole run even then.
    pub windowed: bool,
    /// What is swept where it is not chosen: numbers of threads, and when new pages are listed. `None`: neither can be chosen.
    pub sweep: Option<fn(&Machine) -> Sweep>,
    /// Whether it may have more threads than CPUs, where their number can be chosen.
    pub(crate) crowded: bool,
    /// How much memory it needs.
    pub(crate) footprint: Footprint,
    pub(crate) start: fn(Setup) -> Result<Started, RunError>,
}

/// How much memory an experiment needs.
#[derive(Debug)]
pub(crate) struct Footprint {
    /// The least bytes of memory per CPU with which it makes sense.
    pub(crate) bytes_per_cpu: u64,
    /// The least bytes of memory of each node that it uses, at full size.
    pub(crate) bytes_per_node: u64,
    /// How many bytes of memory the programs touch on a machine at a scale.
    pub(crate) contents_bytes: fn(&Machine, f64) -> u64,
}

impl Footprint {
    /// The footprint of an experiment whose programs use all of the machine's memory.
    pub(crate) const WHOLE_MEMORY: Self = Self {
        bytes_per_cpu: 2 << 20,
        bytes_per_node: 0,
        contents_bytes: |machine, scale| (machine.topology.bytes() as f64 * scale) as u64,
    };
}

impl Experiment {
    /// What the paper compares its own with.
    pub fn baseline(&self) -> Mechanism {
        self.mechanisms.first().copied().unwrap_or(Mechanism::PerPage)
    }

    /// What the paper proposes: its figures after the change are those of this mechanism, and of no other.
    pub fn proposal(&self) -> Mechanism {
        self.mechanisms.get(1).copied().unwrap_or(self.baseline())
    }
}
