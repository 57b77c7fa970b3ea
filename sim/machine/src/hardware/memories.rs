//! The memory of the nodes: its place, its distance and its bandwidth.

use std::cell::Cell;

use ceasefire_memory::{FrameNumber, PAGE_BYTES};

use crate::config::{Machine, Picoseconds};

/// The memory of one node.
#[derive(Debug)]
struct Memory {
    /// The first frame after it.
    end: u32,
    /// The time in which a page walker of another node reads an entry from it.
    far_walk: Picoseconds,
    /// The time for which reading or writing a page keeps it busy; 0 for no limit.
    page: Picoseconds,
    /// The time at which it has done all reads and writes so far.
    free_at: Cell<Picoseconds>,
}

/// The memory of all nodes, in order.
#[derive(Debug)]
pub(crate) struct Memories {
    nodes: Box<[Memory]>,
    near_walk: Picoseconds,
}

impl Memories {
    pub(crate) fn new(machine: &Machine) -> Self {
        let mut end = 0;
        let near_walk = machine.costs.walk_memory;
        let nodes = machine.topology.nodes().iter().map(|node| {
            end += (node.bytes / PAGE_BYTES) as u32;
            let tier = machine.memory.iter().find(|memory| memory.tier == node.tier);
            Memory {
                end,
                far_walk: tier.and_then(|tier| tier.far_walk).unwrap_or(near_walk),
                page: tier.and_then(|tier| tier.page).unwrap_or(0),
                free_at: Cell::new(0),
            }
        });
        Self { nodes: nodes.collect(), near_walk }
    }

    /// The node to which a frame belongs.
    pub(crate) fn node_of(&self, frame: FrameNumber) -> u16 {
        self.nodes.partition_point(|node| node.end <= frame.get()) as u16
    }

    /// The time in which the page walker of a CPU on `node` reads an entry of the table in `frame` from memory.
    pub(crate) fn walk(&self, node: u16, frame: FrameNumber) -> Picoseconds {
        let home = self.node_of(frame);
        if home == node {
            self.near_walk
        } else {
            self.nodes[usize::from(home)].far_walk
        }
    }

    /// Reads or writes `pages` of a node, from `time` on. Returns the time at which the memory has done it, after all
    /// that it was asked for before.
    pub(crate) fn stream(&self, node: u16, pages: u64, time: Picoseconds) -> Picoseconds {
        let memory = &self.nodes[usize::from(node)];
        if memory.page == 0 {
            return time;
        }
        let done = memory.free_at.get().max(time) + memory.page * pages;
        memory.free_at.set(done);
        done
    }
}
