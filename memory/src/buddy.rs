//! The buddy allocator: free blocks of 2^order frames, split on demand and merged with their buddy when freed.
//!
//! The classic scheme (Knowlton 1965), as every kernel has it. A block is aligned to its size, and its buddy differs from
//! it in one bit of its number; a free block is marked at its first frame.

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
            let order = at.trailing_zeros().min((at - start).ilog2()).min(ORDERS - 1);
            at -= 1 << order;
            buddy.list(frames, at, order);
        }
        buddy
    }

    /// A block of 2^`order` frames; the first of them.
    pub(crate) fn allocate(&mut self, frames: &FrameTable, order: u32) -> Option<Frame> {
        let found = (order..ORDERS).find(|&order| self.free[order as usize].len() > 0)?;
        let block = self.free[found as usize].pop_front(frames)?;
        frames.get(block).set_free_order(None);
        for half in (order..found).rev() {
            self.list(frames, block.get() + (1 << half), half);
        }
        Some(Frame::owned(block))
    }

    /// Takes back a block of 2^`order` frames by its first.
    pub(crate) fn free(&mut self, frames: &FrameTable, frame: Frame, mut order: u32) {
        let mut block = frame.into_number().get();
        while order < ORDERS - 1 {
            let buddy = block ^ (1 << order);
            if buddy < self.start || buddy >= self.end {
                break;
            }
            let number = FrameNumber::new(buddy);
            if frames.get(number).free_order() != Some(order) {
                break;
            }
            self.free[order as usize].remove(frames, number);
            frames.get(number).set_free_order(None);
            block &= buddy;
            order += 1;
        }
        self.list(frames, block, order);
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
            below in 0u32..1030, start in 0u32..1030, count in 1u32..5000, mix in any::<prop::sample::Index>(),
            rounds in 1usize..4
        ) {
            let start = below + start;
            let frames = FrameTable::new(FrameNumber::new(below), &[NodeLayout::new(start - below + count)]);
            let mut buddy = Buddy::new(&frames, start, start + count);
            let untouched = largest(&buddy);
            for round in 0..rounds {
                // Blocks of every order in turn, and what is left frame by frame.
                let mut taken: Vec<(Frame, u32)> = Vec::new();
                for order in (0..ORDERS).chain(core::iter::repeat(0)) {
                    match buddy.allocate(&frames, order) {
                        Some(frame) => taken.push((frame, order)),
                        None if order == 0 => break,
                        None => {}
                    }
                }
                let mut numbers: Vec<u32> = Vec::new();
                for (frame, order) in &taken {
                    let first = frame.number().get();
                    prop_assert_eq!(first % (1 << order), 0, "a block that is not aligned to its size");
                    numbers.extend(first..first + (1 << order));
                }
                numbers.sort_unstable();
                prop_assert_eq!(numbers, (start..start + count).collect::<Vec<_>>());
                let by = mix.index(taken.len());
                taken.rotate_left(by);
                if round % 2 == 1 {
                    taken.reverse();
                }
                for (frame, order) in taken {
                    buddy.free(&frames, frame, order);
                }
                prop_assert_eq!(largest(&buddy), untouched.clone());
            }
        }
    }
}
