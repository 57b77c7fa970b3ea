//! The plan of one run: its experiment, machine, mechanism and size.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use ceasefire::{Payment, Schedule};
use ceasefire_machine::config::{Linux, Machine};
use ceasefire_machine::{Options, TraceFormat, TraceOutput};
use ceasefire_memory::{LruDrain, NodeId};

use crate::experiment::{Experiment, Mechanism, RunError, Setup};
use crate::names::{drain_name, payment_name};
use crate::published::Influences;

/// The maximum amount of simulated memory, in bytes, that the host keeps the contents of.
pub const MOST_CONTENTS: u64 = 1 << 30;

/// One run of an experiment.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// The machine at scale 1.
    pub machine: Machine,
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The way in which the debts of [`Mechanism::Lazy`] and [`Mechanism::All`] are settled.
    pub payment: Payment,
    /// The number of threads, if the experiment lets it be chosen. `None`: the experiment's own number.
    pub threads: Option<u16>,
    /// The release of Linux that the memory manager is like.
    pub kernel: Linux,
    /// The time at which a CPU puts its new pages on the LRU list, if the experiment lets it be chosen. `None`: that of
    /// the release.
    pub lru_drain: Option<LruDrain>,
    /// The fraction of the machine's memory, and with it of the work, that the run uses.
    pub scale: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether the oracle checks the run.
    pub oracle: bool,
    /// Whether the memory manager's shadow record checks it too.
    pub shadow: bool,
    /// The file to which each flush and each interrupt is written.
    pub trace: Option<TraceFile>,
}

/// The file of a trace. Its name gives the [format](TraceFormat::of).
#[derive(Debug, Clone)]
pub struct TraceFile {
    /// Its path.
    pub path: PathBuf,
    /// The command that asks for the run, which the trace names.
    pub command: String,
}

impl Plan {
    /// The experiment's own run on a machine: its baseline, the machine's Linux or its own, its scale or the smallest that
    /// the machine can have, seed 1, with both checkers.
    pub fn new(experiment: &'static Experiment, machine: Machine) -> Self {
        let kernel = machine.linux.unwrap_or(experiment.kernel);
        let mut plan = Self {
            experiment,
            machine,
            mechanism: experiment.baseline(),
            payment: Payment::Free,
            threads: None,
            kernel,
            lru_drain: None,
            scale: experiment.scale,
            seed: 1,
            oracle: true,
            shadow: true,
            trace: None,
        };
        plan.scale = plan.scale.max(plan.least_scale()).min(1.0);
        plan
    }

    /// The smallest scale at which the machine still holds the experiment's working set.
    pub fn least_scale(&self) -> f64 {
        let topology = &self.machine.topology;
        let needed = self.experiment.footprint.bytes_per_cpu * u64::from(topology.cpu_count());
        // Rounded up to four decimals, so that a user can type the number.
        (needed as f64 / topology.bytes() as f64 * 1e4).ceil() / 1e4
    }

    /// Checks that the experiment can run on the machine, at the scale and with the chosen values.
    ///
    /// # Errors
    /// - [`RunError::Machine`] if a mark of the machine's numbers names no published figure.
    /// - [`RunError::ScaleTooLarge`] or [`RunError::Scale`] if the scale is out of range.
    /// - [`RunError::NoAsids`] if the mechanism needs ASIDs and the machine has none.
    /// - [`RunError::NoChoice`] or [`RunError::Threads`] if the number of threads or the listing of new pages cannot be
    ///   chosen so.
    /// - [`RunError::Workload`] if a workload file does not fit the machine.
    /// - [`RunError::Nodes`], [`RunError::NodeMemory`] or [`RunError::Cpus`] if the machine has too few nodes or too
    ///   little memory.
    pub fn check(&self) -> Result<(), RunError> {
        // A mark that names no published figure is an error of the machine file.
        Influences::new(&self.machine, |_| true).map_err(RunError::Machine)?;
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
            return Err(RunError::NoChoice { what: "the listing of new pages" });
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
        // This comparison also refuses a scale that is not a number.
        if self.scale >= least {
            self.experiment.fits.map_or(Ok(()), |fits| fits(&self.machine, self.scale, self.chosen_threads()))
        } else {
            Err(RunError::Scale { scale: self.scale, least })
        }
    }

    /// Whether one process cannot hold two such runs at a time. Each thread's stack takes two mappings, and Linux
    /// allows a process 65530 mappings (`vm.max_map_count`).
    pub fn runs_alone(&self) -> bool {
        // Where the number of threads cannot be chosen, there are at most two for each CPU.
        let threads = self.threads.unwrap_or(2 * self.machine.topology.cpu_count());
        u32::from(threads) * 2 > 65_530 / 2
    }

    /// Whether frames keep their bytes and every load is compared with the expected value. They do if the oracle is on,
    /// the experiment compares loads, and the contents take no more than [`MOST_CONTENTS`] on the host.
    pub fn keeps_contents(&self) -> bool {
        self.keeps_contents_at(self.scale)
    }

    /// Whether they would at another scale.
    pub(super) fn keeps_contents_at(&self, scale: f64) -> bool {
        let bytes = self.experiment.footprint.contents_bytes;
        self.oracle && bytes.is_some_and(|bytes| bytes(&self.machine, scale) <= MOST_CONTENTS)
    }

    /// The name of the way in which debts are settled, if there are any.
    pub(super) fn settle(&self) -> Option<&'static str> {
        (self.mechanism.schedule() == Schedule::Lazy).then(|| payment_name(self.payment))
    }

    /// The name of the time at which a CPU lists its new pages, if it can be chosen.
    pub(super) fn listing(&self) -> Option<&'static str> {
        self.experiment.sweep.map(|_| drain_name(self.drain()))
    }

    /// The time at which a CPU lists its new pages.
    fn drain(&self) -> LruDrain {
        self.lru_drain.unwrap_or(self.kernel.drain())
    }

    /// Opens the trace and fills in all defaults.
    pub(super) fn setup(&self) -> Result<Setup, RunError> {
        let (kernel, drain) = (self.kernel, self.drain());
        let mut machine = self.machine.clone();
        kernel.contend(&mut machine.contention);
        Ok(Setup {
            machine,
            scale: self.scale,
            seed: self.seed,
            threads: self.chosen_threads(),
            nodes: self.nodes()?,
            contents: self.keeps_contents(),
            options: Options {
                oracle: self.oracle,
                shadow: self.shadow,
                contents: self.keeps_contents(),
                trace: self.open_trace()?,
                payment: self.payment,
                broadcast: self.mechanism.broadcasts(),
                seed: self.seed,
                configure: Box::new(move |config| {
                    kernel.configure(config);
                    config.lru_drain = drain;
                }),
                ..Options::new(self.mechanism.schedule())
            },
        })
    }

    /// The number of threads, if it can be chosen: by default one on each CPU.
    fn chosen_threads(&self) -> u16 {
        self.threads.unwrap_or_else(|| self.machine.topology.cpu_count())
    }

    /// The nodes that the run uses: as many as the experiment needs, the first ones with CPUs.
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

    fn open_trace(&self) -> Result<Option<TraceOutput>, RunError> {
        let Some(TraceFile { path, command }) = &self.trace else { return Ok(None) };
        let file = File::create(path).map_err(|error| RunError::Trace { path: path.clone(), error })?;
        let mut output = TraceOutput::new(BufWriter::with_capacity(1 << 20, file), TraceFormat::of(path));
        output.about.push(("command".to_owned(), command.clone()));
        output.about.extend(self.choices());
        Ok(Some(output))
    }

    /// The names and values of the choices that determine the run, beside its machine.
    fn choices(&self) -> Vec<(String, String)> {
        let choices = [
            ("experiment", Some(self.experiment.name.to_owned())),
            ("mechanism", Some(self.mechanism.name().to_owned())),
            ("settle", self.settle().map(str::to_owned)),
            ("scale", Some(self.scale.to_string())),
            ("seed", Some(self.seed.to_string())),
            ("machine_hash", Some(self.machine.hash())),
        ];
        let choices = choices.into_iter().filter_map(|(name, value)| Some((name, value?)));
        choices.chain(self.varied()).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The names and values of the choices that the machine, the workload or its sweep makes if the command line does
    /// not: the release of Linux and, if they can be chosen, the number of threads and the listing of new pages.
    pub fn varied(&self) -> impl Iterator<Item = (&'static str, String)> {
        let threads = self.experiment.sweep.map(|_| self.chosen_threads().to_string());
        let varied = [
            ("threads", threads),
            ("kernel", Some(self.kernel.name().to_owned())),
            ("lru_drain", self.listing().map(str::to_owned)),
        ];
        varied.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}
