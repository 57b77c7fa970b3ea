//! One run: which experiment, on which machine, with which mechanism, how large.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use ceasefire::Settle;
use ceasefire_machine::config::{Machine, MachineError};
use ceasefire_machine::{Options, Outcome, Reading, SetupError, Simulation};
use ceasefire_memory::{FaultError, LruDrain, NodeId, OutOfMemory, TooManyObjects};

use crate::experiment::Experiment;
use crate::experiment::Mechanism;
use crate::measurement::Verdict;
use crate::measurement::{Atomic, Latency};
use crate::run::{PerProcess, Report};

/// The most bytes of simulated memory that are kept on the host.
pub const MOST_CONTENTS: u64 = 1 << 30;

/// One run of an experiment.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which experiment.
    pub experiment: &'static Experiment,
    /// The machine, at its full size.
    pub machine: Machine,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// What settles the debts of [`Mechanism::Lazy`].
    pub settle: Settle,
    /// How many threads run, where the experiment lets one choose. `None`: its own number.
    pub threads: Option<u16>,
    /// When new pages are listed, where the experiment lets one choose. `None`: the memory manager's choice.
    pub lru_drain: Option<LruDrain>,
    /// The part of the machine's memory, and with it of the work, that is run.
    pub scale: f64,
    /// Varies what is left to chance.
    pub seed: u64,
    /// Whether the oracle watches.
    pub oracle: bool,
    /// Where each flush and interrupt is written.
    pub trace: Option<PathBuf>,
}

/// Says what came of a run.
type Finish = Box<dyn FnOnce(&Outcome) -> Result<Finished, RunError>>;

/// A machine with its programs, about to run.
pub(crate) struct Started {
    pub(crate) simulation: Simulation,
    /// When each program starts.
    pub(crate) starts: Vec<u64>,
    /// How much of it is done, given the loads and stores made so far.
    pub(crate) progress: Box<dyn Fn(u64) -> f64>,
    /// What came of it, once all programs have ended.
    pub(crate) finish: Finish,
}

/// What the programs of a run did.
pub(crate) struct Finished {
    /// Pages read, moved, and so on.
    pub(crate) operations: u64,
    /// The readings between which the experiment measures; the whole run if there are none.
    pub(crate) window: Option<(Reading, Reading)>,
    /// What came of comparing loads with the reference.
    pub(crate) verdict: Verdict,
    /// How long single operations took, if the experiment measures that.
    pub(crate) latency: Option<Latency>,
    /// What became of allocations that must not wait, if it makes some.
    pub(crate) atomic: Option<Atomic>,
    /// How the operations are spread over processes, if there are many of the same kind.
    pub(crate) per_process: Option<PerProcess>,
}

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

impl Plan {
    /// The least scale at which the machine still holds the experiment's working set.
    pub fn least_scale(&self) -> f64 {
        let topology = &self.machine.topology;
        let needed = self.experiment.bytes_per_cpu * u64::from(topology.cpu_count());
        // Rounded up to four digits, so that the number can be typed.
        (needed as f64 / topology.bytes() as f64 * 1e4).ceil() / 1e4
    }

    /// Whether it can be run on its machine and at its scale.
    ///
    /// # Errors
    /// [`RunError::ScaleTooLarge`]; what the machine lacks, [`RunError::NoAsids`]; what was chosen and cannot be,
    /// [`RunError::NoChoice`] or [`RunError::Threads`]; or the bound that the machine or the scale crosses:
    /// [`RunError::Nodes`], [`RunError::NodeMemory`], [`RunError::Cpus`] or [`RunError::Scale`].
    pub fn check(&self) -> Result<(), RunError> {
        if self.scale > 1.0 {
            return Err(RunError::ScaleTooLarge(self.scale));
        }
        let processor = &self.machine.processor;
        if self.mechanism.broadcasts() && !processor.asids {
            return Err(RunError::NoAsids { mechanism: self.mechanism });
        }
        let sweep = self.experiment.sweep.is_some();
        let cpus = self.machine.topology.cpu_count();
        match self.threads {
            Some(_) if !sweep => return Err(RunError::NoChoice { what: "the number of threads" }),
            Some(0) => return Err(RunError::Threads { threads: 0, cpus }),
            Some(threads) if threads > cpus && !self.experiment.crowded => {
                return Err(RunError::Threads { threads, cpus });
            }
            _ => {}
        }
        if self.lru_drain.is_some() && !sweep {
            return Err(RunError::NoChoice { what: "when new pages are listed" });
        }
        let needed = self.experiment.bytes_per_node;
        for node in self.nodes()?.into_iter().map(NodeId::index) {
            let bytes = self.machine.topology.nodes()[node].bytes;
            if bytes < needed {
                return Err(RunError::NodeMemory { node, bytes, needed });
            }
        }
        let least = self.least_scale();
        if least > 1.0 {
            let cpus = self.machine.topology.cpu_count();
            return Err(RunError::Cpus { cpus, most: (f64::from(cpus) / least) as u16 });
        }
        // Written so that a scale that is no number is refused too.
        if self.scale >= least {
            Ok(())
        } else {
            Err(RunError::Scale { scale: self.scale, least })
        }
    }

    /// Runs it. `progress` is called now and then with the part that is done.
    ///
    /// # Errors
    /// [`RunError`] says why there is no result.
    pub fn run(&self, mut progress: impl FnMut(f64)) -> Result<Report, RunError> {
        self.check()?;
        let begun = Instant::now();
        let Started { simulation, starts, progress: part, finish } = (self.experiment.start)(self)?;
        let outcome = simulation
            .run(|_, accesses| {
                progress(part(accesses));
                true
            })
            .map_err(|error| match error {
                ceasefire_machine::RunError::Trace(error) => {
                    RunError::Trace { path: self.trace.clone().unwrap_or_default(), error }
                }
                error @ ceasefire_machine::RunError::TooLong => RunError::TooLong(error),
            })?;
        let finished = finish(&outcome)?;
        Ok(Report::new(self, &starts, &outcome, &finished, begun.elapsed().as_secs_f64()))
    }

    /// Whether two such runs at a time are more than one process can hold: each thread's stack takes two mappings, of which
    /// Linux allows a process 65530 (`vm.max_map_count`).
    pub fn runs_alone(&self) -> bool {
        u32::from(self.threads.unwrap_or(0)) * 2 > 65_530 / 2
    }

    /// Whether frames keep their bytes and every load is compared with what it must return: where the oracle watches and
    /// the host has to hold no more than [`MOST_CONTENTS`].
    pub fn keeps_contents(&self) -> bool {
        self.oracle && (self.experiment.contents_bytes)(self) <= MOST_CONTENTS
    }

    /// The nodes that it uses: the first that have CPUs, as many as the experiment needs.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeId>, RunError> {
        let needed = self.experiment.nodes;
        let all = self.machine.topology.nodes().iter().zip(0..);
        let with_cpus = all.filter(|(node, _)| !node.cpus.is_empty()).map(|(_, number)| NodeId(number));
        let nodes: Vec<NodeId> = with_cpus.take(needed).collect();
        if nodes.len() < needed {
            return Err(RunError::Nodes { found: nodes.len(), needed });
        }
        Ok(nodes)
    }

    /// How many threads run where that can be chosen: one on each CPU unless told otherwise.
    pub(crate) fn thread_count(&self) -> u16 {
        self.threads.unwrap_or_else(|| self.machine.topology.cpu_count())
    }

    pub(crate) fn scaled_machine(&self) -> Result<Machine, RunError> {
        self.machine.scaled(self.scale).map_err(RunError::Machine)
    }

    /// How the machine is to be set up.
    pub(crate) fn options(&self) -> Result<Options, RunError> {
        Ok(Options {
            oracle: self.oracle,
            contents: self.keeps_contents(),
            trace: self.open_trace()?,
            settle: self.settle,
            broadcast: self.mechanism.broadcasts(),
            ..Options::new(self.mechanism.schedule())
        })
    }

    fn open_trace(&self) -> Result<Option<Box<dyn Write>>, RunError> {
        let Some(path) = &self.trace else { return Ok(None) };
        let file = File::create(path).map_err(|error| RunError::Trace { path: path.clone(), error })?;
        Ok(Some(Box::new(BufWriter::with_capacity(1 << 20, file))))
    }
}
