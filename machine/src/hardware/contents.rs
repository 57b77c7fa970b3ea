//! The bytes of pages, in frames and on devices, in a run that keeps them.
//!
//! Without contents a run simulates time alone, and pages read as zeros. With contents, a memory manager that loses a
//! store, shows an old version, or leaks one program's bytes to another computes wrong values, which a model of the
//! program detects. A write-out takes a page's bytes when it begins and stores them when it ends. A read takes them
//! when it begins and delivers them when it ends. This is the worst case that a device may produce. The initial
//! content of files on a device is zeros.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ceasefire_memory::{Block, FrameNumber, Store, PAGE_BYTES};

use crate::hardware::ram::Ram;

/// The bytes of one page.
pub(crate) type Page = Box<[u8; PAGE_BYTES as usize]>;

/// The bytes of every block that was written.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    blocks: RefCell<BTreeMap<Block, Page>>,
}

impl Contents {
    /// The current bytes of a frame.
    pub(crate) fn take(ram: &Ram, frame: FrameNumber) -> Page {
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        ram.load(frame, 0, &mut *page);
        page
    }

    /// Stores the bytes of a block.
    pub(crate) fn keep(&self, block: Block, page: Page) {
        self.blocks.borrow_mut().insert(block, page);
    }

    /// The bytes that were last stored in a block; `None` for zeros, if it was never written.
    ///
    /// # Panics
    /// If the block is on the swap device and was never written: the memory manager reads a page that it has not
    /// written.
    pub(crate) fn find(&self, block: Block) -> Option<Page> {
        let kept = self.blocks.borrow().get(&block).cloned();
        assert!(
            kept.is_some() || block.store != Store::Swap,
            "the memory manager reads {block:?}, which it never wrote out"
        );
        kept
    }
}
