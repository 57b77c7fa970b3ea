//! Owing free frames, and how they become debt-free.
//!
//! Debts settle elsewhere, at ticks and switches, without a notice for each frame. So an allocation checks: first the
//! frames on its CPU's list, then, under the zone lock that it takes anyway, the oldest blocks of the node. Each check
//! is bounded, so no allocation works for a thousand others. Between its list and its settlement a frame is only on
//! the stack of the task that took it, with its stamp. No CPU and no task stores debts, so an interrupt can never
//! mistake them for its own.

use crate::primitive::Ordering;

use ceasefire::{Stamp, BATCH};

use crate::frames::allocate::{Pay, PerCpuFrames, REFILL};
use crate::frames::buddy::Buddy;
use crate::frames::node::{Node, NodeId};
use crate::locks::Lock;
use crate::machine::{Machine, Work};
use crate::Memory;

/// Frames that mature at a time: as many as are taken. Background reclaim handles the rest. (A larger block matures
/// whole, in a single step.)
pub(crate) const MATURE: u32 = REFILL;

impl<P: Machine> Memory<P> {
    /// Must run at each timer tick of each CPU, with interrupts off. It settles debts at no cost. If one is too old
    /// because some CPU has no ticks, the next fault or reclaim anywhere pays. The background reclaim of this CPU's
    /// node is woken to pay as well, because it may be that no program faults. (If every CPU is busy with programs,
    /// the reclaimer may not run for long.)
    pub fn tick(&self) {
        if self.engine.tick() {
            self.overdue.store(true, Ordering::Release);
            let home = self.home();
            if self.nodes[home.index()].wake() {
                self.platform().wake_reclaim(home);
            }
        }
    }

    /// Pays the debts that a tick found too old. Interrupts must be on, and no lock may be held that is held with
    /// interrupts off.
    pub(crate) fn pay_overdue(&self) {
        if self.overdue.load(Ordering::Relaxed) && self.overdue.swap(false, Ordering::AcqRel) {
            self.engine.pay_overdue();
        }
    }

    /// Whether more frames of a node may come to owe. If not, a batch that frees frames there should pay at its end.
    /// Matured frames are freed first, so no batch pays because of debts that are already settled.
    ///
    /// The answer is exact except for frames on CPUs' lists, at most 30 for each CPU, and frames that other batches
    /// are about to free.
    pub(crate) fn may_owe(&self, node: NodeId) -> bool {
        let state = &self.nodes[node.index()];
        // A node without frames may owe none, and owes none.
        while state.owing() >= self.most_owing(node) {
            if self.mature(node) == 0 {
                return false;
            }
        }
        true
    }

    /// The most free frames of a node that may owe when a batch begins. At most 30 on each CPU's list and those of
    /// batches under way come on top.
    pub fn most_owing(&self, node: NodeId) -> u32 {
        self.nodes[node.index()].limits.max_owed.max(1)
    }

    /// Free frames that owe, including those whose debts were settled since the last check. Exact once the machine is
    /// quiet.
    pub fn owing_frames(&self) -> u64 {
        let per_cpu = self.per_cpu_frames.iter().map(|kept| kept.lock(self.platform()).owing.len());
        self.nodes.iter().map(Node::owing).chain(per_cpu).map(u64::from).sum()
    }

    /// Frees matured frames of a node, up to [`MATURE`] or one large block; returns how many.
    pub(crate) fn mature(&self, node: NodeId) -> u32 {
        let state = &self.nodes[node.index()];
        if state.owing() == 0 {
            return 0;
        }
        self.mature_zone(state, &mut state.zone.lock(self.platform()), MATURE)
    }

    /// Frees matured frames of a node until it has `wanted` frames to spare.
    pub(crate) fn mature_for(&self, node: NodeId, mark: u32, reserve: u32, wanted: u32) {
        let state = &self.nodes[node.index()];
        while state.spare(mark, reserve) < wanted && self.mature(node) > 0 {}
    }

    /// Frees at least `enough` matured frames of a node whose zone is locked, if it has them; returns how many.
    pub(crate) fn mature_zone(&self, state: &Node<P>, zone: &mut Buddy, enough: u32) -> u32 {
        if state.owing() == 0 {
            return 0;
        }
        let settled = |stamp| self.engine.is_settled(stamp);
        let mut blocks = 0;
        let matured = zone.mature(&self.frames, enough, settled, |first, order| {
            blocks += 1;
            self.freed(first, order);
        });
        if matured > 0 {
            state.matured(matured);
            self.platform().work(Work::Buddy, blocks);
            self.count(|share| &share.frames_matured, u64::from(matured));
        }
        matured
    }

    /// Frees matured frames on a CPU's own list; returns how many.
    pub(crate) fn mature_own(&self, kept: &mut PerCpuFrames) -> u32 {
        let mut matured = 0;
        while let Some(number) = kept.owing.front() {
            let info = self.frames.get(number);
            if !self.engine.is_settled(info.stamp()) {
                break;
            }
            kept.owing.remove(&self.frames, number);
            info.set_stamp(Stamp::SETTLED);
            self.freed(number, 0);
            kept.settled.push_front(&self.frames, number);
            matured += 1;
        }
        if matured > 0 {
            self.count(|share| &share.frames_matured, u64::from(matured));
        }
        matured
    }

    /// Pays all debts, for an allocation that cannot wait for their settlement, unless it is not worth it. No list may
    /// be locked.
    ///
    /// One round of interrupts settles the frames of all nodes. It is worth it if at least as many frames owe as are
    /// taken in the time that a debt may stand: while these are used up, the debts of frames reclaimed meanwhile
    /// settle. Fewer are used up sooner, and an allocation has to pay again. An allocation that has another way
    /// does not pay while another one is paying.
    #[cold]
    pub(crate) fn pay_for_allocation(&self, pay: Pay) -> bool {
        if pay == Pay::IfWorthIt {
            let sum = |count: fn(&Node<P>) -> u32| self.nodes.iter().map(count).map(u64::from).sum::<u64>();
            let worth_it = sum(Node::owing) >= sum(Node::taken_lately).max(BATCH as u64);
            if !worth_it || self.paying.swap(true, Ordering::Acquire) {
                return false;
            }
        }
        self.engine.pay_all();
        if pay == Pay::IfWorthIt {
            self.paying.store(false, Ordering::Release);
        }
        self.platform().pinned(|| self.count(|share| &share.allocations_paid, 1));
        true
    }
}
