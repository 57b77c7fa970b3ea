//! What pages hold, in frames and on devices, on a machine that is asked to keep it.
//!
//! Without contents only time passes: pages read as zeros. With them a memory manager that loses a store, shows an old
//! version, or leaks one program's bytes to another computes wrong values, which a model of the program sees. The
//! machine helps it to be seen: a write-out takes a page's bytes when it begins and keeps them when it ends, and a read
//! takes them when it begins and delivers them when it ends, which is the worst that a device may do. What a device holds
//! of files from the start is zeros.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ceasefire_memory::{Block, FrameNumber, Store, PAGE_BYTES};

use crate::hardware::ram::Ram;

/// The bytes of one page.
pub(crate) type Page = Box<[u8; PAGE_BYTES as usize]>;

/// The bytes of every page that was written out.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    blocks: RefCell<BTreeMap<Block, Page>>,
}

impl Contents {
    /// A frame's bytes, as they are now.
    pub(crate) fn take(ram: &Ram, frame: FrameNumber) -> Page {
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        ram.load(frame, 0, &mut *page);
        page
    }

    /// Keeps a block.
    pub(crate) fn keep(&self, block: Block, page: Page) {
        self.blocks.borrow_mut().insert(block, page);
    }

    /// A block as it was kept last; `None` if it is all zeros, never having been kept.
    ///
    /// # Panics
    /// If it is one of the swap device and was never kept: the memory manager reads what it has not written.
    pub(crate) fn find(&self, block: Block) -> Option<Page> {
        let kept = self.blocks.borrow().get(&block).cloned();
        assert!(
            kept.is_some() || block.store != Store::Swap,
            "the memory manager reads {block:?}, which it never wrote out"
        );
        kept
    }
}
