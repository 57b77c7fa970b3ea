//! The entries that CPUs may hold for one page.

use ceasefire::PageSize;
use smallvec::SmallVec;

/// An entry that a CPU may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// The moment of the first fill, on the oracle's clock.
    pub(crate) filled: u64,
    /// The frame, or the first of 512 frames of a huge page.
    pub(crate) frame: u32,
    pub(crate) writable: bool,
    /// Whether stores through it no longer need to set the dirty bit in the page table.
    pub(crate) dirty: bool,
}

/// The same with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) cpu: usize,
    /// The ASID under which the CPU may hold it.
    pub(crate) asid: u16,
    pub(crate) size: PageSize,
    /// The first page that it translates.
    pub(crate) page: u64,
    pub(crate) held: Held,
}

/// An entry and its slot, in 16 bytes, since there may be several for each frame of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) filled: u64,
    pub(crate) frame: u32,
    /// The number of the slot; above it, what the entry allows.
    slot: u32,
}

/// The entries of one page, in the order of their first fills. Most pages have one.
pub(crate) type List = SmallVec<[Entry; 1]>;

impl Entry {
    const WRITABLE: u32 = 1 << 31;
    const DIRTY: u32 = 1 << 30;

    pub(crate) fn new(slot: usize, held: Held) -> Self {
        let mut entry = Self { filled: held.filled, frame: held.frame, slot: slot as u32 };
        entry.merge(held);
        entry
    }

    /// The number of its slot.
    pub(crate) fn slot(self) -> usize {
        (self.slot & !(Self::WRITABLE | Self::DIRTY)) as usize
    }

    pub(crate) fn held(self) -> Held {
        let has = |bit| self.slot & bit != 0;
        Held {
            filled: self.filled,
            frame: self.frame,
            writable: has(Self::WRITABLE),
            dirty: has(Self::DIRTY),
        }
    }

    /// Adds another fill of the same translation, perhaps with other rights. A CPU may hold either.
    pub(crate) fn merge(&mut self, again: Held) {
        self.slot |= if again.writable { Self::WRITABLE } else { 0 };
        self.slot |= if again.dirty { Self::DIRTY } else { 0 };
    }
}
