//! Frames in and out: per-CPU lists in front of the nodes' buddy allocators, and what happens when they run dry.
//!
//! An allocation takes the nearest node that has more than its low watermark. When none has, every node's background
//! reclaim is woken, and the allocation may go down to the minimum; below that it reclaims itself until it finds a
//! frame. Frames move between the lists and the buddy allocator in batches, so the zone lock is taken once for many.

use core::fmt;

use ceasefire::Lock;

use crate::frame::{huge_frames, Frame, HugeFrame, HUGE_FRAMES, HUGE_ORDER};
use crate::list::List;
use crate::machine::{Event, Machine, Work};
use crate::node::{Node, NodeId};
use crate::reclaim::Patience;
use crate::{FrameNumber, Memory};

/// Frames moved to or from the buddy allocator at a time (Linux: `pcp->batch`, 31 on large machines).
const REFILL: u32 = 31;
/// Frames that a CPU keeps of one node at most (Linux: `pcp->high`, six batches).
const KEEP: u32 = 6 * REFILL;

/// There is no free frame, and nothing that could be reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory: no frame is free and none can be reclaimed")
    }
}

/// The free frames of one node that one CPU keeps.
#[derive(Debug, Default)]
pub(crate) struct PerCpuFrames(List);

impl PerCpuFrames {
    pub(crate) fn len(&self) -> u32 {
        self.0.len()
    }
}

impl<P: Machine> Memory<P> {
    /// A frame from as near to `home` as there is, reclaiming if need be. No lock above the table lock may be held.
    pub(crate) fn allocate(&self, home: NodeId) -> Result<Frame, OutOfMemory> {
        let frame = self.allocate_above(home, |node| node.watermarks.low).or_else(|| {
            self.wake_all();
            self.allocate_above(home, |node| node.watermarks.min)
        });
        let frame = match frame {
            Some(frame) => frame,
            None => self.allocate_slowly(home)?,
        };
        self.platform().observe(Event::FrameAllocated(frame.number()));
        Ok(frame)
    }

    /// Reclaims until there is a frame.
    #[cold]
    fn allocate_slowly(&self, home: NodeId) -> Result<Frame, OutOfMemory> {
        let mut patience = Patience::new(self.config.nodes.iter().map(|node| u64::from(node.frames)).sum());
        while !patience.is_over() {
            // A batch from every node, as Linux does (`shrink_zones`): whoever runs out helps all that are low.
            for &node in &self.fallback[home.index()] {
                patience.note(self.shrink(node));
            }
            if let Some(frame) = self.allocate_above(home, |node| node.watermarks.min) {
                return Ok(frame);
            }
            self.platform().reschedule();
        }
        // What other CPUs keep for themselves, and at last the reserve below the minimum.
        self.drain_all();
        self.allocate_above(home, |_| 0).ok_or(OutOfMemory)
    }

    /// A frame of the nearest node that has more than `mark`.
    fn allocate_above(&self, home: NodeId, mark: impl Fn(&Node<P>) -> u32) -> Option<Frame> {
        let mut nodes = self.fallback[home.index()].iter();
        nodes.find_map(|&node| self.allocate_from(node, mark(&self.nodes[node.index()])))
    }

    /// A frame of `node`, leaving at least `mark` to the buddy allocator.
    fn allocate_from(&self, node: NodeId, mark: u32) -> Option<Frame> {
        let platform = self.platform();
        platform.pinned(|| {
            let mut kept = self.per_cpu_frames[self.per_cpu_index(node)].lock(platform);
            let number = if let Some(number) = kept.0.pop_front(&self.frames) {
                number
            } else {
                self.refill(node, mark, &mut kept)?;
                kept.0.pop_front(&self.frames)?
            };
            platform.work(Work::FrameAllocate, 1);
            Some(Frame::owned(number))
        })
    }

    fn refill(&self, node: NodeId, mark: u32, kept: &mut PerCpuFrames) -> Option<()> {
        let node = &self.nodes[node.index()];
        let spare = node.free().checked_sub(mark).filter(|&spare| spare > 0)?;
        let mut zone = node.zone.lock(self.platform());
        let mut moved = 0;
        while moved < spare.min(REFILL) {
            let Some(frame) = zone.allocate(&self.frames, 0) else { break };
            kept.0.push_front(&self.frames, frame.into_number());
            moved += 1;
        }
        node.took(moved);
        self.platform().work(Work::Buddy, moved);
        Some(())
    }

    /// Gives a frame back.
    pub(crate) fn free(&self, frame: Frame) {
        let platform = self.platform();
        platform.observe(Event::FrameFreed(frame.number()));
        let node = self.frames.get(frame.number()).node();
        platform.pinned(|| {
            let mut kept = self.per_cpu_frames[self.per_cpu_index(node)].lock(platform);
            kept.0.push_front(&self.frames, frame.into_number());
            platform.work(Work::FrameFree, 1);
            if kept.0.len() > KEEP {
                self.drain(node, &mut kept, REFILL);
            }
        });
    }

    /// Lets go of a counted reference, and of the frame if it was the last.
    pub(crate) fn put(&self, number: FrameNumber) {
        let info = self.frames.get(number);
        match info.release() {
            0 => {
                self.unlist(number);
                self.free_orphan(number);
            }
            // Perhaps nothing but the swap device's cache is left, and nobody could ever find it there.
            1 if info.slot().is_some() => self.forget_swapped(number),
            _ => {}
        }
    }

    /// Frees a page that nobody holds and no list has.
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

    /// 512 neighbouring frames of the node, if it has them and keeps more than `mark` then.
    pub(crate) fn allocate_huge(&self, node: NodeId, mark: u32) -> Option<HugeFrame> {
        let node = &self.nodes[node.index()];
        if node.free() < mark + HUGE_FRAMES {
            return None;
        }
        let mut zone = node.zone.lock(self.platform());
        let block = zone.allocate(&self.frames, HUGE_ORDER)?;
        node.took(HUGE_FRAMES);
        self.platform().work(Work::Buddy, 1);
        drop(zone);
        let first = block.into_number();
        for number in huge_frames(first) {
            self.platform().observe(Event::FrameAllocated(number));
        }
        Some(HugeFrame::owned(first))
    }

    /// Gives 512 neighbouring frames back.
    pub(crate) fn free_huge(&self, frame: HugeFrame) {
        let first = frame.into_number();
        for number in huge_frames(first) {
            self.platform().observe(Event::FrameFreed(number));
        }
        let node = &self.nodes[self.frames.get(first).node().index()];
        let mut zone = node.zone.lock(self.platform());
        zone.free(&self.frames, Frame::owned(first), HUGE_ORDER);
        node.got(HUGE_FRAMES);
        self.platform().work(Work::Buddy, 1);
    }

    /// A frame for reclaim itself, down to the last there is.
    pub(crate) fn allocate_reserve(&self) -> Option<Frame> {
        let frame = self.allocate_above(self.home(), |_| 0)?;
        self.platform().observe(Event::FrameAllocated(frame.number()));
        Some(frame)
    }

    /// A frame of this node alone, leaving its minimum; nothing is reclaimed for it.
    pub(crate) fn allocate_on(&self, node: NodeId) -> Option<Frame> {
        let frame = self.allocate_from(node, self.nodes[node.index()].watermarks.min)?;
        self.platform().observe(Event::FrameAllocated(frame.number()));
        Some(frame)
    }

    fn drain(&self, node: NodeId, kept: &mut PerCpuFrames, count: u32) {
        let node = &self.nodes[node.index()];
        let mut zone = node.zone.lock(self.platform());
        let mut moved = 0;
        while moved < count {
            // The one that lay longest: what was freed last is warm in the cache.
            let Some(number) = kept.0.pop_back(&self.frames) else { break };
            zone.free(&self.frames, Frame::owned(number), 0);
            moved += 1;
        }
        node.got(moved);
        self.platform().work(Work::Buddy, moved);
    }

    fn drain_all(&self) {
        for (index, kept) in self.per_cpu_frames.iter().enumerate() {
            let node = NodeId((index % self.nodes.len()) as u16);
            self.drain(node, &mut kept.lock(self.platform()), u32::MAX);
        }
    }

    fn wake_all(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            if node.free() < node.watermarks.low && node.wake() {
                self.platform().wake_reclaim(NodeId(index as u16));
            }
        }
    }

    fn per_cpu_index(&self, node: NodeId) -> usize {
        self.platform().this_cpu().index() * self.nodes.len() + node.index()
    }
}
