//! A valid machine, and changes of its size.

use std::path::PathBuf;

use serde::Serialize;

use super::contention::Contention;
use super::copy::CopyCost;
use super::costs::Costs;
use super::effect::{sorted_names, Effect};
use super::idle::IdleState;
use super::latency::Latency;
use super::linux::Linux;
use super::memory::TierMemory;
use super::processor::Processor;
use super::quantity::{Parameter, Picoseconds};
use super::smt::Smt;
use super::storage::Storage;
use super::tlb::TlbGeometry;
use super::topology::Topology;
use super::{MachineError, Problem};

/// A valid machine. Only its content is serialized: everything that a run can depend on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// A short name.
    #[serde(skip)]
    pub name: String,
    /// The real machine that it models.
    #[serde(skip)]
    pub description: String,
    /// Nodes, their CPUs and their memory.
    pub topology: Topology,
    /// The TLBs of each CPU.
    pub tlb: TlbGeometry,
    /// The cost of every operation.
    pub costs: Costs,
    /// The latencies between the CPUs.
    pub latency: Latency,
    /// The costs of copying a page between tiers, as far as they are known. [`copy_cost`](Self::copy_cost) gives the
    /// cost between two nodes.
    pub copies: Vec<CopyCost>,
    /// The storage device. `None`: writing out a page costs only its submission.
    pub storage: Option<Storage>,
    /// The features of the processor.
    pub processor: Processor,
    /// The cost of contention for a lock or a CPU.
    pub contention: Contention,
    /// The CPUs that share a core. `None`: none do, or the costs include the effect.
    pub smt: Option<Smt>,
    /// The states in which idle CPUs sleep, from the shallowest to the deepest. None: an idle CPU wakes up at once.
    pub idle: Vec<IdleState>,
    /// The limits of each tier's memory, as far as they are known.
    pub memory: Vec<TierMemory>,
    /// The time that a tick of the timer takes, beside the flush that it may make.
    pub tick: Picoseconds,
    /// The release of Linux that it runs, if its file names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
    /// The effects that were left out ([`without`](Self::without)).
    #[serde(serialize_with = "sorted_names")]
    pub without: Vec<Effect>,
    /// Every number of the machine, with its unit and its source.
    #[serde(skip)]
    pub sources: Vec<Parameter>,
    /// The files that it was read from: its own, and that of its matrix. None for those that come with the program.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// The values in its file that were replaced, one line each.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl Machine {
    /// The same machine with `count` CPUs, spread as in [`Topology::with_cpus`]. Beyond the measured CPUs, the
    /// measured latencies repeat in blocks, the same for every run.
    ///
    /// # Errors
    /// A count of 0 or more than [`MAX_CPUS`](super::MAX_CPUS), or one that leaves no CPU for the nodes of tier 0.
    pub fn with_cpus(&self, count: u32) -> Result<Self, MachineError> {
        let topology = self.topology.with_cpus(count).map_err(|problem| self.error("cpus", problem))?;
        let latency = self.latency.reseated(&topology);
        let mut machine = Self { topology, latency, ..self.clone() };
        for (index, node) in machine.topology.nodes().iter().enumerate() {
            let key = format!("topology.nodes[{index}].cpus");
            for parameter in machine.sources.iter_mut().filter(|parameter| parameter.key == key) {
                let source = format!("chosen: {count} CPUs spread over the nodes");
                parameter.replace(node.cpus.len() as f64, source);
            }
        }
        Ok(machine)
    }

    /// The same machine with each node's memory times `factor`, as in [`Topology::scaled`].
    ///
    /// # Errors
    /// A factor that is not a finite number above 0, or that gives a node more than 1024 TiB.
    pub fn scaled(&self, factor: f64) -> Result<Self, MachineError> {
        let topology = self.topology.scaled(factor).map_err(|problem| self.error("scale", problem))?;
        let mut machine = Self { topology, ..self.clone() };
        for (index, node) in machine.topology.nodes().iter().enumerate() {
            let key = format!("topology.nodes[{index}].memory");
            for parameter in machine.sources.iter_mut().filter(|parameter| parameter.key == key) {
                parameter.source =
                    format!("{} {} times {factor}: {}", parameter.value, parameter.unit, parameter.source);
                parameter.value = node.bytes as f64;
                "B".clone_into(&mut parameter.unit);
                parameter.range = None;
            }
        }
        Ok(machine)
    }

    /// The same machine whose CPUs speculate at a rate ([`Processor::speculate`]).
    ///
    /// # Errors
    /// A rate below 0 or above 1.
    pub fn speculating(&self, rate: f64) -> Result<Self, MachineError> {
        let mut machine = self.clone();
        machine
            .processor
            .set_speculate(rate, &mut machine.sources)
            .map_err(|problem| self.error("speculate", problem))?;
        Ok(machine)
    }

    /// The cost of copying one page of 4 KiB from a frame of `from_node` to one of `to_node`.
    /// [`copies`](Self::copies) gives it for their tiers. If it has no such entry, the cost is twice `frame_zero`,
    /// since a copy reads as much as it writes.
    ///
    /// # Panics
    /// If the machine has no such node.
    pub fn copy_cost(&self, from_node: u16, to_node: u16) -> Picoseconds {
        let tier = |node: u16| self.topology.nodes()[usize::from(node)].tier;
        let tiers = (tier(from_node), tier(to_node));
        let given = self.copies.iter().find(|copy| (copy.from, copy.to) == tiers);
        given
            .and_then(|copy| if from_node == to_node { copy.same_node } else { copy.other_node })
            .unwrap_or(2 * self.costs.frame_zero)
    }

    fn error(&self, key: &str, problem: Problem) -> MachineError {
        MachineError { key: Some(key.to_owned()), ..problem.in_file(&self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin::{builtin, BUILTIN};
    use super::super::topology::Node;
    use super::*;

    fn machine() -> Machine {
        builtin("4-node-48-cpu").expect("a listed name").expect("a valid file")
    }

    fn parameter<'a>(machine: &'a Machine, key: &str) -> &'a Parameter {
        machine.sources.iter().find(|parameter| parameter.key == key).expect("a known key")
    }

    #[test]
    fn choosing_cpus_updates_their_sources() {
        let machine = machine().with_cpus(8190).expect("allowed");
        assert_eq!(machine.topology.cpu_count(), 8190);
        assert!(machine.latency.pair(0, 8189) > machine.latency.pair(0, 1));
        let first = parameter(&machine, "topology.nodes[0].cpus");
        assert_eq!((first.value, first.source.as_str()), (2048.0, "chosen: 8190 CPUs spread over the nodes"));
        assert_eq!(parameter(&machine, "topology.nodes[3].cpus").value as u32, 2047);
    }

    #[test]
    fn scaling_memory_updates_its_sources() {
        let machine = machine().scaled(0.5).expect("allowed");
        assert_eq!(machine.topology.bytes(), 32 << 30);
        let memory = parameter(&machine, "topology.nodes[0].memory");
        assert_eq!((memory.value, memory.unit.as_str()), (8_589_934_592.0, "B"));
        assert!(memory.source.starts_with("16 GiB times 0.5: "), "{}", memory.source);
    }

    #[test]
    fn an_error_names_the_bound_that_was_crossed() {
        assert_eq!(
            machine().with_cpus(8193).map_err(|error| error.to_string()),
            Err("4-node-48-cpu: cpus: 8193 CPUs: must be 1 to 8192 CPUs".to_owned())
        );
        assert_eq!(
            machine().scaled(0.0).map_err(|error| error.to_string()),
            Err("4-node-48-cpu: scale: 0: must be a finite number above 0".to_owned())
        );
    }

    #[test]
    fn the_cost_of_a_copy_is_that_of_its_tiers() {
        let mut machine = machine();
        let mut nodes = machine.topology.nodes().to_vec();
        nodes.push(Node { cpus: Vec::new(), bytes: 4096, tier: 1 });
        machine.topology = Topology::new(nodes).expect("valid");
        machine.costs.frame_zero = 300;
        assert_eq!([(0, 0), (0, 1), (0, 4)].map(|(from, to)| machine.copy_cost(from, to)), [600; 3]);

        let copy = |from, to, same_node, other_node| CopyCost { from, to, same_node, other_node };
        machine.copies =
            vec![copy(0, 0, None, Some(5)), copy(0, 1, None, Some(6)), copy(1, 1, Some(7), None)];
        let costs =
            [(0, 0), (0, 3), (3, 0), (0, 4), (4, 0), (4, 4)].map(|(from, to)| machine.copy_cost(from, to));
        assert_eq!(costs, [600, 5, 5, 6, 600, 7]);
    }

    #[test]
    fn a_machine_that_speculates_is_another_machine_and_says_so() {
        let machine = machine();
        let eager = machine.speculating(0.5).and_then(|machine| machine.speculating(0.25)).expect("rates");
        let rates = eager.sources.iter().filter(|parameter| parameter.key == "processor.speculate");
        assert_eq!(rates.map(|parameter| parameter.value).collect::<Vec<_>>(), [0.25]);
        assert_eq!((machine.built_in(), eager.built_in()), (Some("4-node-48-cpu"), None));
        assert_eq!(machine.speculating(0.0).expect("a rate").hash(), machine.hash());
        let refused = machine.speculating(2.0).map_err(|error| error.to_string());
        assert_eq!(refused, Err("4-node-48-cpu: speculate: 2: must be 0 to 1".to_owned()));
    }

    #[test]
    fn the_same_choice_gives_the_same_machine() {
        assert_eq!(machine().with_cpus(8192), machine().with_cpus(8192));
        assert_eq!(machine().with_cpus(48).map(|machine| machine.latency), Ok(machine().latency));
    }

    #[test]
    fn every_number_has_a_source() {
        for name in BUILTIN {
            let machine = builtin(name).expect("a listed name").expect("a valid file");
            for key in Costs::KEYS {
                assert!(!parameter(&machine, &format!("costs.{key}")).source.is_empty());
            }
        }
    }
}
