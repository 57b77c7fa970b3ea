//! The cost of copying a page, from tier to tier.

use serde::Serialize;

use super::quantity::{Parameter, Picoseconds, TIME};
use super::topology::{read_tier, Topology};
use super::MachineError;
use crate::document::{Entry, Section};

/// The cost of copying one page of 4 KiB from a node of one tier to a node of another or of the same tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CopyCost {
    /// The tier of the source.
    pub from: u8,
    /// The tier of the destination.
    pub to: u8,
    /// The cost within one node, if it is given; never given if the tiers differ.
    pub same_node: Option<Picoseconds>,
    /// The cost between two nodes, if it is given; always given if the tiers differ.
    pub other_node: Option<Picoseconds>,
}

impl CopyCost {
    /// Reads the list `copy`, which gives each pair of tiers at most once, and adds its numbers to `sources`.
    pub(super) fn read_all(
        entry: Entry<'_>,
        topology: &Topology,
        sources: &mut Vec<Parameter>,
    ) -> Result<Vec<Self>, MachineError> {
        entry.each(
            |section| Self::read(section, topology, sources),
            |cost| format!("tier {} to tier {}", cost.from, cost.to),
        )
    }

    fn read(
        mut section: Section<'_>,
        topology: &Topology,
        sources: &mut Vec<Parameter>,
    ) -> Result<Self, MachineError> {
        let from = read_tier(&section.take("from")?, topology)?;
        let to = read_tier(&section.take("to")?, topology)?;
        let mut read = |entry: Option<Entry<'_>>| entry.map(|entry| TIME.read(entry, sources)).transpose();
        let same_node = if from == to { read(section.take_if_there("same_node"))? } else { None };
        let other_node = if same_node.is_some() {
            read(section.take_if_there("other_node"))?
        } else {
            read(Some(section.take("other_node")?))?
        };
        section.finish()?;
        Ok(Self { from, to, same_node, other_node })
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Node;
    use super::*;
    use crate::document::parse;

    const COST: &str = "{ value = 500, unit = 'ns', source = 's' }";

    /// Two nodes of tier 0 and one of tier 2.
    fn read(items: &str) -> Result<(Vec<CopyCost>, Vec<Parameter>), String> {
        let node = |cpus: &[u16], tier| Node { cpus: cpus.to_vec(), bytes: 4096, tier };
        let nodes = vec![node(&[0], 0), node(&[1], 0), node(&[], 2)];
        let topology = Topology::new(nodes).expect("valid");
        let mut sources = Vec::new();
        let text = format!("copy = [\n{items}]");
        let costs = parse("f", &text)
            .and_then(|mut root| CopyCost::read_all(root.take("copy")?, &topology, &mut sources));
        costs.map(|costs| (costs, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn costs_within_and_between_nodes_are_read() {
        let (costs, sources) = read(&format!(
            "{{ from = 0, to = 0, same_node = {COST}, other_node = {COST} }},\n\
             {{ from = 0, to = 2, other_node = {COST} }},\n\
             {{ from = 2, to = 2, same_node = {COST} }}"
        ))
        .expect("valid");
        let given = Some(500_000);
        assert_eq!(
            costs,
            [
                CopyCost { from: 0, to: 0, same_node: given, other_node: given },
                CopyCost { from: 0, to: 2, same_node: None, other_node: given },
                CopyCost { from: 2, to: 2, same_node: given, other_node: None },
            ]
        );
        let keys: Vec<_> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(
            keys,
            ["copy[0].same_node", "copy[0].other_node", "copy[1].other_node", "copy[2].same_node"]
        );
    }

    #[test]
    fn bad_costs_are_refused() {
        for (items, expected) in [
            (
                format!("{{ from = 1, to = 0, other_node = {COST} }}"),
                "f:2: copy[0].from: tier 1: must be the tier of a node, one of 0, 2",
            ),
            (
                format!("{{ from = 0, to = 3, other_node = {COST} }}"),
                "f:2: copy[0].to: tier 3: must be the tier of a node, one of 0, 2",
            ),
            (
                format!("{{ from = 0, to = 256, other_node = {COST} }}"),
                "f:2: copy[0].to: 256: must be 0 to 255",
            ),
            ("{ from = 0, to = 2 }".to_owned(), "f:2: copy[0].other_node: missing"),
            ("{ from = 0, to = 0 }".to_owned(), "f:2: copy[0].other_node: missing"),
            (
                format!("{{ from = 0, to = 2, other_node = {COST}, same_node = {COST} }}"),
                "f:2: copy[0].same_node: unknown key",
            ),
            (
                format!("{{ from = 0, to = 2, other_node = {COST} }},\n{{ from = 0, to = 2, other_node = {COST} }}"),
                "f:3: copy[1]: tier 0 to tier 2 again: must be given only once",
            ),
            ("{ to = 0 }".to_owned(), "f:2: copy[0].from: missing"),
            ("3".to_owned(), "f:2: copy[0]: expected a table, found a whole number"),
        ] {
            assert_eq!(read(&items).expect_err("must be refused"), expected);
        }
    }
}
