//! Page tables of the small kernel: three levels of four entries, in memory whose every access is a step.
//!
//! An entry carries the number of its mapping, so the oracle knows which mapping a TLB entry was filled from, and an
//! entry that leads to a table carries the number of the table's allocation.

use std::cell::RefCell;
use std::fmt;

use ceasefire::{Access, Entry, PageSize, Translation};
use ceasefire_atomics::{AtomicU64, Ordering};

use super::Page;
use crate::hardware::entry::{Read, Shape};
use crate::hardware::frame::{Accessed, Allocation, Frame};
use crate::hardware::paging::{Paging, Past};
use crate::hardware::tlb::{Filled, Tag};
use crate::hardware::Hardware;
use crate::model::rule::Rule;

/// log2 of the entries of a table.
pub(crate) const BITS: u32 = 2;
/// The level of the root.
pub(crate) const TOP: u32 = 2;
const SHAPE: Shape = Shape { bits: BITS, top: TOP };
/// The next larger size of a translation: an entry one level up.
pub(crate) const HUGE: PageSize = PageSize::KIB_16;
/// The pages that a huge translation spans.
pub(crate) const HUGE_PAGES: u64 = 1 << BITS;
const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const DIRTY: u64 = 4;
const LEAF: u64 = 8;
const HIDDEN: u64 = 16;
const FRAME: u32 = 8;
const NUMBER: u32 = 32;

/// An entry of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pte(pub(crate) u64);

impl Pte {
    pub(crate) const NONE: Self = Self(0);

    /// A translation to `frame` by a mapping.
    pub(crate) fn page(frame: u32, MappingNumber(mapping): MappingNumber, writable: bool) -> Self {
        let rights = PRESENT | LEAF | if writable { WRITABLE } else { 0 };
        Self(rights | u64::from(frame) << FRAME | u64::from(mapping) << NUMBER)
    }

    /// The way to a table, in its present allocation.
    pub(crate) fn table(frame: u32, Allocation(allocation): Allocation) -> Self {
        Self(PRESENT | u64::from(frame) << FRAME | u64::from(allocation) << NUMBER)
    }

    /// The page, or the table, that it leads to.
    pub(super) fn page_behind(self) -> Option<Page> {
        self.present().then(|| Page(self.frame()))
    }

    pub(crate) fn present(self) -> bool {
        self.0 & PRESENT != 0
    }

    pub(crate) fn writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    pub(crate) fn dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub(crate) fn leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    pub(crate) fn frame(self) -> u32 {
        (self.0 >> FRAME) as u32 & 0xff_ffff
    }

    /// The number of the mapping if it translates, and of the table's allocation if it leads to one.
    fn number(self) -> u32 {
        (self.0 >> NUMBER) as u32
    }

    /// The allocation of the table to which it leads.
    pub(crate) fn allocation(self) -> Allocation {
        Allocation(self.number())
    }

    pub(crate) fn hidden(self) -> bool {
        self.0 & HIDDEN != 0
    }

    fn read_only(self) -> Self {
        Self(self.0 & !(WRITABLE | DIRTY))
    }

    /// The same translation, which no CPU can use.
    fn hide(self) -> Self {
        if self.present() {
            Self(self.0 & !PRESENT | HIDDEN)
        } else {
            self
        }
    }

    pub(crate) fn stored_to(self) -> Self {
        Self(self.0 | DIRTY)
    }
}

impl Translation for Pte {
    fn entry(&self) -> Entry {
        let access = match (self.present(), self.hidden()) {
            (true, _) => Access::Usable,
            (false, true) => Access::Hidden,
            (false, false) => Access::None,
        };
        Entry { access, writable: self.writable(), dirty: self.dirty() }
    }
}

impl fmt::Debug for Pte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.present() && !self.hidden() {
            return write!(f, "none");
        }
        if self.hidden() {
            return write!(f, "frame {} hidden", self.frame());
        }
        let rights = if self.dirty() {
            "dirty"
        } else if self.writable() {
            "rw"
        } else {
            "ro"
        };
        if self.leaf() {
            write!(f, "frame {} {rights}", self.frame())
        } else {
            write!(f, "table {}", self.frame())
        }
    }
}

/// A page-table page.
#[derive(Debug)]
pub(crate) struct Table([AtomicU64; 1 << BITS]);

impl Table {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// The index of a page in a table of `level`; 0 is the lowest.
    pub(crate) fn index(page: u64, level: u32) -> usize {
        SHAPE.index(page, level)
    }

    pub(crate) fn get(&self, index: usize) -> Pte {
        Pte(self.0[index].load(Ordering::Relaxed))
    }

    /// Puts an entry in its place; what was stored before is seen by walks that find it.
    pub(crate) fn set(&self, index: usize, pte: Pte) {
        self.0[index].store(pte.0, Ordering::Release);
    }

    /// Exchanges an entry in one step. No order follows from it: the engine may rely on none.
    pub(crate) fn exchange(&self, index: usize, pte: Pte) -> Pte {
        Pte(self.0[index].swap(pte.0, Ordering::Relaxed))
    }

    /// Takes the right to store away.
    pub(crate) fn narrow(&self, index: usize) -> Pte {
        self.change(index, Pte::read_only)
    }

    /// Hides a translation.
    pub(crate) fn hide(&self, index: usize) -> Pte {
        self.change(index, Pte::hide)
    }

    fn change(&self, index: usize, change: impl Fn(Pte) -> Pte) -> Pte {
        let changed = |old| Some(change(Pte(old)).0);
        let (Ok(old) | Err(old)) = self.0[index].fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        Pte(old)
    }
}

/// The number of a mapping, in the order in which they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappingNumber(u32);

impl MappingNumber {
    /// The mapping from which an entry was filled.
    fn of(entry: &Filled) -> Self {
        Self(entry.number)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// One mapping of a frame, from the entry's store to its end.
#[derive(Debug, Clone, Copy)]
struct Mapping {
    page: u64,
    frame: u32,
    allocation: Allocation,
    /// The accesses through it.
    used: Accessed,
    /// No CPU may use it any more, by this rule.
    ended: Option<Rule>,
    /// No CPU may store through it any more, by this rule.
    narrowed: Option<Rule>,
}

/// The tables of the small kernel, and all mappings that ever were in them.
#[derive(Debug)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    mappings: RefCell<Vec<Mapping>>,
}

impl Tables {
    pub(crate) fn new(frames: usize) -> Self {
        Self { tables: (0..frames).map(|_| Table::new()).collect(), mappings: RefCell::default() }
    }

    pub(crate) fn table(&self, frame: u32) -> &Table {
        &self.tables[frame as usize]
    }

    /// The number of a new mapping. The hardware may look at the page from now on.
    pub(crate) fn mapping(&self, hardware: &Hardware, tag: Tag, page: u64, frame: u32) -> MappingNumber {
        let allocation = hardware.allocation(frame);
        let mut mappings = self.mappings.borrow_mut();
        let used = Accessed::default();
        mappings.push(Mapping { page, frame, allocation, used, ended: None, narrowed: None });
        hardware.warm(tag, page);
        MappingNumber(mappings.len() as u32 - 1)
    }

    /// No CPU may use the mapping any more.
    pub(crate) fn end_mapping(&self, hardware: &Hardware, mapping: MappingNumber, rule: Rule) {
        let Mapping { page, used, .. } = self.mappings.borrow()[mapping.index()];
        if hardware.misses(used) {
            let what = format!("page {page} is gone for a CPU that does not know of the last access to it");
            hardware.break_rule(rule, hardware.me(), what);
        }
        self.mappings.borrow_mut()[mapping.index()].ended.get_or_insert(rule);
    }

    /// No CPU may store through the mapping any more.
    pub(crate) fn narrow_mapping(&self, mapping: MappingNumber, rule: Rule) {
        self.mappings.borrow_mut()[mapping.index()].narrowed.get_or_insert(rule);
    }
}

impl Paging for Tables {
    fn shape(&self) -> Shape {
        SHAPE
    }

    fn read(&self, past: &dyn Past, table: u32, index: usize, _: u32) -> Read {
        read(self.table(table).get(index), past.moment())
    }

    /// The small kernel has no mark for loads.
    fn mark(&self, table: u32, index: usize, old: Read, store: bool, atomic: bool) -> Option<Read> {
        if !store || old.dirty {
            return Some(old);
        }
        let (entry, marked) = (&self.table(table).0[index], Pte(old.bits).stored_to());
        if !atomic {
            entry.swap(marked.0, Ordering::Relaxed);
            return Some(read(marked, old.stood));
        }
        let exchanged = entry.compare_exchange(old.bits, marked.0, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.is_ok().then_some(read(marked, old.stood))
    }

    fn uses(&self, entry: &Filled, count: &dyn Fn(&mut Accessed)) {
        count(&mut self.mappings.borrow_mut()[MappingNumber::of(entry).index()].used);
    }

    fn judge(&self, entry: &Filled, frame: Frame, store: bool) -> Option<(Rule, String)> {
        let mapping = self.mappings.borrow()[MappingNumber::of(entry).index()];
        let what = |end: &str| format!("page {} leads to frame {}, {end}", mapping.page, mapping.frame);
        if !frame.allocated || frame.allocation != mapping.allocation {
            Some((Rule::R1, what("which was freed")))
        } else if let Some(rule) = mapping.ended {
            Some((rule, what("by a translation that is gone")))
        } else if let (Some(rule), true) = (mapping.narrowed, store) {
            Some((rule, what("by a right that is gone")))
        } else if store && frame.clean > entry.read {
            Some((Rule::R5, what("which was declared clean")))
        } else {
            None
        }
    }
}

fn read(pte: Pte, stood: u64) -> Read {
    Read {
        bits: pte.0,
        present: pte.present(),
        leaf: pte.leaf(),
        writable: pte.writable(),
        dirty: pte.dirty(),
        frame: pte.frame(),
        number: pte.number(),
        stood,
    }
}
