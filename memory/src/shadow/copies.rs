//! The frames that hold an older copy of the page of a block.

use alloc::vec::Vec;

use super::chains::{near, Chains};
use crate::address::{Block, Store};

/// The older copies. A frame holds one page at a time, so it is handed out before it can hold another older copy.
#[derive(Debug)]
pub(super) struct Copies {
    /// The first frame of the machine.
    first: u32,
    /// For each frame from the first on, the block of which it holds an older copy.
    blocks: Vec<Option<Block>>,
    by_block: Chains,
}

impl Copies {
    /// No older copy, on a machine whose frames are numbered from `first` on.
    pub(super) fn new(first: u32) -> Self {
        Self { first, blocks: Vec::new(), by_block: Chains::default() }
    }

    /// The page of a block is in another frame than this one from now on.
    pub(super) fn add(&mut self, frame: u32, block: Block) {
        self.remove(frame);
        let at = (frame - self.first) as usize;
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, None);
        }
        self.blocks[at] = Some(block);
        self.by_block.add(at as u32, hash(block));
    }

    /// A frame holds no older copy any more.
    pub(super) fn remove(&mut self, frame: u32) {
        let at = frame - self.first;
        if self.blocks.get_mut(at as usize).and_then(Option::take).is_some() {
            self.by_block.remove(at);
        }
    }

    /// The frames with older copies of pages of a store, from the page `first` up to `last`.
    pub(super) fn of(&self, store: Store, first: u32, last: u32) -> Vec<u32> {
        let count = self.by_block.len();
        if count == 0 {
            return Vec::new();
        }
        let is_one = |block: Block| block.store == store && (first..=last).contains(&block.index);
        let block_at = |at: &u32| self.blocks[*at as usize];
        if (last - first) as usize >= count {
            let all = self.by_block.all().filter(|at| block_at(at).is_some_and(is_one));
            return all.map(|at| self.first + at).collect();
        }
        let blocks = (first..=last).map(|index| Block { store, index });
        let found = blocks
            .flat_map(|block| self.by_block.of(hash(block)).filter(move |at| block_at(at) == Some(block)));
        found.map(|at| self.first + at).collect()
    }
}

pub(super) fn hash(block: Block) -> u32 {
    let group = match block.store {
        Store::File(file) => u64::from(file.get()) + 1,
        Store::Swap => 0,
    };
    near(group, block.index.into())
}
