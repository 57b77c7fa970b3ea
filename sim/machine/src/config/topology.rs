//! Nodes, their CPUs and their memory.

use std::collections::BTreeSet;

use serde::Serialize;

use super::mark::Origin;
use super::quantity::{Parameter, MEMORY};
use super::{MachineError, Problem};
use crate::document::{Entry, Section};

/// The greatest number of CPUs of a machine: the capacity of the engine's sets.
pub const MAX_CPUS: u16 = ceasefire::MAX_CPUS as u16;

/// The greatest number of nodes of a machine.
pub const MAX_NODES: u16 = 1024;

const PAGE: u64 = 4096;

/// The largest memory of a node. No sum of nodes overflows.
const MAX_BYTES: u64 = 1 << 50;

/// A part of the machine whose CPUs are equally near to its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The numbers of its CPUs, ascending; none for a node with memory alone.
    pub cpus: Vec<u16>,
    /// Its memory, in bytes: from one page of 4 KiB to 1024 TiB.
    pub bytes: u64,
    /// The tier of its memory: 0 for the fastest, higher for slower.
    pub tier: u8,
}

/// Nodes, their CPUs and their memory. CPUs are numbered from 0 without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    nodes: Vec<Node>,
    node_of: Vec<u16>,
}

impl Topology {
    /// A machine of `nodes`.
    ///
    /// # Errors
    /// No CPU, more than [`MAX_CPUS`], no node or more than [`MAX_NODES`], a node without memory or with more than
    /// 1024 TiB, CPU numbers that are not 0, 1, 2 and so on, each once, or no CPU on a node of tier 0.
    pub fn new(mut nodes: Vec<Node>) -> Result<Self, Problem> {
        if nodes.is_empty() || nodes.len() > usize::from(MAX_NODES) {
            return Err(Problem::invalid(
                format!("{} nodes", nodes.len()),
                format!("1 to {MAX_NODES} nodes"),
            ));
        }
        let count = nodes.iter().map(|node| node.cpus.len()).sum::<usize>();
        check_cpus(count)?;
        let mut node_of = vec![u16::MAX; count];
        for (index, node) in nodes.iter_mut().enumerate() {
            if !(PAGE..=MAX_BYTES).contains(&node.bytes) {
                return Err(Problem::invalid(
                    format!("{} B of memory of node {index}", node.bytes),
                    format!("{PAGE} to {MAX_BYTES} B"),
                ));
            }
            node.cpus.sort_unstable();
            for &cpu in &node.cpus {
                match node_of.get_mut(usize::from(cpu)) {
                    Some(node) if *node == u16::MAX => *node = index as u16,
                    _ => {
                        let bound = format!("each of 0 to {} once", count - 1);
                        return Err(Problem::invalid(format!("CPU {cpu} of node {index}"), bound));
                    }
                }
            }
        }
        if !nodes.iter().any(|node| node.tier == 0 && !node.cpus.is_empty()) {
            return Err(Problem::invalid("0 CPUs on nodes of tier 0", "at least 1 CPU"));
        }
        Ok(Self { nodes, node_of })
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The number of CPUs, from 1 to [`MAX_CPUS`]. They are numbered from 0.
    pub fn cpu_count(&self) -> u16 {
        self.node_of.len() as u16
    }

    /// The node of `cpu`.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn node_of(&self, cpu: u16) -> u16 {
        self.node_of[usize::from(cpu)]
    }

    /// The memory of all nodes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.bytes).sum()
    }

    /// The same with each node's memory times `factor`, in whole pages, with at least one page each.
    ///
    /// # Errors
    /// A factor that is not a finite number above 0, or that gives a node more than 1024 TiB.
    pub fn scaled(&self, factor: f64) -> Result<Self, Problem> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(Problem::invalid(factor, "a finite number above 0"));
        }
        let scale = |bytes: u64| ((bytes as f64 * factor) as u64 / PAGE).max(1) * PAGE;
        let node = |node: &Node| Node { bytes: scale(node.bytes), ..node.clone() };
        Self::new(self.nodes.iter().map(node).collect())
    }

    /// The same with `count` CPUs, spread evenly over the nodes that have any. The first nodes get the remainder.
    /// CPUs are numbered node by node.
    ///
    /// # Errors
    /// A count of 0 or more than [`MAX_CPUS`], or one that leaves no CPU for the nodes of tier 0.
    pub fn with_cpus(&self, count: u32) -> Result<Self, Problem> {
        check_cpus(count as usize)?;
        let count = count as u16;
        let sharing = self.nodes.iter().filter(|node| !node.cpus.is_empty()).count() as u16;
        let (each, rest) = (count / sharing, count % sharing);
        let (mut first, mut place) = (0, 0);
        let mut nodes = self.nodes.clone();
        for node in nodes.iter_mut().filter(|node| !node.cpus.is_empty()) {
            let next = first + each + u16::from(place < rest);
            node.cpus = (first..next).collect();
            (first, place) = (next, place + 1);
        }
        Self::new(nodes)
    }

    /// Reads `[topology]` and adds its numbers to `sources`.
    pub(super) fn read(mut section: Section<'_>, sources: &mut Vec<Parameter>) -> Result<Self, MachineError> {
        let origin = Origin::take(&mut section)?;
        let place = section.place().clone();
        let mut first = 0;
        let mut nodes = Vec::new();
        for entry in section.take("nodes")?.items()? {
            let mut node = entry.section()?;
            let cpus = read_cpus(&node.take("cpus")?, first, &origin, sources)?;
            let tier = match node.take_if_there("tier") {
                Some(entry) => read_number(&entry, u8::MAX.into(), "tier", &origin, sources)? as u8,
                None => 0,
            };
            first += cpus.len() as u16;
            let memory = node.take("memory")?;
            let memory_place = memory.place().clone();
            let bytes = MEMORY.read(memory, sources)?;
            if bytes < PAGE {
                let problem = Problem::invalid(format!("{bytes} B"), format!("at least {PAGE} B"));
                return Err(memory_place.error(problem));
            }
            node.finish()?;
            nodes.push(Node { cpus, bytes: bytes / PAGE * PAGE, tier });
        }
        section.finish()?;
        Self::new(nodes).map_err(|problem| place.error(problem))
    }
}

/// The CPUs of a node, numbered from `first`.
fn read_cpus(
    entry: &Entry<'_>,
    first: u16,
    origin: &Origin,
    sources: &mut Vec<Parameter>,
) -> Result<Vec<u16>, MachineError> {
    let count = read_number(entry, u32::from(MAX_CPUS), "CPUs", origin, sources)?;
    check_most(usize::from(first) + count as usize).map_err(|problem| entry.place().error(problem))?;
    Ok((first..first + count as u16).collect())
}

/// A whole number of a node, from 0 to `most`. Its source and its marks are those of the whole section.
fn read_number(
    entry: &Entry<'_>,
    most: u32,
    unit: &str,
    origin: &Origin,
    sources: &mut Vec<Parameter>,
) -> Result<u32, MachineError> {
    let number = entry.count(0, most)?;
    sources.push(Parameter::new(entry.place().key(), f64::from(number), unit, origin));
    Ok(number)
}

fn check_cpus(count: usize) -> Result<(), Problem> {
    if count == 0 {
        return Err(Problem::invalid("0 CPUs", cpu_bound()));
    }
    check_most(count)
}

fn check_most(count: usize) -> Result<(), Problem> {
    if count > usize::from(MAX_CPUS) {
        return Err(Problem::invalid(format!("{count} CPUs"), cpu_bound()));
    }
    Ok(())
}

fn cpu_bound() -> String {
    format!("1 to {MAX_CPUS} CPUs")
}

/// Reads a tier. At least one node of `topology` must be of it.
pub(super) fn read_tier(entry: &Entry<'_>, topology: &Topology) -> Result<u8, MachineError> {
    let tier = entry.count(0, u8::MAX.into())? as u8;
    if topology.nodes().iter().any(|node| node.tier == tier) {
        return Ok(tier);
    }
    let tiers: BTreeSet<u8> = topology.nodes().iter().map(|node| node.tier).collect();
    let tiers = tiers.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    Err(entry
        .place()
        .error(Problem::invalid(format!("tier {tier}"), format!("the tier of a node, one of {tiers}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn node(cpus: &[u16], bytes: u64) -> Node {
        Node { cpus: cpus.to_vec(), bytes, tier: 0 }
    }

    fn slow(cpus: &[u16], bytes: u64) -> Node {
        Node { tier: 1, ..node(cpus, bytes) }
    }

    fn refused<T: std::fmt::Debug>(result: Result<T, impl ToString>) -> String {
        result.map_err(|error| error.to_string()).expect_err("must be refused")
    }

    fn read(text: &str) -> Result<(Topology, Vec<Parameter>), MachineError> {
        let mut sources = Vec::new();
        let section = parse("f", text).and_then(|mut root| root.take("topology")).and_then(Entry::section)?;
        Ok((Topology::read(section, &mut sources)?, sources))
    }

    #[test]
    fn every_cpu_has_a_node() {
        let topology =
            Topology::new(vec![node(&[2, 0], PAGE), node(&[], PAGE), node(&[1], PAGE)]).expect("valid");
        assert_eq!((0..topology.cpu_count()).map(|cpu| topology.node_of(cpu)).collect::<Vec<_>>(), [0, 2, 0]);
        assert_eq!(topology.nodes()[0].cpus, [0, 2]);
        assert_eq!(topology.bytes(), 3 * PAGE);
    }

    #[test]
    fn impossible_machines_are_refused() {
        for (nodes, expected) in [
            (vec![], "0 nodes: must be 1 to 1024 nodes"),
            (vec![node(&[], PAGE)], "0 CPUs: must be 1 to 8192 CPUs"),
            (vec![node(&[0], 0)], "0 B of memory of node 0: must be 4096 to 1125899906842624 B"),
            (
                vec![node(&[0], u64::MAX)],
                "18446744073709551615 B of memory of node 0: must be 4096 to 1125899906842624 B",
            ),
            (vec![node(&[0, 0], PAGE)], "CPU 0 of node 0: must be each of 0 to 1 once"),
            (vec![node(&[0], PAGE), node(&[2], PAGE)], "CPU 2 of node 1: must be each of 0 to 1 once"),
            (vec![slow(&[0], PAGE), node(&[], PAGE)], "0 CPUs on nodes of tier 0: must be at least 1 CPU"),
            (vec![node(&(0..=8192).collect::<Vec<_>>(), PAGE)], "8193 CPUs: must be 1 to 8192 CPUs"),
        ] {
            assert_eq!(refused(Topology::new(nodes)), expected);
        }
        assert_eq!(
            refused(Topology::new(vec![node(&[], PAGE); 1025])),
            "1025 nodes: must be 1 to 1024 nodes"
        );
    }

    #[test]
    fn cpus_are_spread_over_the_nodes_that_have_any() {
        let topology =
            Topology::new(vec![node(&[0], PAGE), node(&[], PAGE), node(&[1], PAGE)]).expect("valid");
        let cpus = |count| {
            let topology = topology.with_cpus(count).expect("allowed");
            topology.nodes().iter().map(|node| node.cpus.clone()).collect::<Vec<_>>()
        };
        assert_eq!(cpus(5), [vec![0, 1, 2], vec![], vec![3, 4]]);
        assert_eq!(cpus(1), [vec![0], vec![], vec![]]);
        assert_eq!(cpus(8192)[2].last(), Some(&8191));
        assert_eq!(refused(topology.with_cpus(0)), "0 CPUs: must be 1 to 8192 CPUs");
        assert_eq!(refused(topology.with_cpus(u32::MAX)), "4294967295 CPUs: must be 1 to 8192 CPUs");
    }

    #[test]
    fn memory_is_scaled_in_whole_pages() {
        let topology = Topology::new(vec![node(&[0], 10 * PAGE), node(&[1], PAGE)]).expect("valid");
        let bytes = |factor| {
            topology.scaled(factor).expect("allowed").nodes().iter().map(|n| n.bytes).collect::<Vec<_>>()
        };
        assert_eq!(bytes(0.25), [2 * PAGE, PAGE]);
        assert_eq!(bytes(2.0), [20 * PAGE, 2 * PAGE]);
        assert!(refused(topology.scaled(1e300)).ends_with("must be 4096 to 1125899906842624 B"));
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                refused(topology.scaled(factor)),
                format!("{factor}: must be a finite number above 0")
            );
        }
    }

    #[test]
    fn slow_memory_stays_slow_and_without_cpus() {
        let topology = Topology::new(vec![node(&[0], PAGE), slow(&[], 4 * PAGE)]).expect("valid");
        let changed = topology.with_cpus(3).and_then(|topology| topology.scaled(0.5)).expect("allowed");
        assert_eq!(changed.nodes(), [node(&[0, 1, 2], PAGE), slow(&[], 2 * PAGE)]);
    }

    #[test]
    fn a_choice_that_leaves_the_fast_nodes_without_a_cpu_is_refused() {
        let topology = Topology::new(vec![slow(&[0], PAGE), node(&[1], PAGE)]).expect("valid");
        assert_eq!(refused(topology.with_cpus(1)), "0 CPUs on nodes of tier 0: must be at least 1 CPU");
    }

    #[test]
    fn the_tier_of_a_node_is_read() {
        let (topology, sources) = read(
            "[topology]\nsource = 's'\nnodes = [\n{ cpus = 1, memory = { value = 1, unit = 'GiB', source = 'm' } },\n\
             { cpus = 0, tier = 255, memory = { value = 1, unit = 'GiB', source = 'm' } } ]",
        )
        .expect("valid");
        assert_eq!(topology.nodes().iter().map(|node| node.tier).collect::<Vec<_>>(), [0, 255]);
        let tier =
            sources.iter().find(|parameter| parameter.key == "topology.nodes[1].tier").expect("stated");
        assert_eq!((tier.value as u32, tier.source.as_str()), (255, "s"));
    }

    #[test]
    fn nodes_are_read_in_order() {
        let (topology, sources) = read(
            "[topology]\nsource = 's'\nnodes = [\n{ cpus = 2, memory = { value = 1, unit = 'GiB', source = 'm' } },\n\
             { cpus = 0, memory = { value = 2, unit = 'GiB', source = 'm' } } ]",
        )
        .expect("valid");
        assert_eq!(topology.nodes(), [node(&[0, 1], 1 << 30), node(&[], 2 << 30)]);
        let keys: Vec<_> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "topology.nodes[0].cpus",
                "topology.nodes[0].memory",
                "topology.nodes[1].cpus",
                "topology.nodes[1].memory"
            ]
        );
    }

    #[test]
    fn bad_sections_are_refused() {
        let memory = "memory = { value = 1, unit = 'GiB', source = 'm' }";
        for (nodes, expected) in [
            ("[]".to_owned(), "f:1: topology: 0 nodes: must be 1 to 1024 nodes"),
            (format!("[{{ cpus = 0, {memory} }}]"), "f:1: topology: 0 CPUs: must be 1 to 8192 CPUs"),
            (format!("[{{ cpus = -1, {memory} }}]"), "f:3: topology.nodes[0].cpus: -1: must be 0 to 8192"),
            (
                format!("[{{ cpus = 8000, {memory} }},\n{{ cpus = 193, {memory} }}]"),
                "f:4: topology.nodes[1].cpus: 8193 CPUs: must be 1 to 8192 CPUs",
            ),
            (
                format!("[{{ cpus = 1, tier = 256, {memory} }}]"),
                "f:3: topology.nodes[0].tier: 256: must be 0 to 255",
            ),
            (
                format!("[{{ cpus = 1, tier = 1, {memory} }}]"),
                "f:1: topology: 0 CPUs on nodes of tier 0: must be at least 1 CPU",
            ),
            ("[{ cpus = 1 }]".to_owned(), "f:3: topology.nodes[0].memory: missing"),
            (
                "[{ cpus = 1, memory = { value = 0, unit = 'GiB', source = 'm' } }]".to_owned(),
                "f:3: topology.nodes[0].memory: 0 B: must be at least 4096 B",
            ),
            (format!("[{{ cpus = 1, {memory}, x = 1 }}]"), "f:3: topology.nodes[0].x: unknown key"),
            ("3".to_owned(), "f:3: topology.nodes: expected a list, found a whole number"),
        ] {
            assert_eq!(refused(read(&format!("[topology]\nsource = 's'\nnodes = {nodes}"))), expected);
        }
        assert_eq!(refused(read("[topology]\nnodes = []")), "f:1: topology.source: missing");
    }
}
