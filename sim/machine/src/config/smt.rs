//! Cores that run two threads, each of which is a CPU (simultaneous multithreading).

use serde::Serialize;

use super::quantity::{read_count, read_whole, Parameter, Picoseconds};
use super::topology::Topology;
use super::MachineError;
use crate::document::Section;

/// The greatest slowdown of a CPU, in percent of the time that work takes alone.
const MOST_SLOWDOWN: u32 = 1000;

/// The CPUs that share a core, and their slowdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// The number of cores in a group of a node's CPUs. CPUs are numbered group by group: the first thread of each
    /// core of the group, then the second thread of each.
    pub apart: u32,
    /// The time that work takes while the other CPU of the core works too, in percent of the time that it takes
    /// alone. Waiting takes no longer.
    pub slowdown: u32,
}

impl Smt {
    /// Reads `[smt]` and adds its numbers to `sources`.
    pub(super) fn read(
        mut section: Section<'_>,
        topology: &Topology,
        sources: &mut Vec<Parameter>,
    ) -> Result<Self, MachineError> {
        let apart = read_count(section.take("apart")?, "CPUs", topology.cpu_count().into(), sources)?.get();
        // No CPU works faster because its sibling works too.
        let slowdown = read_whole(section.take("slowdown")?, "percent", (100, MOST_SLOWDOWN), sources)?;
        section.finish()?;
        Ok(Self { apart, slowdown })
    }

    /// For each CPU the other one of its core, if the machine has it.
    pub fn siblings(&self, topology: &Topology) -> Vec<Option<u16>> {
        let apart = self.apart as usize;
        let mut siblings = vec![None; usize::from(topology.cpu_count())];
        for node in topology.nodes() {
            for (place, &cpu) in node.cpus.iter().enumerate() {
                let second = place % (2 * apart) >= apart;
                let other = if second { place - apart } else { place + apart };
                siblings[usize::from(cpu)] = node.cpus.get(other).copied();
            }
        }
        siblings
    }

    /// The time of work that takes `time` alone, beside the other thread of the core.
    pub fn slowed(&self, time: Picoseconds) -> Picoseconds {
        time * u64::from(self.slowdown) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Node;
    use super::*;
    use crate::document::{parse, Entry};

    /// A node with so many CPUs from `first` on.
    fn node(first: u16, cpus: u16) -> Node {
        Node { cpus: (first..first + cpus).collect(), bytes: 4096, tier: 0 }
    }

    /// Reads the section for a machine of 72 CPUs.
    fn read(apart: u32, slowdown: u32) -> Result<(Smt, usize), String> {
        let text = format!(
            "[smt]\napart = {{ value = {apart}, unit = 'CPUs', source = 's' }}\n\
             slowdown = {{ value = {slowdown}, unit = 'percent', source = 's' }}"
        );
        let topology = Topology::new(vec![node(0, 72)]).expect("valid");
        let mut sources = Vec::new();
        let section = parse("f", &text).and_then(|mut root| root.take("smt")).and_then(Entry::section);
        let smt = section.and_then(|section| Smt::read(section, &topology, &mut sources));
        smt.map(|smt| (smt, sources.len())).map_err(|error| error.to_string())
    }

    #[test]
    fn both_numbers_are_read() {
        let (smt, count) = read(36, 160).expect("valid");
        assert_eq!((smt, count), (Smt { apart: 36, slowdown: 160 }, 2));
        assert_eq!(smt.slowed(50), 80);
    }

    #[test]
    fn a_slowdown_below_100_percent_is_refused() {
        assert_eq!(read(36, 99), Err("f:3: smt.slowdown.value: 99: must be 100 to 1000".to_owned()));
        assert!(read(36, 100).is_ok());
    }

    #[test]
    fn no_core_has_threads_further_apart_than_the_machine_has_cpus() {
        assert_eq!(read(73, 160), Err("f:2: smt.apart.value: 73: must be 1 to 72".to_owned()));
        assert!(read(72, 160).is_ok());
    }

    #[test]
    fn the_threads_of_a_core_are_siblings_and_a_core_may_have_one_thread() {
        let topology = Topology::new(vec![node(0, 5), node(5, 4)]).expect("valid");
        let siblings = Smt { apart: 2, slowdown: 160 }.siblings(&topology);
        let expected = [Some(2), Some(3), Some(0), Some(1), None, Some(7), Some(8), Some(5), Some(6)];
        assert_eq!(siblings, expected);
    }
}
