//! The bytes of pages, in frames and on devices, in a run that keeps them.
//!
//! Without contents a run simulates time alone, and pages read as zeros. With contents, a memory manager that loses a
//! store, shows an old version, or leaks one program's bytes to another computes wrong values, which a model of the
//! program detects. A write-out takes a page's bytes when it begins and stores them when it ends. A read takes them
//! when it begins and delivers them when it ends. This is the worst case that a device may produce.
//!
//! Each word says where it belongs, so that a load from a wrong frame finds a wrong value. A block of a file that was
//! never written holds [`stored_word`] of its file, page and word. A frame that is freed is filled with [`poison`].
//!
//! Most frames hold one of these patterns from end to end, and a program loads a word or two of them. So a frame's
//! pattern is only noted, and each word computed when it is loaded. The first store to such a frame writes the pattern
//! into the machine's memory. A page that is only read takes no memory of the host.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use ceasefire_memory::{Block, FrameNumber, ObjectId, Store, PAGE_BYTES};

use crate::hardware::ram::Ram;

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

/// The words of a free frame.
fn poison(frame: FrameNumber) -> u64 {
    0xdead << 48 | u64::from(frame.get())
}

/// The words of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Zeros, or a page table, as the machine's memory has them. A table has lost all its entries when it is freed.
    Zeros,
    /// As the machine's memory has them.
    Written,
    /// The poison of a free frame. If it is `blank`, the machine's memory has zeros there.
    Poison { blank: bool },
    /// The words of a file's page with this [`mark`], likewise.
    Marked { mark: u64, blank: bool },
}

impl Words {
    /// Whether the machine's memory has zeros there.
    fn blank(self) -> bool {
        match self {
            Self::Zeros => true,
            Self::Written => false,
            Self::Poison { blank } | Self::Marked { blank, .. } => blank,
        }
    }

    /// As one number. The low bits of a mark are free; 0 is a frame that was never used.
    fn pack(self) -> u64 {
        match self {
            Self::Zeros => 0,
            Self::Written => 1,
            Self::Poison { blank } => 2 | u64::from(blank),
            Self::Marked { mark, blank } => mark | u64::from(blank),
        }
    }

    fn unpack(number: u64) -> Self {
        let blank = number & 1 == 1;
        match number {
            0 => Self::Zeros,
            1 => Self::Written,
            2 | 3 => Self::Poison { blank },
            _ => Self::Marked { mark: number & !1, blank },
        }
    }
}

/// The bytes of one page on a device, or on its way to or from one.
#[derive(Debug, Clone)]
pub(crate) enum Page {
    /// These words.
    Written(Box<[u64]>),
    /// The words of a file's page with this [`mark`].
    Marked(u64),
}

/// The bytes of every frame, and of every block that was written.
#[derive(Debug)]
pub(crate) struct Contents {
    /// The [`Words`] of each frame. The host provides memory only for the parts that are touched.
    frames: RefCell<Vec<u64>>,
    blocks: RefCell<BTreeMap<Block, Page>>,
    /// The files whose holes are marked.
    marked: RefCell<BTreeSet<ObjectId>>,
}

/// A word of a frame.
#[derive(Debug)]
pub(crate) struct Word<'a> {
    contents: &'a Contents,
    ram: &'a Ram,
    frame: FrameNumber,
    index: usize,
}

impl Word<'_> {
    pub(crate) fn load(&self) -> u64 {
        match self.contents.words(self.frame) {
            Words::Zeros | Words::Written => self.ram.words(self.frame)[self.index].load(Ordering::Relaxed),
            Words::Poison { .. } => poison(self.frame),
            Words::Marked { mark, .. } => mark | self.index as u64,
        }
    }

    pub(crate) fn store(&self, value: u64) {
        self.contents.write_down(self.ram, self.frame);
        self.ram.words(self.frame)[self.index].store(value, Ordering::Relaxed);
    }
}

impl Contents {
    /// `frames` frames of zeros, and a device without blocks.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            frames: RefCell::new(vec![0; frames as usize]),
            blocks: RefCell::default(),
            marked: RefCell::default(),
        }
    }

    fn words(&self, frame: FrameNumber) -> Words {
        Words::unpack(self.frames.borrow()[frame.index()])
    }

    fn set(&self, frame: FrameNumber, words: Words) {
        self.frames.borrow_mut()[frame.index()] = words.pack();
    }

    /// Writes a frame's pattern into the machine's memory, where parts of it may change from now on.
    fn write_down(&self, ram: &Ram, frame: FrameNumber) {
        match self.words(frame) {
            Words::Zeros | Words::Written => {}
            Words::Poison { .. } => ram.fill(frame, |_| poison(frame)),
            Words::Marked { mark, .. } => ram.fill(frame, |word| mark | word),
        }
        self.set(frame, Words::Written);
    }

    /// The word at an offset of a frame.
    pub(crate) fn word<'a>(&'a self, ram: &'a Ram, frame: FrameNumber, offset: u64) -> Word<'a> {
        Word { contents: self, ram, frame, index: (offset / 8) as usize }
    }

    /// Copies bytes out of a frame.
    pub(crate) fn load(&self, ram: &Ram, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        self.write_down(ram, frame);
        ram.load(frame, offset, into);
    }

    /// Copies bytes into a frame.
    pub(crate) fn store(&self, ram: &Ram, frame: FrameNumber, offset: usize, from: &[u8]) {
        self.write_down(ram, frame);
        ram.store(frame, offset, from);
    }

    /// Fills a frame with zeros.
    pub(crate) fn zero(&self, ram: &Ram, frame: FrameNumber) {
        if !self.words(frame).blank() {
            ram.fill(frame, |_| 0);
        }
        self.set(frame, Words::Zeros);
    }

    /// Copies a frame.
    pub(crate) fn copy(&self, ram: &Ram, from: FrameNumber, to: FrameNumber) {
        match self.words(from) {
            Words::Zeros => self.zero(ram, to),
            Words::Marked { mark, .. } => self.mark(to, mark),
            Words::Written | Words::Poison { .. } => {
                self.write_down(ram, from);
                ram.copy(from, to);
                self.set(to, Words::Written);
            }
        }
    }

    /// Fills a free frame with poison.
    pub(crate) fn free(&self, frame: FrameNumber) {
        self.set(frame, Words::Poison { blank: self.words(frame).blank() });
    }

    /// The frame holds the words of a file's page with this [`mark`].
    fn mark(&self, frame: FrameNumber, mark: u64) {
        self.set(frame, Words::Marked { mark, blank: self.words(frame).blank() });
    }

    /// The current bytes of a frame.
    pub(crate) fn take(&self, ram: &Ram, frame: FrameNumber) -> Page {
        if let Words::Marked { mark, .. } = self.words(frame) {
            return Page::Marked(mark);
        }
        self.write_down(ram, frame);
        Page::Written(ram.words(frame).iter().map(|word| word.load(Ordering::Relaxed)).collect())
    }

    /// Delivers the bytes of a page to a frame.
    pub(crate) fn deliver(&self, ram: &Ram, frame: FrameNumber, page: &Page) {
        match page {
            Page::Marked(mark) => self.mark(frame, *mark),
            Page::Written(words) => {
                ram.fill(frame, |word| words[word as usize]);
                self.set(frame, Words::Written);
            }
        }
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
        Page::Marked(mark(file, block.index.into()))
    }

    /// The holes of a file hold [`stored_word`]s from now on.
    pub(crate) fn mark_holes(&self, file: ObjectId) {
        self.marked.borrow_mut().insert(file);
    }

    /// Fills a frame of zeros for a hole, if the hole does not hold zeros.
    pub(crate) fn fill_hole(&self, frame: FrameNumber, block: Block) {
        let Store::File(file) = block.store else { return };
        if self.marked.borrow().contains(&file) {
            self.mark(frame, mark(file, block.index.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire::Schedule;

    use super::*;
    use crate::{Options, Simulation};

    const FRAMES: u32 = 4;

    fn frame(number: u64) -> FrameNumber {
        FrameNumber::new(number as u32 % FRAMES)
    }

    fn file() -> ObjectId {
        let machine = crate::testing::machine(1);
        let simulation = Simulation::new(&machine, Options::new(Schedule::Batched)).expect("it fits");
        simulation.memory().create_file(16).expect("a free object")
    }

    fn block(file: ObjectId, index: u64) -> Block {
        Block { store: Store::File(file), index: index as u32 }
    }

    #[test]
    fn frames_hold_the_same_words_as_plain_memory() {
        let (ram, contents) = (Ram::new(FRAMES).expect("a few pages"), Contents::new(FRAMES));
        let mut plain = vec![[0u64; 512]; FRAMES as usize];
        let file = file();
        contents.mark_holes(file);
        let mut state = 1u64;
        for step in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (one, other, word) = (frame(state >> 40), frame(state >> 43), (state >> 46) % 512);
            let page = state >> 60;
            match (state >> 33) % 8 {
                0 => contents.word(&ram, one, 8 * word).store(state),
                1 => contents.store(&ram, one, 8 * word as usize, &state.to_le_bytes()),
                2 => contents.zero(&ram, one),
                3 => contents.free(one),
                4 => contents.copy(&ram, one, other),
                5 => contents.deliver(&ram, other, &contents.take(&ram, one)),
                6 => contents.deliver(&ram, one, &contents.find(block(file, page))),
                _ => {
                    contents.zero(&ram, one);
                    contents.fill_hole(one, block(file, page));
                }
            }
            let from = plain[one.index()];
            match (state >> 33) % 8 {
                0 | 1 => plain[one.index()][word as usize] = state,
                2 => plain[one.index()] = [0; 512],
                3 => plain[one.index()] = [poison(one); 512],
                4 | 5 => plain[other.index()] = from,
                _ => {
                    let word = |word| stored_word(file, page * PAGE_BYTES + 8 * word as u64);
                    plain[one.index()] = std::array::from_fn(word);
                }
            }
            for number in 0..u64::from(FRAMES) {
                let expected = plain[number as usize][word as usize];
                assert_eq!(contents.word(&ram, frame(number), 8 * word).load(), expected, "step {step}");
                if step % 64 == 0 {
                    let mut bytes = [0; 8];
                    contents.load(&ram, frame(number), 8 * word as usize, &mut bytes);
                    assert_eq!(u64::from_le_bytes(bytes), expected, "step {step}");
                }
            }
        }
    }

    #[test]
    fn a_page_that_is_only_read_touches_no_memory_of_the_host() {
        let (ram, contents) = (Ram::new(FRAMES).expect("a few pages"), Contents::new(FRAMES));
        let file = file();
        contents.mark_holes(file);
        for _ in 0..2 {
            contents.zero(&ram, frame(1));
            contents.fill_hole(frame(1), block(file, 5));
            contents.copy(&ram, frame(1), frame(2));
            for number in [1, 2] {
                assert_eq!(
                    contents.word(&ram, frame(number), 72).load(),
                    stored_word(file, 5 * PAGE_BYTES + 72)
                );
                contents.free(frame(number));
                assert_eq!(contents.word(&ram, frame(number), 72).load(), poison(frame(number)));
                assert!(ram.words(frame(number)).iter().all(|word| word.load(Ordering::Relaxed) == 0));
            }
        }
    }
}
