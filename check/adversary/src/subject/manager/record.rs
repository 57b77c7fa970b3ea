//! The memory manager's page tables as the hardware walks them, and what it has said about frames and translations.
//!
//! An entry that a walker has read is as old as the last moment at which it stood in its table. The memory manager
//! reports when a frame is freed, declared clean or superseded, when a translation is made, and when a call that took
//! translations away returns. An access by an entry that is older than such a report breaks a rule.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;

use ceasefire_memory::{Block, Entry, Protection, Store, Table};

use crate::hardware::entry::{Read, Shape};
use crate::hardware::frame::{Allocation, Frame};
use crate::hardware::paging::{Paging, Past};
use crate::hardware::tlb::Filled;
use crate::hardware::Hardware;
use crate::model::rule::Rule;

/// One use of a frame as a table, and the next.
#[derive(Debug, Default)]
struct Use {
    table: Table,
    next: OnceCell<Box<Use>>,
}

/// What is known of a frame beside its allocation.
#[derive(Debug, Default)]
struct Page {
    /// Its first word: all that programs use of a page.
    word: Cell<u64>,
    /// How often it was filled with zeros. A frame that was is an empty table, if it is used as one.
    zeroed: Cell<u32>,
    table: OnceCell<Box<Use>>,
    /// When another frame may first have held the newest version of its page.
    superseded: Cell<u64>,
    /// The write-outs that read it now.
    writing: Cell<u32>,
    /// It was released in debt, and has not been freed since.
    left: Cell<bool>,
}

/// A call that has returned.
#[derive(Debug)]
struct Returned {
    root: u32,
    pages: std::ops::Range<u64>,
    at: u64,
    /// No store is allowed, and no load either.
    loads: bool,
    /// When it began.
    began: u64,
    /// The translations that were in the tables when it returned.
    there: BTreeMap<u64, (u32, bool)>,
}

/// For each page of each space, by its root, the frames that it was given, and when.
type Installed = BTreeMap<(u32, u64), Vec<(u64, u32)>>;

/// The record.
#[derive(Debug)]
pub(crate) struct Record {
    pages: Box<[Page]>,
    returned: RefCell<Vec<Returned>>,
    installed: RefCell<Installed>,
    /// Frames that were released in debt, by the block of their page, until it is found again.
    left: RefCell<BTreeMap<Block, Vec<u32>>>,
    /// What the devices hold.
    stored: RefCell<BTreeMap<Block, u64>>,
}

/// The word of a frame without an owner.
const POISON: u64 = 0xdead;
/// The most pages of a range that are looked at.
const LOOKED_AT: u64 = 64;

const SHAPE: Shape = Shape { bits: 9, top: 3 };

impl Record {
    pub(crate) fn new(frames: usize) -> Self {
        Self {
            pages: (0..frames).map(|_| Page::default()).collect(),
            returned: RefCell::default(),
            installed: RefCell::default(),
            left: RefCell::default(),
            stored: RefCell::default(),
        }
    }

    fn page(&self, frame: u32) -> &Page {
        &self.pages[frame as usize]
    }

    /// The table in a frame.
    pub(crate) fn table(&self, frame: u32) -> &Table {
        let page = self.page(frame);
        let mut this = page.table.get_or_init(Box::default);
        for _ in 0..page.zeroed.get() {
            this = this.next.get_or_init(Box::default);
        }
        &this.table
    }

    pub(crate) fn word(&self, frame: u32) -> u64 {
        self.page(frame).word.get()
    }

    pub(crate) fn set_word(&self, frame: u32, word: u64) {
        self.page(frame).word.set(word);
    }

    pub(crate) fn zero(&self, frame: u32) {
        let page = self.page(frame);
        page.word.set(0);
        page.zeroed.set(page.zeroed.get() + 1);
    }

    // Devices.

    /// A write-out of the frame begins or ends.
    pub(crate) fn writes(&self, frame: u32, begins: bool) {
        let writing = &self.page(frame).writing;
        writing.set(if begins { writing.get() + 1 } else { writing.get() - 1 });
    }

    pub(crate) fn put_block(&self, block: Block, word: u64) {
        self.stored.borrow_mut().insert(block, word);
    }

    pub(crate) fn block(&self, block: Block) -> u64 {
        self.stored.borrow().get(&block).copied().unwrap_or(0)
    }

    // Reports.

    pub(crate) fn frame_freed(&self, frame: u32) {
        self.page(frame).left.set(false);
        self.page(frame).word.set(POISON);
    }

    pub(crate) fn frame_left(&self, frame: u32, block: Option<Block>) {
        self.page(frame).left.set(true);
        if let Some(block) = block {
            self.left.borrow_mut().entry(block).or_default().push(frame);
        }
    }

    /// The pages of a store are found: frames that were released in debt with them may be read no longer.
    pub(crate) fn settled(&self, hardware: &Hardware, store: Store, first: u32, last: u32) {
        let mut left = self.left.borrow_mut();
        let range = Block { store, index: first }..=Block { store, index: last };
        let found: Vec<_> = left.range(range).map(|(block, _)| *block).collect();
        for frame in found.iter().filter_map(|block| left.remove(block)).flatten() {
            if self.page(frame).left.get() {
                self.superseded(hardware, frame);
            }
        }
    }

    pub(crate) fn superseded(&self, hardware: &Hardware, frame: u32) {
        self.page(frame).superseded.set(hardware.tick());
    }

    pub(crate) fn installed(&self, hardware: &Hardware, root: u32, page: u64, frame: u32) {
        self.installed.borrow_mut().entry((root, page)).or_default().push((hardware.tick(), frame));
    }

    pub(crate) fn returned(
        &self,
        hardware: &Hardware,
        root: u32,
        pages: std::ops::Range<u64>,
        allowed: Protection,
        began: u64,
    ) {
        if allowed == Protection::ReadWrite {
            return;
        }
        let looked_at = pages.start..pages.end.min(pages.start + LOOKED_AT);
        let there = looked_at.filter_map(|page| {
            let entry = self.look(hardware, root, page)?;
            Some((page, (entry.frame().get(), entry.writable())))
        });
        let there = there.collect();
        let (at, loads) = (hardware.tick(), allowed == Protection::Read);
        self.returned.borrow_mut().push(Returned { root, pages, at, loads, began, there });
    }

    /// Whether a frame that is `such` was installed for the page of an entry since a moment.
    fn installed_since(&self, entry: &Filled, moment: u64, such: impl Fn(u32) -> bool) -> bool {
        let installed = self.installed.borrow();
        let frames = installed.get(&(entry.root, entry.page)).into_iter().flatten().rev();
        frames.take_while(|(at, _)| *at > moment).any(|&(_, frame)| such(frame))
    }

    /// Whether a call has returned that took the entry, or its right, away. The entry may be newer than the change: what
    /// was installed since the call began, and what was in the tables in the end, is. What was found on a way from before
    /// the end is not: the way leads to a table that the call has moved.
    fn is_gone(&self, entry: &Filled, store: bool) -> bool {
        self.returned.borrow().iter().any(|call| {
            let kept = call
                .there
                .get(&entry.page)
                .is_some_and(|&(frame, writable)| frame == entry.frame && (writable || !store));
            call.root == entry.root
                && call.pages.contains(&entry.page)
                && call.at > entry.at
                && (store || !call.loads)
                && !kept
                && !self.installed_since(entry, call.began, |frame| frame == entry.frame)
        })
    }

    /// The translation of a page in the tables, if there is one.
    pub(crate) fn look(&self, hardware: &Hardware, root: u32, page: u64) -> Option<Entry> {
        hardware.look(|| {
            let mut table = root;
            for level in (0..=SHAPE.top).rev() {
                let entry = self.table(table).get(SHAPE.index(page, level));
                if !entry.present() || level == 0 || entry.is_huge() {
                    return entry.present().then_some(entry);
                }
                table = entry.frame().get();
            }
            None
        })
    }
}

fn read(entry: Entry, level: u32, Allocation(number): Allocation, stood: u64) -> Read {
    Read {
        bits: entry.bits(),
        present: entry.present(),
        leaf: level == 0 || entry.is_huge(),
        writable: entry.writable(),
        dirty: entry.dirty(),
        frame: entry.frame().get(),
        number,
        stood,
    }
}

/// Whether an entry allows what an earlier one at its place did.
fn allows(entry: Entry, earlier: Entry) -> bool {
    entry.present()
        && entry.frame() == earlier.frame()
        && entry.is_huge() == earlier.is_huge()
        && (entry.writable() || !earlier.writable())
        && (entry.dirty() || !earlier.dirty())
}

impl Paging for Record {
    fn shape(&self) -> Shape {
        SHAPE
    }

    fn read(&self, past: &dyn Past, table: u32, index: usize, level: u32) -> Read {
        let entry = self.table(table).get(index);
        if !entry.present() {
            return read(entry, level, Allocation::NONE, 0);
        }
        let stood = past.stood(&|bits| allows(Entry::from_bits(bits), entry));
        read(entry, level, past.allocation_at(entry.frame().get(), stood), stood)
    }

    fn mark(&self, table: u32, index: usize, old: Read, store: bool, _: bool) -> Option<Read> {
        let marked = self.table(table).mark_used(index, Entry::from_bits(old.bits), store)?;
        Some(Read { bits: marked.bits(), dirty: marked.dirty(), ..old })
    }

    fn judge(&self, entry: &Filled, frame: Frame, store: bool) -> Option<(Rule, String)> {
        let (page, number) = (self.page(entry.frame), entry.frame);
        let what = |end: &str| format!("page {:#x} leads to frame {number}, {end}", entry.page);
        if !frame.allocated || frame.allocation != Allocation(entry.number) {
            return Some((Rule::R1, what("which was freed")));
        }
        if page.superseded.get() > entry.read {
            return Some((Rule::R6, what("an older copy of its page")));
        }
        if store && frame.clean > entry.read {
            return Some((Rule::R5, what("which was declared clean")));
        }
        if store && page.writing.get() > 0 {
            return Some((Rule::R5, what("which is being written out")));
        }
        if store && page.left.get() {
            return Some((Rule::R5, what("which was released in debt")));
        }
        if self.is_gone(entry, store) {
            return Some((Rule::R3, what("by a translation that is gone")));
        }
        let beside = self.installed_since(entry, entry.read, |frame| frame != entry.frame);
        beside.then(|| (Rule::R7, what("beside a newer translation")))
    }
}
