//! The frames that were released in debt, as the oracle saw it, until they are freed or handed out.
//!
//! A frame is not reported when its debt is settled. So these frames are more than those in debt, and only the oracle
//! can say which of them a CPU can still reach.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ceasefire_memory::{Block, Store};

use crate::oracle::numbered::Numbered;

/// A frame that was released in debt, which CPUs may still read.
#[derive(Debug, Clone, Copy)]
struct Left {
    node: usize,
    /// The moment at which it was released, in nanoseconds.
    since: u64,
    block: Option<Block>,
}

/// The number of a node's frames.
#[derive(Debug, Default)]
struct Count {
    now: usize,
    /// The number at which those in debt are next counted.
    due: Option<usize>,
}

/// The frames that were released in debt.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    left: Numbered<Left>,
    /// The same frames in the order in which they were released in debt, with the moment. Those that were freed since stay.
    order: VecDeque<(u64, u32)>,
    /// The blocks whose pages they held, with their frames, until the page can be found elsewhere.
    copies: BTreeSet<(Block, u32)>,
    counts: BTreeMap<usize, Count>,
}

impl Debts {
    /// A frame of `node`, which held the page of `block`, is released in debt.
    pub(crate) fn add(&mut self, frame: u32, node: usize, since: u64, block: Option<Block>) {
        self.left.insert(frame, Left { node, since, block });
        self.order.push_back((since, frame));
        if let Some(block) = block {
            self.copies.insert((block, frame));
        }
        self.counts.entry(node).or_default().now += 1;
    }

    /// Ends the debt of a frame, if it was released in debt.
    pub(crate) fn remove(&mut self, frame: u32) {
        let Some(Left { node, block, .. }) = self.left.remove(&frame) else { return };
        self.counts.entry(node).or_default().now -= 1;
        if let Some(block) = block {
            self.copies.remove(&(block, frame));
        }
    }

    /// The moment at which a frame was released in debt.
    pub(crate) fn since(&self, frame: u32) -> Option<u64> {
        self.left.get(&frame).map(|left| left.since)
    }

    /// Takes a frame that was released in debt before a moment and is still neither freed nor handed out.
    pub(crate) fn take_older(&mut self, moment: u64) -> Option<u32> {
        while let Some((since, frame)) = self.order.front().copied().filter(|&(since, _)| since < moment) {
            self.order.pop_front();
            if self.since(frame) == Some(since) {
                return Some(frame);
            }
        }
        None
    }

    /// The nodes with frames that were released in debt.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.counts.iter().filter(|(_, count)| count.now > 0).map(|(&node, _)| node).collect()
    }

    /// A CPU may use entries again that it could not use, so more frames may be in reach than were counted.
    pub(crate) fn come_into_reach(&mut self) {
        self.counts.values_mut().for_each(|count| count.due = None);
    }

    /// Takes a frame that held one of these pages of a store, which can be found elsewhere from now on.
    pub(crate) fn take_copy(&mut self, store: Store, first: u32, last: u32) -> Option<u32> {
        let (first, last) = (Block { store, index: first }, Block { store, index: last });
        let &copy = self.copies.range((first, 0)..=(last, u32::MAX)).next()?;
        self.copies.remove(&copy);
        Some(copy.1)
    }

    /// Whether more than `most` frames of `node` are in debt: those that a CPU can reach. They are counted only when
    /// they may have become too many.
    pub(crate) fn are_too_many(
        &mut self,
        node: usize,
        most: usize,
        is_in_reach: impl Fn(u32) -> bool,
    ) -> bool {
        let Some(Count { now, due }) = self.counts.get_mut(&node) else { return false };
        if *now < due.unwrap_or(most + 1) {
            return false;
        }
        let of_node = self.left.iter().filter(|(_, left)| left.node == node);
        let in_debt = of_node.filter(|(&frame, _)| is_in_reach(frame)).count();
        *due = Some(*now + most.saturating_sub(in_debt).max(most / 8) + 1);
        in_debt > most
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_debt_lasts_until_its_frame_is_freed() {
        let mut debts = Debts::default();
        debts.add(3, 0, 50, None);
        assert_eq!((debts.since(3), debts.since(4)), (Some(50), None));
        debts.remove(4);
        debts.remove(3);
        assert_eq!(debts.since(3), None);
    }

    #[test]
    fn old_debts_are_taken_in_their_order_and_not_after_their_end() {
        let mut debts = Debts::default();
        for (frame, since) in [(3, 50), (4, 60), (5, 70), (6, 70)] {
            debts.add(frame, 0, since, None);
        }
        debts.remove(4);
        debts.remove(5);
        debts.add(5, 0, 90, None);
        assert_eq!(debts.take_older(50), None);
        assert_eq!(
            [debts.take_older(71), debts.take_older(71), debts.take_older(71)],
            [Some(3), Some(6), None]
        );
        assert_eq!([debts.take_older(91), debts.take_older(91)], [Some(5), None]);
    }

    #[test]
    fn frames_that_come_into_reach_are_counted() {
        let mut debts = Debts::default();
        (0..20).for_each(|frame| debts.add(frame, 0, 0, None));
        assert!(!debts.are_too_many(0, 16, |_| false));
        assert!(!debts.are_too_many(0, 16, |_| true), "they were counted just now");
        debts.come_into_reach();
        assert!(debts.are_too_many(0, 16, |_| true));
        assert_eq!((debts.nodes(), Debts::default().nodes()), (vec![0], vec![]));
    }

    #[test]
    fn the_copies_of_a_page_are_taken_once_and_not_after_their_frames_are_freed() {
        let mut debts = Debts::default();
        for (frame, index) in [(3, 7), (4, 7), (5, 8), (6, 9)] {
            debts.add(frame, 0, 0, Some(Block { store: Store::Swap, index }));
        }
        debts.remove(4);
        debts.remove(5);
        let mut take = |first, last| debts.take_copy(Store::Swap, first, last);
        assert_eq!(take(0, 6), None);
        assert_eq!([take(7, 8), take(7, 8)], [Some(3), None]);
        assert_eq!(take(0, u32::MAX), Some(6));
        assert_eq!(debts.since(3), Some(0), "it can still be read");
    }

    #[test]
    fn debts_of_a_node_are_counted_when_they_may_be_too_many() {
        let mut debts = Debts::default();
        let counted = Cell::new(0);
        let mut leaves = |frame: u32, node: usize, reached: bool| {
            debts.add(frame, node, 0, None);
            debts.are_too_many(node, 16, |_| {
                counted.set(counted.get() + 1);
                reached
            })
        };
        assert!(!(0..16).any(|frame| leaves(frame, 0, true)));
        assert!(!leaves(100, 1, true), "another node has its own bound");
        assert_eq!(counted.get(), 0);
        assert!(!leaves(16, 0, false));
        assert_eq!(counted.get(), 17);
        // None of the 17 was in debt, so the next 16 cannot be too many.
        assert!(!(17..33).any(|frame| leaves(frame, 0, true)));
        assert_eq!(counted.get(), 17);
        assert!(leaves(33, 0, true));
        assert_eq!(counted.get(), 17 + 34);
    }
}
