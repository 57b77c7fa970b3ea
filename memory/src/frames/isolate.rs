//! Free frames for uses other than pages: reported to a host, taken offline, moved out of the way.
//!
//! No free frame may be discarded or given away while CPUs may still read it: a host that is told of a free frame
//! throws its bytes away, and a CPU with an old entry would see that. So all such uses go through one function.
//! [`Memory::isolate_free`] takes a block out of the allocator and settles its debt before the caller gets it. No CPU
//! can reach the block until it is put back.

use core::fmt;

use alloc::vec::Vec;

use ceasefire::{Owed, Stamp};

use crate::address::FrameNumber;
use crate::frames::buddy::ORDERS;
use crate::frames::frame::Frame;
use crate::frames::node::NodeId;
use crate::locks::Lock;
use crate::machine::Machine;
use crate::Memory;

/// Neighbouring free frames, aligned to their number, that are out of the allocator and out of reach of every CPU.
#[must_use = "frames that are not put back are lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct FreeBlock {
    first: Frame,
    order: u32,
}

impl FreeBlock {
    /// The first of its frames.
    pub fn first(&self) -> FrameNumber {
        self.first.number()
    }

    /// The block has 2^`order` frames.
    pub fn order(&self) -> u32 {
        self.order
    }
}

/// The reason why a frame cannot be taken offline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfflineError {
    /// The machine has no such frame.
    NoSuchFrame {
        /// The number asked for.
        frame: FrameNumber,
        /// The first frame of the machine.
        first: FrameNumber,
        /// The number of its frames.
        frames: u32,
    },
    /// The frame is not free.
    InUse(FrameNumber),
}

impl fmt::Display for OfflineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchFrame { frame, first, frames } => {
                write!(f, "there is no {frame:?}: {frames} frames from {first:?} on")
            }
            Self::InUse(frame) => write!(f, "{frame:?} is in use"),
        }
    }
}

impl core::error::Error for OfflineError {}

impl<P: Machine> Memory<P> {
    /// Takes a block of 2^`order` free frames of a node out of the allocator, if there is one and the node keeps its
    /// low watermark. The block's debt is paid first, so interrupts must be on, and no lock may be held that is held
    /// with interrupts off. It also returns `None` if there is no such node, and for blocks larger than the
    /// allocator's.
    ///
    /// [`Memory::put_back_free`] takes the block back.
    pub fn isolate_free(&self, node: NodeId, order: u32) -> Option<FreeBlock> {
        let state = self.nodes.get(node.index())?;
        if order >= ORDERS || state.free() < state.watermarks.low.saturating_add(1 << order) {
            return None;
        }
        let taken = {
            let mut zone = state.zone.lock(self.platform());
            self.mature_zone(state, &mut zone, 1 << order);
            let spare = state.spare(state.watermarks.low, state.limits.reserve);
            let settled = (spare >= 1 << order)
                .then(|| zone.allocate(&self.frames, order))
                .flatten()
                .map(Owed::settled);
            let taken = settled.or_else(|| zone.allocate_owing(&self.frames, order))?;
            self.count_isolated(node, &taken, order);
            taken
        };
        Some(self.settle_isolated(taken, order))
    }

    /// Gives a block back to the allocator.
    pub fn put_back_free(&self, block: FreeBlock) {
        self.free_block(Owed::settled(block.first), block.order);
    }

    /// Reports the free blocks of 2^`order` frames of a node above its low watermark; returns their number. `report`
    /// gets the first frame and the order of each. No CPU can reach the blocks and no other task has them while it
    /// runs, so their bytes may be thrown away. (Linux: free page reporting, which gives them to a hypervisor.)
    ///
    /// Interrupts must be on, as for [`Memory::isolate_free`].
    pub fn report_free(&self, node: NodeId, order: u32, report: &mut dyn FnMut(FrameNumber, u32)) -> usize {
        // All blocks are taken before any is put back, so none is reported twice.
        let blocks: Vec<FreeBlock> = core::iter::from_fn(|| self.isolate_free(node, order)).collect();
        let count = blocks.len();
        for block in blocks {
            report(block.first(), order);
            self.put_back_free(block);
        }
        count
    }

    /// Takes a free frame away for good, out of any block that contains it: its memory fails, or is to be unplugged.
    /// Its debt is paid before this returns. Interrupts must be on, as for [`Memory::isolate_free`].
    ///
    /// # Errors
    /// [`OfflineError`]; then the frame stays as it is.
    pub fn take_offline(&self, frame: FrameNumber) -> Result<(), OfflineError> {
        let (first, frames) =
            (self.config.first_frame, self.config.nodes.iter().map(|node| node.frames).sum());
        if frame < first || frame.get() - first.get() >= frames {
            return Err(OfflineError::NoSuchFrame { frame, first, frames });
        }
        // The frame may be on a CPU's list (Linux: `drain_all_pages`).
        self.drain_all();
        let node = self.frames.get(frame).node();
        let taken = {
            let mut zone = self.nodes[node.index()].zone.lock(self.platform());
            let taken = zone.take(&self.frames, frame).ok_or(OfflineError::InUse(frame))?;
            self.count_isolated(node, &taken, 0);
            taken
        };
        let FreeBlock { first: gone, .. } = self.settle_isolated(taken, 0);
        self.frames.get(gone.into_number()).adopt_reserved();
        Ok(())
    }

    /// Counts a block that left the zone, whose lock is held.
    fn count_isolated(&self, node: NodeId, taken: &Owed<Frame>, order: u32) {
        let state = &self.nodes[node.index()];
        if taken.stamp() == Stamp::SETTLED {
            state.took(1 << order, || self.platform().now());
        } else {
            state.took_owing(1 << order);
        }
    }

    /// Pays the debt of a block. Until it is paid, only this task can reach the block.
    fn settle_isolated(&self, taken: Owed<Frame>, order: u32) -> FreeBlock {
        let owed = taken.stamp() != Stamp::SETTLED;
        let first = self.engine.pay(taken);
        if owed {
            self.freed(first.number(), order);
        }
        for number in first.number().get()..first.number().get() + (1 << order) {
            self.hand_out(FrameNumber::new(number));
        }
        FreeBlock { first, order }
    }
}
