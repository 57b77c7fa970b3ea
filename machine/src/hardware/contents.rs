//! The bytes of pages, in frames and on devices, in a run that keeps them.
//!
//! Without contents a run simulates time alone, and pages read as zeros. With contents, a memory manager that loses a
//! store, shows an old version, or leaks one program's bytes to another computes wrong values, which a model of the
//! program detects. A write-out takes a page's bytes when it begins and stores them when it ends. A read takes them
//! when it begins and delivers them when it ends. This is the worst case that a device may produce.
//!
//! Each word says where it belongs, so that a load from a wrong frame finds a wrong value. A block of a file that was
//! never written holds [`stored_word`] of its file, page and word. A frame that is freed is filled with [`poison`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use ceasefire_memory::{Block, FrameNumber, ObjectId, Store, PAGE_BYTES};

use crate::hardware::ram::Ram;

/// The bytes of one page.
pub(crate) type Page = Box<[u8; PAGE_BYTES as usize]>;

/// The word at `offset` bytes of a file that holds words of its own from the beginning: one that its device stores
/// ([`open_stored_file`](ceasefire_memory::Memory::open_stored_file)) and no program wrote, or one whose
/// [holes are marked](crate::Simulation::mark_holes). It tells the file, the page and the word apart from all others.
pub fn stored_word(file: ObjectId, offset: u64) -> u64 {
    mark(file, offset / PAGE_BYTES) | (offset % PAGE_BYTES / 8)
}

/// The bits that the words of a page of a file have in common. The upper ones are those of no frame's poison, no
/// program's store and no page-table entry.
fn mark(file: ObjectId, page: u64) -> u64 {
    let mut mark = ((u64::from(file.get()) << 32) | page).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mark = (mark ^ (mark >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (0x5afe << 48) | ((mark >> 25) << 9)
}

/// The words of a page of a file that holds words of its own.
fn marked(file: ObjectId, page: u32) -> impl Iterator<Item = u64> {
    let mark = mark(file, page.into());
    (0..PAGE_BYTES / 8).map(move |word| mark | word)
}

/// The words of a free frame.
pub(crate) fn poison(frame: FrameNumber) -> u64 {
    0xdead << 48 | u64::from(frame.get())
}

/// The bytes of every block that was written.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    blocks: RefCell<BTreeMap<Block, Page>>,
    /// The files whose holes are marked.
    marked: RefCell<BTreeSet<ObjectId>>,
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

    /// The bytes that were last stored in a block, or that a file has held there from the beginning.
    ///
    /// # Panics
    /// If the block is on the swap device and was never written: the memory manager reads a page that it has not
    /// written.
    pub(crate) fn find(&self, block: Block) -> Page {
        if let Some(page) = self.blocks.borrow().get(&block) {
            return page.clone();
        }
        let Store::File(file) = block.store else {
            panic!("the memory manager reads {block:?}, which it never wrote out");
        };
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        for (bytes, word) in page.chunks_exact_mut(8).zip(marked(file, block.index)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page
    }

    /// The holes of a file hold [`stored_word`]s from now on.
    pub(crate) fn mark_holes(&self, file: ObjectId) {
        self.marked.borrow_mut().insert(file);
    }

    /// Fills a frame for a hole, if it does not hold zeros.
    pub(crate) fn fill_hole(&self, ram: &Ram, frame: FrameNumber, block: Block) {
        let Store::File(file) = block.store else { return };
        if self.marked.borrow().contains(&file) {
            for (to, word) in ram.words(frame).iter().zip(marked(file, block.index)) {
                to.store(word, Ordering::Relaxed);
            }
        }
    }
}
