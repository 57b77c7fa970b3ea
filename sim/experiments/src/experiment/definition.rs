//! The definition of an experiment.

use std::fmt;

use ceasefire_machine::config::{Linux, Machine};
use ceasefire_memory::{LruDrain, PAGE_BYTES};

use super::error::RunError;
use super::mechanism::Mechanism;
use super::setup::Setup;
use super::started::Started;
use crate::workload_file::Written;

/// The paper named by experiments that reviewers of lazy unmap flush (LUF) asked for on the Linux mailing lists:
/// workloads that store, fork, allocate in a hurry, or run on a small machine. LUF's author published no figures for
/// them.
pub(crate) const LUF: &str =
    "LUF: B. Park, 2024 and 2025, lazy unmap flush; requested by its reviewers, no figures published";

/// The values that an experiment varies. It runs with every combination of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Numbers of threads.
    pub threads: Vec<u16>,
    /// The times at which a CPU lists its new pages, that is, puts them on the LRU list of their node.
    pub lru_drains: Vec<LruDrain>,
}

/// The size of an experiment in the overview, which ends within 40 seconds on two cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overview {
    /// The scale, as a fraction of the paper's size.
    pub scale: f64,
    /// The number of runs of each case, with a seed each.
    pub repeats: u16,
}

/// A workload with its machines, its mechanisms and its size.
pub struct Experiment {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// A one-line description.
    pub description: &'static str,
    /// The machines of the paper.
    pub machines: &'static [&'static str],
    /// The mechanisms that the paper compares: its baseline first, its proposal second.
    pub mechanisms: &'static [Mechanism],
    /// The values of a workload file's parameters, by name.
    pub parameters: &'static [(String, Written)],
    /// The Linux on which it runs, unless the machine's file names another: that of its paper, also where the paper's
    /// reviewers asked for it, or the newest.
    pub kernel: Linux,
    /// The default scale, as a fraction of the paper's size.
    pub scale: f64,
    /// The smallest scale at which its ratios are known to be those of scale 1. Below it, they are marked.
    pub faithful_from: f64,
    /// The default number of runs of each case, with a seed each.
    pub repeats: u16,
    /// Its size in the overview, if it is a part of it: the comparison when the command line names no experiment. Those
    /// without published figures must be named.
    pub overview: Option<Overview>,
    /// The number of nodes with CPUs that it needs.
    pub nodes: usize,
    /// Whether it measures between two moments of its run. Even then, the programs' own times cover the whole run.
    pub windowed: bool,
    /// The default numbers of threads and times of listing new pages. `None`: neither can be chosen.
    pub sweep: Option<&'static (dyn Fn(&Machine) -> Sweep + Sync)>,
    /// Whether it may have more threads than CPUs, if the number of threads can be chosen.
    pub(crate) crowded: bool,
    /// The memory that it needs.
    pub(crate) footprint: Footprint,
    /// Checks that a workload file fits a machine, at a scale and with so many threads.
    pub(crate) fits: Option<Fits>,
    /// Builds the machine and its programs for one run.
    pub(crate) start: &'static (dyn Fn(Setup) -> Result<Started, RunError> + Sync),
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Checks that a workload fits a machine, at a scale and with a number of threads.
type Fits = &'static (dyn Fn(&Machine, f64, u16) -> Result<(), RunError> + Sync);

/// The number of bytes of contents that a run keeps on the host, given the machine and the scale.
type ContentsBytes = &'static (dyn Fn(&Machine, f64) -> u64 + Sync);

/// The frames of a run, given the machine and the scale.
type FramesOf = &'static (dyn Fn(&Machine, f64) -> Frames + Sync);

/// The memory that an experiment needs.
pub(crate) struct Footprint {
    /// The minimum memory per CPU, in bytes.
    pub(crate) bytes_per_cpu: u64,
    /// The minimum memory of each node that it uses, in bytes at scale 1.
    pub(crate) bytes_per_node: u64,
    /// The frames of the run, given the machine and the scale.
    pub(crate) frames: FramesOf,
    /// The number of bytes that the programs touch, given the machine and the scale. `None`: a run never keeps contents.
    pub(crate) contents_bytes: Option<ContentsBytes>,
}

/// The frames of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// The frames of the machine.
    pub(crate) all: u64,
    /// Those that the programs use.
    pub(crate) used: u64,
}

impl Frames {
    /// The frames of that many bytes, all of which are used.
    pub(crate) fn of(bytes: u64) -> Self {
        Self { all: bytes / PAGE_BYTES, used: bytes / PAGE_BYTES }
    }

    /// All frames of a machine at a scale.
    pub(crate) fn of_machine(machine: &Machine, scale: f64) -> Self {
        Self::of((machine.topology.bytes() as f64 * scale) as u64)
    }
}

impl Footprint {
    /// The footprint of programs that use all of the machine's memory.
    pub(crate) const WHOLE_MEMORY: Self = Self {
        bytes_per_cpu: 2 << 20,
        bytes_per_node: 0,
        frames: &Frames::of_machine,
        contents_bytes: Some(&|machine, scale| (machine.topology.bytes() as f64 * scale) as u64),
    };
}

impl Experiment {
    /// The mechanism that the paper compares its proposal with.
    pub fn baseline(&self) -> Mechanism {
        self.mechanisms.first().copied().unwrap_or(Mechanism::PerPage)
    }

    /// The mechanism that the paper proposes. The paper's figures after the change belong to this mechanism alone.
    pub fn proposal(&self) -> Mechanism {
        self.mechanisms.get(1).copied().unwrap_or(self.baseline())
    }
}
