//! Allocation of frames: lists for each CPU in front of the nodes' buddy allocators, and the steps taken when they run
//! dry.
//!
//! An allocation takes a frame from the nearest node above its low watermark. If there is none, it wakes every node's
//! background reclaim and may go down to the minimum. Below the minimum it reclaims itself until it finds a frame.
//! Frames move between the lists and the buddy allocator in batches, so the zone lock is taken once for many.
//!
//! No owing frame is handed out. Nodes keep more frames while some owe, so that others are left to allocate. The last
//! of them are a reserve for allocations that must not wait. If nothing above the reserve is left, the allocation pays
//! if that is worth it: one round of interrupts settles all debts on all nodes, so the next allocations find thousands
//! of debt-free frames. If few frames owe, the allocation tries farther nodes and reclaims more instead, as it would
//! soon have to anyway.

use core::fmt;

use crate::address::{HUGE_FRAMES, HUGE_ORDER};
use crate::frames::frame::{huge_frames, Frame, HugeFrame};
use crate::frames::list::List;
use crate::frames::node::{Node, NodeId};
use crate::frames::owing::MATURE;
use crate::locks::Lock;
use crate::machine::{Event, Machine, Work};
use crate::Memory;

/// Frames moved to or from the buddy allocator at a time (Linux: `pcp->batch`, 31 on large machines).
pub(crate) const REFILL: u32 = 31;

/// There is no free frame, and nothing can be reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory: no frame is free and none can be reclaimed")
    }
}

impl core::error::Error for OutOfMemory {}

/// One CPU's free frames of one node.
#[derive(Debug, Default)]
pub(crate) struct PerCpuFrames {
    /// Debt-free frames. The frame freed last is warm in the cache, and is taken first.
    pub(crate) settled: List,
    /// Owing frames, in the order of their arrival.
    pub(crate) owing: List,
}

impl PerCpuFrames {
    pub(crate) fn len(&self) -> u32 {
        self.settled.len() + self.owing.len()
    }
}

/// The level to which an allocation may take a node's free frames down.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DownTo {
    /// A watermark, and the frames that are kept above it while frames owe.
    Low,
    Min,
    /// The minimum itself, for an allocation that has just reclaimed.
    Reclaimed,
    /// The frames that are kept while others owe.
    Reserve,
    Nothing,
}

/// Whether an allocation that finds only owing frames pays for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pay {
    /// Only if enough frames owe; for allocations that have another way.
    IfWorthIt,
    Always,
}

impl DownTo {
    /// The free frames that a node must keep, and the debt-free ones that it must keep while others owe.
    fn marks<P: Machine>(self, node: &Node<P>) -> (u32, u32) {
        let reserve = node.limits.reserve;
        match self {
            Self::Low => (node.watermarks.low.saturating_add(node.ahead()), reserve),
            Self::Min => (node.watermarks.min.saturating_add(node.ahead()), reserve),
            Self::Reclaimed => (node.watermarks.min, reserve),
            Self::Reserve => (0, reserve),
            Self::Nothing => (0, 0),
        }
    }
}

impl<P: Machine> Memory<P> {
    /// A frame from the node nearest to `home` that has one, reclaimed if needed. No lock above the table lock may be
    /// held, and interrupts must be on.
    pub(crate) fn allocate(&self, home: NodeId) -> Result<Frame, OutOfMemory> {
        let frame = self.allocate_paying(home, DownTo::Low, Pay::IfWorthIt).or_else(|| {
            self.wake_all();
            self.allocate_paying(home, DownTo::Min, Pay::IfWorthIt)
        });
        let frame = match frame {
            Some(frame) => frame,
            None => self.allocate_slowly(home)?,
        };
        self.hand_out(frame.number());
        Ok(frame)
    }

    /// A frame from the node nearest to `home` that has one, for callers that must not wait: with interrupts off, or
    /// under locks that are held with interrupts off. The frame is debt-free, down to the last of the reserve. The call
    /// neither reclaims nor pays, but wakes background reclaim if frames are few. It also returns `None` if there is no
    /// such node.
    ///
    /// No lock above the LRU lock may be held. [`Memory::free`] takes the frame back.
    pub fn allocate_atomic(&self, home: NodeId) -> Option<Frame> {
        let nodes = self.fallback.get(home.index())?;
        self.platform().observe(Event::Atomic { begins: true });
        let near = |down| nodes.iter().find_map(|&node| self.allocate_from(node, down));
        let frame = near(DownTo::Low).or_else(|| {
            self.wake_all();
            near(DownTo::Nothing)
        });
        if let Some(frame) = &frame {
            self.hand_out(frame.number());
        }
        self.platform().observe(Event::Atomic { begins: false });
        frame
    }

    /// A frame for reclaim itself, down to the last one. It may pay: reclaim flushes anyway, and so holds no lock that
    /// is held with interrupts off.
    pub(crate) fn allocate_reserve(&self) -> Option<Frame> {
        let nodes = &self.fallback[self.home().index()];
        let settled = nodes.iter().find_map(|&node| self.allocate_from(node, DownTo::Nothing));
        let frame = settled.or_else(|| self.allocate_paying(self.home(), DownTo::Reserve, Pay::Always))?;
        self.hand_out(frame.number());
        Some(frame)
    }

    /// A frame of this node alone, above its minimum, without reclaim. A caller that needs a frame of this node pays
    /// [always](Pay::Always), because migration flushes anyway: a free frame must not count as used because it owes.
    pub(crate) fn allocate_on(&self, node: NodeId, pay: Pay) -> Option<Frame> {
        let down = match pay {
            Pay::IfWorthIt => DownTo::Min,
            Pay::Always => DownTo::Reclaimed,
        };
        let frame = self.allocate_from(node, down).or_else(|| self.allocate_paid(node, down, pay))?;
        self.hand_out(frame.number());
        Some(frame)
    }

    /// A frame of the nearest node that can spare one, paid for if needed.
    pub(crate) fn allocate_paying(&self, home: NodeId, down: DownTo, pay: Pay) -> Option<Frame> {
        let mut nodes = self.fallback[home.index()].iter();
        nodes.find_map(|&node| self.allocate_from(node, down).or_else(|| self.allocate_paid(node, down, pay)))
    }

    /// A frame of a node that can spare none unless debts are paid.
    #[cold]
    fn allocate_paid(&self, node: NodeId, down: DownTo, pay: Pay) -> Option<Frame> {
        let state = &self.nodes[node.index()];
        let (mark, reserve) = down.marks(state);
        if state.owing() == 0 || state.free() <= mark {
            return None;
        }
        self.mature_for(node, mark, reserve, 1);
        self.allocate_from(node, down).or_else(|| {
            if !self.pay_for_allocation(pay) {
                return None;
            }
            self.mature_for(node, mark, reserve, 1);
            self.allocate_from(node, down)
        })
    }

    /// A debt-free frame of `node`. Never waits.
    ///
    /// Debts make taking a frame off the CPU's list no dearer: owing frames are on a list of their own, and no frame on
    /// this list is checked again. The level is checked only when the list is empty.
    fn allocate_from(&self, node: NodeId, down: DownTo) -> Option<Frame> {
        let platform = self.platform();
        platform.pinned(|| {
            let mut kept = self.per_cpu_frames[self.per_cpu_index(node)].lock(platform);
            let number = if let Some(number) = kept.settled.pop_front(&self.frames) {
                number
            } else {
                self.refill(node, down, &mut kept);
                kept.settled.pop_front(&self.frames)?
            };
            platform.work(Work::FrameAllocate, 1);
            Some(Frame::owned(number))
        })
    }

    /// Gets debt-free frames: the CPU's own that owed before, or else the node's.
    fn refill(&self, node: NodeId, down: DownTo, kept: &mut PerCpuFrames) {
        if self.mature_own(kept) > 0 {
            return;
        }
        let state = &self.nodes[node.index()];
        let (mark, reserve) = down.marks(state);
        if state.free() <= mark {
            return;
        }
        let mut zone = state.zone.lock(self.platform());
        self.mature_zone(state, &mut zone, MATURE);
        let wanted = match down {
            // Of the reserve, only the one frame asked for: later allocations take from the CPU's list without a check
            // of the level.
            DownTo::Nothing => state.spare(state.watermarks.min, state.limits.reserve).clamp(1, REFILL),
            _ => REFILL,
        };
        let wanted = wanted.min(state.spare(mark, reserve));
        let mut moved = 0;
        while moved < wanted {
            let Some(frame) = zone.allocate(&self.frames, 0) else { break };
            kept.settled.push_front(&self.frames, frame.into_number());
            moved += 1;
        }
        if moved > 0 {
            state.took(moved, || self.platform().now());
            self.platform().work(Work::Buddy, moved);
        }
    }

    /// 512 neighbouring frames of the node, if it has them and keeps at least `mark` then. May pay if some owe, so
    /// interrupts must be on.
    pub(crate) fn allocate_huge(&self, node: NodeId, mark: u32, pay: Pay) -> Option<HugeFrame> {
        let state = &self.nodes[node.index()];
        let reserve = state.limits.reserve;
        let first = self.take_huge(node, mark).or_else(|owed| {
            if owed && self.pay_for_allocation(pay) {
                self.mature_for(node, mark, reserve, HUGE_FRAMES);
                return self.take_huge(node, mark).map_err(drop);
            }
            Err(())
        });
        let first = first.ok()?.into_number();
        huge_frames(first).for_each(|number| self.hand_out(number));
        Some(HugeFrame::owned(first))
    }

    /// 512 neighbouring debt-free frames. The error says whether payment would provide some.
    fn take_huge(&self, node: NodeId, mark: u32) -> Result<Frame, bool> {
        let state = &self.nodes[node.index()];
        if state.free() < mark + HUGE_FRAMES {
            return Err(false);
        }
        let mut zone = state.zone.lock(self.platform());
        self.mature_zone(state, &mut zone, HUGE_FRAMES);
        let owed = zone.owes(HUGE_ORDER);
        if state.spare(mark, state.limits.reserve) < HUGE_FRAMES {
            // Small owing blocks may be the only reason why the node has too few frames.
            return Err(state.owing() > 0);
        }
        let first = zone.allocate(&self.frames, HUGE_ORDER).ok_or(owed)?;
        state.took(HUGE_FRAMES, || self.platform().now());
        self.platform().work(Work::Buddy, 1);
        Ok(first)
    }

    /// Wakes the background reclaim of a node that runs low.
    pub(crate) fn wake_if_low(&self, node: NodeId) {
        let state = &self.nodes[node.index()];
        if !state.keeps(state.watermarks.low) && state.wake() {
            self.platform().wake_reclaim(node);
        }
    }

    fn wake_all(&self) {
        (0..self.nodes.len() as u16).for_each(|node| self.wake_if_low(NodeId(node)));
    }

    pub(crate) fn per_cpu_index(&self, node: NodeId) -> usize {
        self.platform().this_cpu().index() * self.nodes.len() + node.index()
    }
}
