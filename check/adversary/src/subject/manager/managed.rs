//! The memory manager as the platform sees it: its spaces, the locks that each CPU holds, the calls that it makes.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::Root;
use ceasefire_memory::{HeldLocks, NodeId, SpaceHandle, PAGE_SHIFT};

use super::record::Record;
use crate::hardware::frame::Allocation;
use crate::hardware::platform::{Adverse, System};
use crate::hardware::Hardware;

/// The memory manager as the platform sees it.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) record: Rc<Record>,
    held: Vec<HeldLocks>,
    /// For each CPU, when its last call began.
    began: Vec<Cell<u64>>,
    pub(super) nodes: u32,
    /// The nodes whose background reclaim was woken.
    woken: Cell<u64>,
    /// For each frame, how often the tasks that wait for it were woken.
    pub(super) ready: Vec<Cell<u64>>,
}

impl Managed {
    pub(crate) fn new(record: Rc<Record>, cpus: usize, nodes: usize, frames: usize) -> Self {
        Self {
            record,
            held: (0..cpus).map(|_| HeldLocks::new()).collect(),
            began: vec![Cell::new(0); cpus],
            nodes: nodes as u32,
            woken: Cell::new(0),
            ready: vec![Cell::new(0); frames],
        }
    }
}

impl System for Managed {
    type Space = SpaceHandle<Adverse<Self>>;

    const KERNEL_BASE: u64 = 0;

    fn root(hardware: &Hardware, root: Root) -> (u32, Allocation) {
        let frame = frame_of(root);
        (frame, hardware.allocation(frame))
    }
}

/// The frame of a root.
pub(super) fn frame_of(root: Root) -> u32 {
    (root.0 >> PAGE_SHIFT) as u32
}

impl Adverse<Managed> {
    /// The locks that this CPU holds.
    pub(super) fn held(&self) -> &HeldLocks {
        &self.system.held[self.hardware.me()]
    }

    /// A call begins on this CPU.
    pub(super) fn begins(&self) {
        self.system.began[self.hardware.me()].set(self.hardware.tick());
    }

    /// When the call that this CPU makes began.
    pub(super) fn began(&self) -> u64 {
        self.system.began[self.hardware.me()].get()
    }

    /// Background reclaim of a node is woken.
    pub(super) fn wakes(&self, NodeId(node): NodeId) {
        self.system.woken.set(self.system.woken.get() | 1 << node);
    }

    /// A node whose background reclaim was woken since the last call.
    pub(super) fn take_woken(&self) -> Option<NodeId> {
        let woken = self.system.woken.get();
        let node = (0..self.system.nodes as u16).find(|node| woken >> node & 1 != 0)?;
        self.system.woken.set(woken & !(1 << node));
        Some(NodeId(node))
    }
}
