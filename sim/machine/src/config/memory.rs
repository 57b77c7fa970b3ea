//! The memory of a tier as its distance and its bandwidth limit it.

use ceasefire_memory::PAGE_BYTES;

use serde::Serialize;

use super::quantity::{Parameter, Picoseconds, RATE, TIME};
use super::topology::{read_tier, Topology};
use super::{MachineError, Problem};
use crate::document::{Entry, Section};

const SECOND: u64 = 1_000_000_000_000;

/// The memory of every node of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TierMemory {
    /// The tier.
    pub tier: u8,
    /// The time in which the page walker of a CPU on another node reads a page-table entry from there. `None`: as fast
    /// as on the CPU's own node.
    pub far_walk: Option<Picoseconds>,
    /// The time for which reading or writing a page of 4 KiB keeps a node's memory busy. `None`: no limit.
    pub page: Option<Picoseconds>,
}

impl TierMemory {
    /// Reads the list `memory`, which gives each tier at most once, and adds its numbers to `sources`.
    pub(super) fn read_all(
        entry: Entry<'_>,
        topology: &Topology,
        sources: &mut Vec<Parameter>,
    ) -> Result<Vec<Self>, MachineError> {
        entry.each(|section| Self::read(section, topology, sources), |memory| format!("tier {}", memory.tier))
    }

    fn read(
        mut section: Section<'_>,
        topology: &Topology,
        sources: &mut Vec<Parameter>,
    ) -> Result<Self, MachineError> {
        let tier = read_tier(&section.take("tier")?, topology)?;
        let far_walk =
            section.take_if_there("far_walk").map(|entry| TIME.read(entry, sources)).transpose()?;
        let page = match section.take_if_there("bandwidth") {
            Some(entry) => {
                let place = entry.place().clone();
                let rate = RATE.read(entry, sources)?;
                let page = (PAGE_BYTES * SECOND).checked_div(rate);
                Some(page.ok_or_else(|| place.error(Problem::invalid("0 B/s", "above 0")))?)
            }
            None => None,
        };
        section.finish()?;
        Ok(Self { tier, far_walk, page })
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Node;
    use super::*;
    use crate::document::parse;

    /// Two nodes of tier 0 and one of tier 2.
    fn read(items: &str) -> Result<(Vec<TierMemory>, Vec<Parameter>), String> {
        let node = |cpus: &[u16], tier| Node { cpus: cpus.to_vec(), bytes: 4096, tier };
        let nodes = vec![node(&[0], 0), node(&[1], 0), node(&[], 2)];
        let topology = Topology::new(nodes).expect("valid");
        let mut sources = Vec::new();
        let text = format!("memory = [\n{items}]");
        let memory = parse("f", &text)
            .and_then(|mut root| TierMemory::read_all(root.take("memory")?, &topology, &mut sources));
        memory.map(|memory| (memory, sources)).map_err(|error| error.to_string())
    }

    const WALK: &str = "far_walk = { value = 140, unit = 'ns', source = 's' }";
    const RATE: &str = "bandwidth = { value = 4, unit = 'GiB/s', source = 's' }";

    #[test]
    fn each_tier_has_its_own_memory() {
        let (memory, sources) =
            read(&format!("{{ tier = 0, {WALK} }},\n{{ tier = 2, {RATE} }}")).expect("valid");
        assert_eq!(
            memory,
            [
                TierMemory { tier: 0, far_walk: Some(140_000), page: None },
                TierMemory { tier: 2, far_walk: None, page: Some(953_674) },
            ]
        );
        let keys: Vec<_> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(keys, ["memory[0].far_walk", "memory[1].bandwidth"]);
    }

    #[test]
    fn impossible_memory_is_refused() {
        for (items, expected) in [
            (
                format!("{{ tier = 1, {WALK} }}"),
                "f:2: memory[0].tier: tier 1: must be the tier of a node, one of 0, 2",
            ),
            (
                format!("{{ tier = 0, {WALK} }},\n{{ tier = 0, {RATE} }}"),
                "f:3: memory[1]: tier 0 again: must be given only once",
            ),
            (
                "{ tier = 0, bandwidth = { value = 0, unit = 'GB/s', source = 's' } }".to_owned(),
                "f:2: memory[0].bandwidth: 0 B/s: must be above 0",
            ),
            ("{ tier = 0, x = 1 }".to_owned(), "f:2: memory[0].x: unknown key"),
        ] {
            assert_eq!(read(&items).expect_err("must be refused"), expected);
        }
    }
}
