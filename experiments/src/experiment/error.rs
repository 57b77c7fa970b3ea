//! Why a run cannot be made, or gave no result.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ceasefire_machine::config::MachineError;
use ceasefire_machine::SetupError;
use ceasefire_memory::{FaultError, OutOfMemory, TooManyObjects};

use super::mechanism::Mechanism;

/// Why a run cannot be made.
#[derive(Debug)]
pub enum RunError {
    /// The machine cannot be built at that scale.
    Machine(MachineError),
    /// The machine cannot be set up on this host.
    Setup(SetupError),
    /// The scale is no number above 0, or leaves too little memory.
    Scale {
        /// What was asked for.
        scale: f64,
        /// The least that works.
        least: f64,
    },
    /// The scale is above 1: the paper's size is the largest.
    ScaleTooLarge(f64),
    /// The programs did not do all that they should have: memory ran out.
    Unfinished {
        /// Operations done.
        done: u64,
        /// Operations planned.
        planned: u64,
    },
    /// Some of the threads could not go on, so that the others alone would have been measured.
    ThreadsFailed {
        /// How many.
        failed: u16,
        /// Of how many.
        threads: u16,
        /// What stopped the first of them.
        error: FaultError,
    },
    /// The programs ran, and none of them ended an operation in the time that is measured at this scale.
    NothingMeasured {
        /// What was asked for.
        scale: f64,
    },
    /// The machine has too few nodes with CPUs.
    Nodes {
        /// How many it has.
        found: usize,
        /// How many the experiment needs.
        needed: usize,
    },
    /// A node has too little memory, at full size, for what the experiment keeps on it.
    NodeMemory {
        /// Its number.
        node: usize,
        /// How many bytes it has.
        bytes: u64,
        /// How many the experiment needs.
        needed: u64,
    },
    /// The machine has not the memory for so many CPUs, even at full size.
    Cpus {
        /// How many it has.
        cpus: u16,
        /// How many its memory is enough for.
        most: u16,
    },
    /// The mechanism broadcasts under global ASIDs, and the machine's entries carry none.
    NoAsids {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// The experiment chooses its number of threads, or new pages' listing, by itself.
    NoChoice {
        /// What cannot be chosen.
        what: &'static str,
    },
    /// There are more threads than CPUs to pin them to, or none.
    Threads {
        /// How many.
        threads: u16,
        /// How many CPUs there are.
        cpus: u16,
    },
    /// The trace could not be written.
    Trace {
        /// To where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There are more files than the memory manager was set up for.
    Objects(TooManyObjects),
    /// It would take more simulated time than there is.
    TooLong(ceasefire_machine::RunError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(error) => error.fmt(f),
            Self::Setup(error) => error.fmt(f),
            Self::Scale { scale, least } => {
                write!(f, "scale {scale:?} leaves too little to run: at least {least} works")
            }
            Self::ScaleTooLarge(scale) => write!(f, "scale {scale:?} is above 1, the paper's own size"),
            Self::Unfinished { done, planned } => {
                write!(f, "the machine ran out of memory after {done} of {planned} operations")
            }
            Self::ThreadsFailed { failed, threads, error } => {
                write!(f, "{failed} of {threads} threads could not go on: {error}")
            }
            Self::NothingMeasured { scale } => {
                write!(
                    f,
                    "at scale {scale:?} no operation ended in the time that is measured: choose a larger one"
                )
            }
            Self::Nodes { found, needed } => {
                write!(f, "too few nodes with CPUs: {found}, where at least {needed} are needed")
            }
            Self::NodeMemory { node, bytes, needed } => {
                let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                write!(
                    f,
                    "node {node} has {:.1} MiB of memory, too few: at least {} MiB are needed",
                    mib(*bytes),
                    mib(*needed)
                )
            }
            Self::Cpus { cpus, most } => {
                write!(f, "{cpus} CPUs are too many for its memory at any scale: at most {most}")
            }
            Self::NoAsids { mechanism } => {
                write!(f, "'{mechanism}' needs TLB entries with ASIDs, which this machine has not (processor.asids)")
            }
            Self::NoChoice { what } => write!(f, "{what} cannot be chosen for this experiment"),
            Self::Threads { threads, cpus } => {
                write!(f, "{threads} threads, each on a CPU of its own: must be 1 to {cpus}")
            }
            Self::Trace { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Objects(error) => error.fmt(f),
            Self::TooLong(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

impl RunError {
    /// Whether what stands in the way is a bound of this experiment, so that another may run there at that scale.
    pub fn is_bound_of_experiment(&self) -> bool {
        match self {
            // No experiment runs at a scale of nothing, or at one that is no number.
            Self::Scale { scale, .. } => *scale > 0.0,
            Self::Nodes { .. }
            | Self::NodeMemory { .. }
            | Self::Cpus { .. }
            | Self::NoChoice { .. }
            | Self::Threads { .. } => true,
            _ => false,
        }
    }
}

impl From<SetupError> for RunError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl From<OutOfMemory> for RunError {
    fn from(_: OutOfMemory) -> Self {
        Self::Setup(SetupError::OutOfMemory)
    }
}

impl From<TooManyObjects> for RunError {
    fn from(error: TooManyObjects) -> Self {
        Self::Objects(error)
    }
}
