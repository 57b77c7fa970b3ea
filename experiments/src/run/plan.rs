//! One run: which experiment, on which machine, with which mechanism, how large.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use ceasefire::Settle;
use ceasefire_machine::config::Machine;
use ceasefire_machine::Options;
use ceasefire_memory::{LruDrain, NodeId};

use crate::experiment::{Experiment, Mechanism, RunError, Setup};

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

impl Plan {
    /// The least scale at which the machine still holds the experiment's working set.
    pub fn least_scale(&self) -> f64 {
        let topology = &self.machine.topology;
        let needed = self.experiment.footprint.bytes_per_cpu * u64::from(topology.cpu_count());
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
        let needed = self.experiment.footprint.bytes_per_node;
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

    /// Whether two such runs at a time are more than one process can hold: each thread's stack takes two mappings, of which
    /// Linux allows a process 65530 (`vm.max_map_count`).
    pub fn runs_alone(&self) -> bool {
        u32::from(self.threads.unwrap_or(0)) * 2 > 65_530 / 2
    }

    /// Whether frames keep their bytes and every load is compared with what it must return: where the oracle watches and
    /// the host has to hold no more than [`MOST_CONTENTS`].
    pub fn keeps_contents(&self) -> bool {
        self.oracle && (self.experiment.footprint.contents_bytes)(&self.machine, self.scale) <= MOST_CONTENTS
    }

    /// What its experiment is given to set it up. Opens the trace.
    pub(super) fn setup(&self) -> Result<Setup, RunError> {
        Ok(Setup {
            machine: self.machine.clone(),
            scale: self.scale,
            seed: self.seed,
            // One on each CPU unless told otherwise.
            threads: self.threads.unwrap_or_else(|| self.machine.topology.cpu_count()),
            lru_drain: self.lru_drain.unwrap_or_default(),
            nodes: self.nodes()?,
            contents: self.keeps_contents(),
            options: Options {
                oracle: self.oracle,
                contents: self.keeps_contents(),
                trace: self.open_trace()?,
                settle: self.settle,
                broadcast: self.mechanism.broadcasts(),
                ..Options::new(self.mechanism.schedule())
            },
        })
    }

    /// The nodes that it uses: the first that have CPUs, as many as the experiment needs.
    fn nodes(&self) -> Result<Vec<NodeId>, RunError> {
        let needed = self.experiment.nodes;
        let all = self.machine.topology.nodes().iter().zip(0..);
        let with_cpus = all.filter(|(node, _)| !node.cpus.is_empty()).map(|(_, number)| NodeId(number));
        let nodes: Vec<NodeId> = with_cpus.take(needed).collect();
        if nodes.len() < needed {
            return Err(RunError::Nodes { found: nodes.len(), needed });
        }
        Ok(nodes)
    }

    fn open_trace(&self) -> Result<Option<Box<dyn Write>>, RunError> {
        let Some(path) = &self.trace else { return Ok(None) };
        let file = File::create(path).map_err(|error| RunError::Trace { path: path.clone(), error })?;
        Ok(Some(Box::new(BufWriter::with_capacity(1 << 20, file))))
    }
}
