//! The buddy allocator: free blocks of 2^order frames, split on demand and merged with their buddy when freed.
//!
//! The scheme is the classic one (Knowlton 1965). A block is aligned to its size, and its buddy differs from it in one
//! bit of its number. A free block is marked at its first frame.
//!
//! Blocks whose frames CPUs may still reach owe, and are kept apart. They are not handed out. Once their debt is
//! settled they *mature*: they become ordinary free blocks. Blocks merge only with their own kind, so a debt-free block
//! never comes to owe. A block made of two owing ones has the newer [`Stamp`] of both. If an owing block is split, each
//! part keeps its stamp. Owing blocks are listed in the order of their arrival, and debts are settled in that order, so
//! the matured blocks are at the front of each list. (A merged block goes to the end, where it waits a little longer
//! than necessary.)

use ceasefire::{Owed, Stamp};

use crate::address::FrameNumber;
use crate::frames::frame::{Frame, FrameTable, Heads};
use crate::frames::list::List;

/// Blocks have between one frame and 2^10 (4 MiB), as in Linux.
pub(crate) const ORDERS: u32 = 11;

/// The free blocks of one node. Guarded by the node's zone lock.
#[derive(Debug)]
pub(crate) struct Buddy {
    start: u32,
    end: u32,
    free: [List; ORDERS as usize],
    owing: [List; ORDERS as usize],
}

impl Buddy {
    /// All frames from `start` up to `end` free, in the largest possible blocks.
    pub(crate) fn new(frames: &FrameTable, start: u32, end: u32) -> Self {
        let lists = || core::array::from_fn(|_| List::default());
        let mut buddy = Self { start, end, free: lists(), owing: lists() };
        // From the top down: the lowest blocks are at the front and handed out first.
        let mut at = end;
        while at > start {
            let order = at.trailing_zeros().min((at - start).ilog2()).min(ORDERS - 1);
            at -= 1 << order;
            buddy.list(frames, at, order, Stamp::SETTLED);
        }
        buddy
    }

    /// A block of 2^`order` debt-free frames; the first of them.
    pub(crate) fn allocate(&mut self, frames: &FrameTable, order: u32) -> Option<Frame> {
        let found = (order..ORDERS).find(|&order| self.free[order as usize].len() > 0)?;
        let block = self.free[found as usize].pop_front(frames)?;
        frames.get(block).set_heads(None);
        for half in (order..found).rev() {
            self.list(frames, block.get() + (1 << half), half, Stamp::SETTLED);
        }
        Some(Frame::owned(block))
    }

    /// An owing block of 2^`order` frames, by its first, to be paid for before it is used. It comes from the smallest
    /// block that is large enough, and of those from the one that has owed longest.
    pub(crate) fn allocate_owing(&mut self, frames: &FrameTable, order: u32) -> Option<Owed<Frame>> {
        let found = (order..ORDERS).find(|&order| self.owing[order as usize].len() > 0)?;
        let block = self.owing[found as usize].front()?;
        Some(self.carve(frames, block, block.get(), order))
    }

    /// One frame out of any free block that contains it.
    pub(crate) fn take(&mut self, frames: &FrameTable, frame: FrameNumber) -> Option<Owed<Frame>> {
        let heads = |order: u32| {
            let first = frame.get() >> order << order;
            let found = first >= self.start && frames.get(FrameNumber::new(first)).heads()?.order >= order;
            found.then(|| FrameNumber::new(first))
        };
        let block = (0..ORDERS).find_map(heads)?;
        Some(self.carve(frames, block, frame.get(), 0))
    }

    /// Takes the 2^`order` frames around `wanted` out of a free block. The rest stays free, with its debt.
    fn carve(&mut self, frames: &FrameTable, block: FrameNumber, wanted: u32, order: u32) -> Owed<Frame> {
        let Some(Heads { order: mut size, .. }) = frames.get(block).heads() else {
            unreachable!("{block:?} is listed and heads no block")
        };
        let stamp = self.unlist(frames, block);
        let mut first = block.get();
        while size > order {
            size -= 1;
            let upper = first + (1 << size);
            let (kept, left) = if wanted < upper { (first, upper) } else { (upper, first) };
            self.list(frames, left, size, stamp);
            first = kept;
        }
        Owed::new(Frame::owned(FrameNumber::new(first)), stamp)
    }

    /// Takes back a block of 2^`order` frames by its first.
    pub(crate) fn free(&mut self, frames: &FrameTable, frame: Frame, order: u32) {
        self.merge(frames, frame.into_number().get(), order, Stamp::SETTLED);
    }

    /// Takes back a block of 2^`order` frames that may owe.
    pub(crate) fn free_owed(&mut self, frames: &FrameTable, frame: Owed<Frame>, order: u32) {
        let mut stamp = Stamp::SETTLED;
        let frame = frame.leave_in(&mut stamp);
        self.merge(frames, frame.into_number().get(), order, stamp);
    }

    fn merge(&mut self, frames: &FrameTable, mut block: u32, mut order: u32, mut stamp: Stamp) {
        let owing = stamp != Stamp::SETTLED;
        while order < ORDERS - 1 {
            let buddy = block ^ (1 << order);
            if buddy < self.start || buddy >= self.end {
                break;
            }
            let number = FrameNumber::new(buddy);
            if frames.get(number).heads() != Some(Heads { order, owing }) {
                break;
            }
            stamp = stamp.with(self.unlist(frames, number));
            block &= buddy;
            order += 1;
        }
        self.list(frames, block, order, stamp);
    }

    /// Frees blocks whose debts are settled, large ones first, until at least `enough` frames are free or no block is
    /// left; returns how many. `freed` gets each block's first frame and order.
    pub(crate) fn mature(
        &mut self,
        frames: &FrameTable,
        enough: u32,
        settled: impl Fn(Stamp) -> bool,
        mut freed: impl FnMut(FrameNumber, u32),
    ) -> u32 {
        let mut matured = 0;
        for order in (0..ORDERS).rev() {
            while matured < enough {
                let oldest = self.owing[order as usize].front();
                let Some(block) = oldest.filter(|&block| settled(frames.get(block).stamp())) else { break };
                self.unlist(frames, block);
                freed(block, order);
                self.free(frames, Frame::owned(block), order);
                matured += 1 << order;
            }
        }
        matured
    }

    /// Whether owing blocks of at least 2^`order` frames exist.
    pub(crate) fn owes(&self, order: u32) -> bool {
        self.owing[order as usize..].iter().any(|list| list.len() > 0)
    }

    fn list(&mut self, frames: &FrameTable, block: u32, order: u32, stamp: Stamp) {
        let number = FrameNumber::new(block);
        let owing = stamp != Stamp::SETTLED;
        frames.get(number).set_heads(Some(Heads { order, owing }));
        if owing {
            frames.get(number).set_stamp(stamp);
            self.owing[order as usize].push_back(frames, number);
        } else {
            self.free[order as usize].push_front(frames, number);
        }
    }

    /// Takes a free block off its list; returns the stamp of its debt.
    fn unlist(&mut self, frames: &FrameTable, block: FrameNumber) -> Stamp {
        let info = frames.get(block);
        let Some(Heads { order, owing }) = info.heads() else { return Stamp::SETTLED };
        info.set_heads(None);
        if !owing {
            self.free[order as usize].remove(frames, block);
            return Stamp::SETTLED;
        }
        self.owing[order as usize].remove(frames, block);
        let stamp = info.stamp();
        info.set_stamp(Stamp::SETTLED);
        stamp
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    use super::*;
    use crate::frames::node::NodeLayout;

    fn largest(buddy: &Buddy) -> Vec<u32> {
        buddy.free.iter().map(List::len).collect()
    }

    fn owing(buddy: &Buddy) -> u32 {
        (0..).zip(&buddy.owing).map(|(order, list)| list.len() << order).sum()
    }

    /// A node of 16 frames, taken whole, and its frames.
    fn taken() -> (FrameTable, Buddy) {
        let frames = FrameTable::new(FrameNumber::new(0), &[NodeLayout::new(16)]);
        let mut buddy = Buddy::new(&frames, 0, 16);
        let all = buddy.allocate(&frames, 4).expect("all are free");
        assert_eq!(all.into_number().get(), 0);
        (frames, buddy)
    }

    fn give(frames: &FrameTable, buddy: &mut Buddy, block: u32, order: u32, stamp: u64) {
        let frame = Frame::owned(FrameNumber::new(block));
        buddy.free_owed(frames, Owed::new(frame, Stamp::stored(stamp)), order);
    }

    fn mature(frames: &FrameTable, buddy: &mut Buddy, settled: u64) -> u32 {
        buddy.mature(frames, u32::MAX, |stamp| stamp <= Stamp::stored(settled), |_, _| {})
    }

    fn stamp_at(frames: &FrameTable, block: u32) -> (Option<Heads>, u64) {
        let info = frames.get(FrameNumber::new(block));
        (info.heads(), info.stamp().get())
    }

    #[test]
    fn only_blocks_of_one_kind_merge_and_the_newer_stamp_stays() {
        let (frames, mut buddy) = taken();
        give(&frames, &mut buddy, 0, 1, 7);
        give(&frames, &mut buddy, 2, 1, 0);
        assert_eq!((owing(&buddy), largest(&buddy)[1]), (2, 1), "a debt-free block merges with no owing one");
        give(&frames, &mut buddy, 4, 1, 9);
        give(&frames, &mut buddy, 6, 1, 8);
        assert_eq!(stamp_at(&frames, 4), (Some(Heads { order: 2, owing: true }), 9));
        assert_eq!(mature(&frames, &mut buddy, 8), 2);
        assert_eq!((owing(&buddy), largest(&buddy)[2]), (4, 1), "the first four are whole");
        assert_eq!(mature(&frames, &mut buddy, 9), 4);
        assert_eq!((owing(&buddy), largest(&buddy)[3]), (0, 1));
    }

    #[test]
    fn every_part_of_a_split_block_keeps_its_stamp() {
        let (frames, mut buddy) = taken();
        give(&frames, &mut buddy, 8, 3, 5);
        let mut stamp = Stamp::SETTLED;
        let frame = buddy.take(&frames, FrameNumber::new(10)).expect("it is free").leave_in(&mut stamp);
        assert_eq!((frame.into_number().get(), stamp.get()), (10, 5));
        for (block, order) in [(8, 1), (11, 0), (12, 2)] {
            assert_eq!(stamp_at(&frames, block), (Some(Heads { order, owing: true }), 5), "at {block}");
        }
        assert_eq!(buddy.take(&frames, FrameNumber::new(10)), None);
        assert!(buddy.allocate(&frames, 0).is_none(), "owing blocks are not handed out");
        let mut stamp = Stamp::SETTLED;
        let frame = buddy.allocate_owing(&frames, 1).expect("there is one").leave_in(&mut stamp);
        assert_eq!((frame.into_number().get(), stamp.get()), (8, 5));
        assert_eq!(mature(&frames, &mut buddy, 4), 0);
        assert_eq!(mature(&frames, &mut buddy, 5), 5);
    }

    /// Takes one frame out of an owing block. Returns whether another CPU could get one of the remaining frames before
    /// the debt is paid, if the remainder is listed with the stamp that `left` makes of its own.
    fn remainder_is_had(left: fn(u64) -> u64) -> bool {
        let (frames, mut buddy) = taken();
        give(&frames, &mut buddy, 8, 3, 5);
        let frame = buddy.allocate_owing(&frames, 0).expect("there is one");
        assert_eq!(frame.get().number().get(), 8);
        for (block, order) in [(9, 0), (10, 1), (12, 2)] {
            let stamp = buddy.unlist(&frames, FrameNumber::new(block));
            buddy.list(&frames, block, order, Stamp::stored(left(stamp.get())));
        }
        buddy.allocate(&frames, 0).is_some()
    }

    #[test]
    fn hole_03_the_rest_of_a_split_block_keeps_its_debt() {
        assert!(!remainder_is_had(|stamp| stamp));
        // LUF listed the remainder without a stamp: the CPU that took the first frame was to flush for all, and did so
        // later.
        assert!(remainder_is_had(|_| 0), "a missing guard must be noticed");
    }

    #[test]
    fn no_more_frames_mature_at_a_time_than_asked_for() {
        let (frames, mut buddy) = taken();
        for frame in (0..16).step_by(2) {
            give(&frames, &mut buddy, frame, 0, 3);
        }
        assert_eq!(buddy.mature(&frames, 3, |_| true, |_, order| assert_eq!(order, 0)), 3);
        assert_eq!((owing(&buddy), buddy.owes(0), buddy.owes(1)), (5, true, false));
    }

    proptest! {
        #[test]
        fn hands_out_each_frame_once_and_merges_all_back(
            below in 0u32..1030, start in 0u32..1030, count in 1u32..5000, mix in any::<prop::sample::Index>(),
            rounds in 1usize..4, debts in prop::collection::vec(0u64..4, 1..20), enough in 1u32..300
        ) {
            let start = below + start;
            let frames = FrameTable::new(FrameNumber::new(below), &[NodeLayout::new(start - below + count)]);
            let mut buddy = Buddy::new(&frames, start, start + count);
            let untouched = largest(&buddy);
            // The stamp of each frame that was freed with a debt and has not been handed out since.
            let mut owed: BTreeMap<u32, u64> = BTreeMap::new();
            let mut settled = 0;
            for round in 0..rounds {
                // Blocks of every order in turn and then single frames are taken, while debts settle and blocks mature.
                let mut taken: Vec<(Frame, u32)> = Vec::new();
                let mut numbers: Vec<u32> = Vec::new();
                let mut orders = (0..ORDERS).chain(core::iter::repeat(0));
                while numbers.len() < count as usize {
                    let order = orders.next().unwrap_or(0);
                    if let Some(frame) = buddy.allocate(&frames, order) {
                        let first = frame.number().get();
                        prop_assert_eq!(first % (1 << order), 0, "a block that is not aligned to its size");
                        for number in first..first + (1 << order) {
                            let stamp = owed.remove(&number).unwrap_or(0);
                            prop_assert!(stamp <= settled, "frame {number} owes until {stamp}, settled is {settled}");
                            numbers.push(number);
                        }
                        taken.push((frame, order));
                    } else if order == 0 {
                        let before = owing(&buddy);
                        let is_settled = |stamp: Stamp| stamp.get() <= settled;
                        let matured = buddy.mature(&frames, enough, is_settled, |_, _| {});
                        prop_assert_eq!(owing(&buddy), before - matured);
                        prop_assert!(matured < enough + (1 << (ORDERS - 1)));
                        settled += u64::from(matured == 0);
                        prop_assert!(settled < 1000, "frames were lost");
                    }
                }
                numbers.sort_unstable();
                prop_assert_eq!(numbers, (start..start + count).collect::<Vec<_>>());
                let by = mix.index(taken.len());
                taken.rotate_left(by);
                if round % 2 == 1 {
                    taken.reverse();
                }
                for ((frame, order), debt) in taken.into_iter().zip(debts.iter().cycle()) {
                    // Some owe nothing, some have a settled debt, some an open one.
                    let stamp = if *debt == 0 { 0 } else { settled + debt };
                    let first = frame.number().get();
                    owed.extend((first..first + (1 << order)).map(|number| (number, stamp)));
                    buddy.free_owed(&frames, Owed::new(frame, Stamp::stored(stamp)), order);
                }
                for order in 0..ORDERS {
                    let mut block = buddy.owing[order as usize].front();
                    while let Some(first) = block {
                        let stamp = frames.get(first).stamp().get();
                        let frames_of = first.get()..first.get() + (1 << order);
                        prop_assert!(frames_of.into_iter().all(|number| (1..=stamp).contains(&owed[&number])));
                        let next = frames.get(first).next.load(crate::primitive::Ordering::Relaxed);
                        block = (next != u32::MAX).then(|| FrameNumber::new(next));
                    }
                }
            }
            buddy.mature(&frames, u32::MAX, |_| true, |_, _| {});
            prop_assert_eq!(owing(&buddy), 0);
            prop_assert_eq!(largest(&buddy), untouched);
        }
    }
}
