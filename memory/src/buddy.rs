//! The buddy allocator: free blocks of 2^order frames, split on demand and merged with their buddy when freed.
//!
//! The classic scheme (Knowlton 1965), as every kernel has it. A block's buddy differs from it in one bit of its
//! number, relative to the node's first frame; a free block is marked at its first frame.

use crate::address::FrameNumber;
use crate::frame::{Frame, FrameTable};
use crate::list::List;

/// Blocks reach from one frame to 2^10 (4 MiB), as in Linux.
pub(crate) const ORDERS: u32 = 11;

/// The free blocks of one node. Guarded by the node's zone lock.
#[derive(Debug)]
pub(crate) struct Buddy {
    start: u32,
    end: u32,
    free: [List; ORDERS as usize],
}

impl Buddy {
    /// All frames from `start` up to `end` free, in blocks as large as fit.
    pub(crate) fn new(frames: &FrameTable, start: u32, end: u32) -> Self {
        let mut buddy = Self { start, end, free: core::array::from_fn(|_| List::default()) };
        // From the top down, so that the lowest blocks are at the front and handed out first.
        let mut at = end;
        while at > start {
            let order = (at - start).trailing_zeros().min(ORDERS - 1);
            at -= 1 << order;
            buddy.list(frames, at, order);
        }
        buddy
    }

    pub(crate) fn allocate(&mut self, frames: &FrameTable) -> Option<Frame> {
        let order = (0..ORDERS).find(|&order| self.free[order as usize].len() > 0)?;
        let block = self.free[order as usize].pop_front(frames)?;
        frames.get(block).set_free_order(None);
        for half in (0..order).rev() {
            self.list(frames, block.get() + (1 << half), half);
        }
        Some(Frame::owned(block))
    }

    pub(crate) fn free(&mut self, frames: &FrameTable, frame: Frame) {
        let (mut block, mut order) = (frame.into_number().get() - self.start, 0);
        while order < ORDERS - 1 {
            let buddy = block ^ (1 << order);
            if self.start + buddy >= self.end {
                break;
            }
            let number = FrameNumber::new(self.start + buddy);
            if frames.get(number).free_order() != Some(order) {
                break;
            }
            self.free[order as usize].remove(frames, number);
            frames.get(number).set_free_order(None);
            block &= buddy;
            order += 1;
        }
        self.list(frames, self.start + block, order);
    }

    fn list(&mut self, frames: &FrameTable, block: u32, order: u32) {
        let number = FrameNumber::new(block);
        frames.get(number).set_free_order(Some(order));
        self.free[order as usize].push_front(frames, number);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use proptest::prelude::*;

    use super::*;
    use crate::node::NodeLayout;

    fn largest(buddy: &Buddy) -> Vec<u32> {
        buddy.free.iter().map(List::len).collect()
    }

    proptest! {
        #[test]
        fn hands_out_each_frame_once_and_merges_all_back(
            start in 0u32..3, count in 1u32..5000, order in any::<prop::sample::Index>(), rounds in 1usize..4
        ) {
            let frames = FrameTable::new(&[NodeLayout::new(start + count)]);
            let mut buddy = Buddy::new(&frames, start, start + count);
            let untouched = largest(&buddy);
            for round in 0..rounds {
                let mut taken: Vec<Frame> = core::iter::from_fn(|| buddy.allocate(&frames)).collect();
                let mut numbers: Vec<u32> = taken.iter().map(|frame| frame.number().get()).collect();
                numbers.sort_unstable();
                prop_assert_eq!(numbers, (start..start + count).collect::<Vec<_>>());
                taken.rotate_left(order.index(count as usize));
                if round % 2 == 1 {
                    taken.reverse();
                }
                for frame in taken {
                    buddy.free(&frames, frame);
                }
                prop_assert_eq!(largest(&buddy), untouched.clone());
            }
        }
    }
}
