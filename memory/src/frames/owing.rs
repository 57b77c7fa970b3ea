//! Free frames that owe: how they come to owe nothing.
//!
//! Debts settle elsewhere, at ticks and switches, and nobody says of which frames. So whoever needs frames looks: first at
//! those that its CPU has listed, then, under the zone lock that it takes anyway, at the oldest blocks of the node. Each
//! look is bounded, so that no allocation works for a thousand others. Between its list and its being settled a frame is
//! nowhere but on the stack of who took it, with its stamp: no CPU and no task keeps debts, so there are none that an
//! interrupt could mistake for its own.

use core::sync::atomic::Ordering;

use ceasefire::{Stamp, BATCH};

use crate::frames::allocate::{Pay, PerCpuFrames, REFILL};
use crate::frames::buddy::Buddy;
use crate::frames::node::{Node, NodeId};
use crate::locks::Lock;
use crate::machine::{Machine, Work};
use crate::Memory;

/// Frames that mature at a time: as many as are taken; background reclaim sees to the rest. (A block that is larger matures
/// as a whole: it is a single step.)
pub(crate) const MATURE: u32 = REFILL;

impl<P: Machine> Memory<P> {
    /// What each CPU does at each of its timer's ticks, with interrupts off: settles debts for nothing. If one is too old
    /// because some CPU has no ticks, whoever may do so next pays: the next fault or reclaim anywhere, or the background
    /// reclaim of this CPU's node, which is woken for it. (Every CPU may be busy with programs, so that this does not run
    /// for long; or no program faults.)
    pub fn tick(&self) {
        if self.engine.tick() {
            self.overdue.store(true, Ordering::Release);
            let home = self.home();
            if self.nodes[home.index()].wake() {
                self.platform().wake_reclaim(home);
            }
        }
    }

    /// Pays what a tick found to be too old. Interrupts must be on, and no lock may be held that is held with them off.
    pub(crate) fn pay_overdue(&self) {
        if self.overdue.load(Ordering::Relaxed) && self.overdue.swap(false, Ordering::AcqRel) {
            self.engine.pay_overdue();
        }
    }

    /// Whether more frames of a node may come to owe. If not, a batch that frees frames there should pay at its end. What
    /// is settled by now makes room first: nobody pays, or goes without, for what only has to be looked at.
    ///
    /// Exact but for what CPUs keep, 30 frames each at most, and for what other batches are about to free.
    pub(crate) fn may_owe(&self, node: NodeId) -> bool {
        let state = &self.nodes[node.index()];
        // A node without frames, which may owe none, owes none either.
        while state.owing() >= state.limits.max_owed.max(1) {
            if self.mature(node) == 0 {
                return false;
            }
        }
        true
    }

    /// Frames that are free and owe, or did when that was last looked at. Exact once the machine is quiet.
    pub fn owing_frames(&self) -> u64 {
        let per_cpu = self.per_cpu_frames.iter().map(|kept| kept.lock(self.platform()).owing.len());
        self.nodes.iter().map(Node::owing).chain(per_cpu).map(u64::from).sum()
    }

    /// Frees what has matured of a node, up to [`MATURE`] frames or one large block; how many frames.
    pub(crate) fn mature(&self, node: NodeId) -> u32 {
        let state = &self.nodes[node.index()];
        if state.owing() == 0 {
            return 0;
        }
        self.mature_zone(state, &mut state.zone.lock(self.platform()), MATURE)
    }

    /// Frees what has matured of a node until it has `wanted` frames to spare.
    pub(crate) fn mature_for(&self, node: NodeId, mark: u32, reserve: u32, wanted: u32) {
        let state = &self.nodes[node.index()];
        while state.spare(mark, reserve) < wanted && self.mature(node) > 0 {}
    }

    /// Frees what has matured of a node whose zone is locked, until that were `enough`; how many frames.
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

    /// Frees what has matured of a CPU's own frames; how many.
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

    /// Pays everything that is owed, because an allocation cannot wait for its being settled; or not, if that is not
    /// worth it. No list may be locked.
    ///
    /// One round of interrupts settles the frames of all nodes. It is worth it for as many as are taken in the time that a
    /// debt may stand: until these are used up, what is reclaimed meanwhile is settled; fewer are soon used up, and then
    /// somebody has to pay again. And nobody pays for what somebody else is just paying for.
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
