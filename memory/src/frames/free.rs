//! Freeing frames: back to the CPU's lists, and from there to the nodes' buddy allocators.
//!
//! Debt-free and owing frames go the same way, on separate lists. A CPU keeps debt-free frames for its next
//! allocations. Of owing frames it keeps no more than it moves at a time, because other CPUs may need them first. A
//! frame counts as [freed](Event::FrameFreed) once it is debt-free. Until then its bytes do not change, and nothing
//! else touches them.

use ceasefire::{Owed, Stamp};

use crate::address::{FrameNumber, HUGE_ORDER};
use crate::frames::allocate::{PerCpuFrames, REFILL};
use crate::frames::frame::{Frame, HugeFrame};
use crate::frames::node::NodeId;
use crate::locks::Lock;
use crate::machine::{Event, Machine, Work};
use crate::Memory;

/// The most debt-free frames of one node that a CPU keeps (Linux: `pcp->high`, six batches).
const KEEP: u32 = 6 * REFILL;

impl<P: Machine> Memory<P> {
    /// Gives back a debt-free frame. Allowed in every context, as [`Memory::allocate_atomic`].
    pub fn free(&self, frame: Frame) {
        let platform = self.platform();
        self.take_back(frame.number(), 1);
        platform.observe(Event::FrameFreed(frame.number()));
        let node = self.frames.get(frame.number()).node();
        platform.pinned(|| {
            let mut kept = self.per_cpu_frames[self.per_cpu_index(node)].lock(platform);
            kept.settled.push_front(&self.frames, frame.into_number());
            platform.work(Work::FrameFree, 1);
            if kept.settled.len() > KEEP {
                self.drain(node, &mut kept, REFILL);
            }
        });
    }

    /// Gives back a frame that CPUs may still reach. It is handed out again once they cannot. Never waits.
    pub fn free_owed(&self, frame: Owed<Frame>) {
        let mut stamp = Stamp::SETTLED;
        let frame = match self.engine.redeem(frame) {
            Ok(frame) => return self.free(frame),
            Err(owed) => owed.leave_in(&mut stamp),
        };
        let platform = self.platform();
        self.take_back(frame.number(), 1);
        let info = self.frames.get(frame.number());
        let node = info.node();
        platform.pinned(|| {
            let mut kept = self.per_cpu_frames[self.per_cpu_index(node)].lock(platform);
            info.set_stamp(stamp);
            kept.owing.push_back(&self.frames, frame.into_number());
            platform.work(Work::FrameFree, 1);
            if kept.owing.len() >= REFILL {
                self.drain_owing(node, &mut kept);
            }
        });
    }

    /// Gives back 512 neighbouring frames.
    pub(crate) fn free_huge(&self, frame: HugeFrame) {
        self.free_huge_owed(Owed::settled(frame));
    }

    /// Gives back 512 neighbouring frames that CPUs may still reach.
    pub(crate) fn free_huge_owed(&self, frame: Owed<HugeFrame>) {
        self.free_block(frame.map(|frame| Frame::owned(frame.into_number())), HUGE_ORDER);
    }

    /// Gives back a block of 2^`order` frames, by its first.
    pub(crate) fn free_block(&self, block: Owed<Frame>, order: u32) {
        self.take_back(block.get().number(), 1 << order);
        let block = match self.engine.redeem(block) {
            Ok(first) => {
                self.freed(first.number(), order);
                Owed::settled(first)
            }
            Err(owed) => owed,
        };
        let state = &self.nodes[self.frames.get(block.get().number()).node().index()];
        let mut zone = state.zone.lock(self.platform());
        if block.stamp() == Stamp::SETTLED {
            state.got(1 << order);
        } else {
            state.owes(1 << order, || self.platform().now());
        }
        zone.free_owed(&self.frames, block, order);
        self.platform().work(Work::Buddy, 1);
    }

    /// No CPU may reach the 2^`order` frames from `first` on any more.
    pub(crate) fn freed(&self, first: FrameNumber, order: u32) {
        for number in first.get()..first.get() + (1 << order) {
            self.platform().observe(Event::FrameFreed(FrameNumber::new(number)));
        }
    }

    /// Drops a counted reference, and frees the frame if it was the last.
    pub(crate) fn put(&self, number: FrameNumber) {
        if self.put_unlisted(number) {
            self.unlist(number);
            self.free_orphan(number);
        }
    }

    /// The same, for a page on no list. Returns whether the page was the last holder's and is on a list: the caller takes
    /// it off, and frees it.
    #[must_use = "the frame is to be freed"]
    pub(crate) fn put_unlisted(&self, number: FrameNumber) -> bool {
        let info = self.frames.get(number);
        match info.release() {
            0 if info.lru().listed() => return true,
            0 => self.free_orphan(number),
            // Perhaps only the swap device's cache is left, and no entry leads there.
            1 if info.slot().is_some() => self.forget_swapped(number),
            _ => {}
        }
        false
    }

    /// Frees a page without holders that is on no list.
    pub(crate) fn free_orphan(&self, number: FrameNumber) {
        let info = self.frames.get(number);
        info.orphan();
        if info.huge() {
            info.set_huge(false);
            self.free_huge(HugeFrame::owned(number));
        } else {
            self.free(Frame::owned(number));
        }
    }

    /// Moves up to `count` debt-free frames from a CPU's list to the node.
    fn drain(&self, node: NodeId, kept: &mut PerCpuFrames, count: u32) {
        let state = &self.nodes[node.index()];
        let mut zone = state.zone.lock(self.platform());
        let mut moved = 0;
        while moved < count {
            // The frame that was listed longest: the frame freed last is warm in the cache.
            let Some(number) = kept.settled.pop_back(&self.frames) else { break };
            zone.free(&self.frames, Frame::owned(number), 0);
            moved += 1;
        }
        state.got(moved);
        self.platform().work(Work::Buddy, moved);
    }

    /// Moves all owing frames from a CPU's list to the node, each with its stamp.
    fn drain_owing(&self, node: NodeId, kept: &mut PerCpuFrames) {
        let state = &self.nodes[node.index()];
        let mut zone = state.zone.lock(self.platform());
        let mut moved = 0;
        while let Some(number) = kept.owing.pop_front(&self.frames) {
            let info = self.frames.get(number);
            let stamp = info.stamp();
            info.set_stamp(Stamp::SETTLED);
            zone.free_owed(&self.frames, Owed::new(Frame::owned(number), stamp), 0);
            moved += 1;
        }
        state.owes(moved, || self.platform().now());
        self.platform().work(Work::Buddy, moved);
    }

    /// Moves the frames on all CPUs' lists to the nodes.
    pub(crate) fn drain_all(&self) {
        for (index, kept) in self.per_cpu_frames.iter().enumerate() {
            let node = NodeId((index % self.nodes.len()) as u16);
            let mut kept = kept.lock(self.platform());
            self.drain(node, &mut kept, u32::MAX);
            self.drain_owing(node, &mut kept);
        }
    }
}
