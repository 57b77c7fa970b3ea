//! The reasons for which a run cannot start or has no result.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ceasefire_machine::config::MachineError;
use ceasefire_machine::document::Error;
use ceasefire_machine::SetupError;
use ceasefire_memory::{FaultError, OutOfMemory, TooManyObjects};

use super::mechanism::Mechanism;

/// The reason for which a run cannot start or has no result.
#[derive(Debug)]
pub enum RunError {
    /// The machine cannot be scaled to that size, or a mark of its numbers names no published figure.
    Machine(MachineError),
    /// A workload file does not fit the machine.
    Workload(Error),
    /// The host cannot simulate the machine.
    Setup(SetupError),
    /// The scale is not a number, or leaves too little memory.
    Scale {
        /// The requested scale.
        scale: f64,
        /// The smallest scale allowed.
        least: f64,
    },
    /// The scale is above 1, the paper's own size.
    ScaleTooLarge(f64),
    /// The programs ended before they had done all planned operations, because memory ran out.
    Unfinished {
        /// Operations done.
        done: u64,
        /// Operations planned.
        planned: u64,
    },
    /// Some threads failed, so the figures would be those of the remaining threads alone.
    ThreadsFailed {
        /// The number of threads that failed.
        failed: u16,
        /// The number of all threads.
        threads: u16,
        /// The error of the first thread that failed.
        error: FaultError,
    },
    /// No program finished an operation within the measured time at this scale.
    NothingMeasured {
        /// The requested scale.
        scale: f64,
    },
    /// The machine has too few nodes with CPUs.
    Nodes {
        /// The number of nodes with CPUs.
        found: usize,
        /// The number that the experiment needs.
        needed: usize,
    },
    /// A node has too little memory for the experiment, even at scale 1.
    NodeMemory {
        /// The node's number.
        node: usize,
        /// The node's memory, in bytes.
        bytes: u64,
        /// The memory that the experiment needs on the node, in bytes.
        needed: u64,
    },
    /// The machine has too little memory for its CPUs, even at scale 1.
    Cpus {
        /// The number of CPUs.
        cpus: u16,
        /// The number of CPUs for which the memory is enough.
        most: u16,
    },
    /// The mechanism broadcasts under global ASIDs, but the machine's TLB entries carry no ASIDs.
    NoAsids {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// The experiment fixes its number of threads, or the time at which new pages are listed.
    NoChoice {
        /// The fixed value, in words.
        what: &'static str,
    },
    /// There are no threads, or more threads than CPUs to pin them to.
    Threads {
        /// The requested number of threads.
        threads: u16,
        /// The number of CPUs.
        cpus: u16,
    },
    /// The trace could not be written.
    Trace {
        /// The trace's path.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The run does not fit into the host's memory.
    HostMemory {
        /// The requested scale.
        scale: f64,
        /// An upper bound of the memory that the run takes, in bytes.
        needed: u64,
        /// The available memory, in bytes.
        available: u64,
        /// The largest scale that fits, if one does.
        largest: Option<f64>,
    },
    /// The run needs more files than the memory manager has room for.
    Objects(TooManyObjects),
    /// The run would exceed the range of the simulated clock.
    TooLong(ceasefire_machine::RunError),
    /// The run was stopped before its end.
    Stopped,
    /// The simulator panicked, with this message: an error of its own.
    Panicked(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(error) | Self::Workload(error) => error.fmt(f),
            Self::Setup(error) => error.fmt(f),
            Self::Scale { scale, least } => {
                write!(f, "scale {scale:?} is out of range: must be at least {least}")
            }
            Self::ScaleTooLarge(scale) => write!(f, "scale {scale:?} is above 1, the paper's own size"),
            Self::Unfinished { done, planned } => {
                write!(f, "the machine ran out of memory after {done} of {planned} operations")
            }
            Self::ThreadsFailed { failed, threads, error } => {
                write!(f, "{failed} of {threads} threads failed: {error}")
            }
            Self::NothingMeasured { scale } => {
                write!(
                    f,
                    "at scale {scale:?} no operation ended within the measured time: choose a larger scale"
                )
            }
            Self::Nodes { found, needed } => {
                write!(f, "too few nodes with CPUs: {found}, must be at least {needed}")
            }
            Self::NodeMemory { node, bytes, needed } => {
                let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                write!(
                    f,
                    "node {node} has {:.1} MiB of memory: must be at least {} MiB",
                    mib(*bytes),
                    mib(*needed)
                )
            }
            Self::Cpus { cpus, most } => {
                write!(
                    f,
                    "{cpus} CPUs are too many for the machine's memory, even at scale 1: at most {most}"
                )
            }
            Self::NoAsids { mechanism } => {
                write!(
                    f,
                    "'{mechanism}' needs TLB entries with ASIDs, but this machine has none (processor.asids)"
                )
            }
            Self::NoChoice { what } => write!(f, "{what} cannot be chosen for this experiment"),
            Self::Threads { threads, cpus } => {
                write!(f, "{threads} threads, each on its own CPU: must be 1 to {cpus}")
            }
            Self::Trace { path, error } => write!(f, "cannot write {}: {error}", path.display()),
            Self::HostMemory { scale, needed, available, largest } => {
                let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
                write!(
                    f,
                    "scale {scale:?} takes up to {:.1} GiB of this computer's memory, of which {:.1} GiB are available: ",
                    gib(*needed),
                    gib(*available)
                )?;
                match largest {
                    Some(largest) => write!(f, "must be at most {largest}"),
                    None => write!(f, "no scale fits"),
                }
            }
            Self::Objects(error) => error.fmt(f),
            Self::TooLong(error) => error.fmt(f),
            Self::Stopped => f.write_str("the run was stopped before its end"),
            Self::Panicked(message) => write!(f, "the simulator failed: {message}"),
        }
    }
}

impl std::error::Error for RunError {}

impl RunError {
    /// Whether the error is a bound of this experiment. If so, another experiment may run on that machine at that
    /// scale.
    pub fn is_bound_of_experiment(&self) -> bool {
        match self {
            // No experiment runs at a scale of 0 or less, or at one that is not a number.
            Self::Scale { scale, .. } => *scale > 0.0,
            Self::Nodes { .. }
            | Self::NodeMemory { .. }
            | Self::Cpus { .. }
            | Self::NoChoice { .. }
            | Self::HostMemory { .. }
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
