//! Page tables of the small kernel: three levels of four entries, in memory whose every access is a step.
//!
//! An entry carries the number of its mapping, so the oracle knows which mapping a TLB entry was filled from, and an
//! entry that leads to a table carries the number of the table's allocation.

use std::fmt;

use ceasefire::{Access, Entry, PageSize, Translation};
use ceasefire_atomics::{AtomicU64, Ordering};

/// log2 of the entries of a table.
pub(crate) const BITS: u32 = 2;
/// The level of the root.
pub(crate) const TOP: u32 = 2;
/// log2 of a page's bytes.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// The next larger size of a translation: an entry one level up.
pub(crate) const HUGE: PageSize = PageSize::KIB_16;
/// The pages that a huge translation spans.
pub(crate) const HUGE_PAGES: u64 = 1 << BITS;
/// The pages of a space, numbered from 0.
pub(crate) const PAGES: u64 = 1 << (BITS * (TOP + 1));

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

    /// A translation to `frame` by the mapping with this number.
    pub(crate) fn page(frame: u32, mapping: u32, writable: bool) -> Self {
        let rights = PRESENT | LEAF | if writable { WRITABLE } else { 0 };
        Self(rights | u64::from(frame) << FRAME | u64::from(mapping) << NUMBER)
    }

    /// The way to a table that was allocated under this number.
    pub(crate) fn table(frame: u32, allocation: u32) -> Self {
        Self(PRESENT | u64::from(frame) << FRAME | u64::from(allocation) << NUMBER)
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

    /// The number of the mapping, or of the table's allocation.
    pub(crate) fn number(self) -> u32 {
        (self.0 >> NUMBER) as u32
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
        (page >> (BITS * level)) as usize % (1 << BITS)
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

    /// The walker's mark of a store. `None` if the entry is another by now. It stores whatever it finds if it is not
    /// `atomic`.
    pub(crate) fn mark(&self, index: usize, read: Pte, atomic: bool) -> Option<Pte> {
        let marked = read.stored_to();
        if !atomic {
            self.0[index].swap(marked.0, Ordering::Relaxed);
            return Some(marked);
        }
        let exchanged =
            self.0[index].compare_exchange(read.0, marked.0, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.is_ok().then_some(marked)
    }
}
