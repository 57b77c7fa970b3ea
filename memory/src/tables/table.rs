//! Page tables: four levels of 512 entries, each in the [format](crate::tables::entry) of its architecture.
//!
//! The memory manager owns the lower half of a root. The upper half, [`KERNEL_ENTRIES`], belongs to the kernel, which
//! fills it in [`Machine::share_kernel`](crate::Machine::share_kernel). The memory manager never reads it, and no walk
//! goes there.

use crate::primitive::{AtomicU64, Ordering};
use core::fmt;

use crate::address::PAGE_SHIFT;
use crate::tables::entry::Entry;

/// Entries in a page-table page.
pub const ENTRIES: usize = 512;
/// The kernel's entries of a root: all from [`USER_END`](crate::USER_END) on.
pub const KERNEL_ENTRIES: core::ops::Range<usize> = ENTRIES / 2..ENTRIES;
/// log2 of the addresses that a table of the lowest level translates.
pub(crate) const LEAF_SHIFT: u32 = PAGE_SHIFT + 9;
/// The level of the root.
pub(crate) const TOP: u32 = 3;

/// A page-table page.
#[repr(C, align(4096))]
pub struct Table(pub(super) [AtomicU64; ENTRIES]);

impl Table {
    /// An empty table, for a machine that keeps its tables apart from its memory.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }

    /// Empties the table. It must not be in use.
    pub fn clear(&self) {
        for index in 0..ENTRIES {
            self.set(index, Entry::NONE);
        }
    }

    /// The index of `address` in a table of `level`; 0 is the lowest.
    pub const fn index(address: u64, level: u32) -> usize {
        (address >> (PAGE_SHIFT + 9 * level)) as usize % ENTRIES
    }

    /// The current value of an entry.
    pub fn get(&self, index: usize) -> Entry {
        Entry::from_bits(self.0[index].load(Ordering::Acquire))
    }

    /// The current value of an entry that may lead to a lower table. Sequentially consistent, for a task that finds none
    /// where another makes one: see the start of `page_lock`.
    pub(super) fn lower(&self, index: usize) -> Entry {
        Entry::from_bits(self.0[index].load(Ordering::SeqCst))
    }

    /// Sets an entry to a new lower table.
    pub(super) fn set_lower(&self, index: usize, entry: Entry) {
        self.0[index].store(entry.bits(), Ordering::SeqCst);
    }

    /// Does the hardware's part when it uses a translation: sets the accessed and, for a store, the dirty bit, if the
    /// entry still is as the walk read it. Returns the new entry, or `None` if the entry has changed.
    pub fn mark_used(&self, index: usize, read: Entry, store: bool) -> Option<Entry> {
        let used = read.used(store);
        if used == read {
            return Some(read);
        }
        self.0[index]
            .compare_exchange(read.bits(), used.bits(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
            .then_some(used)
    }

    /// Sets an entry. In a table that is in use, only the kernel's entries of a root ([`KERNEL_ENTRIES`]) may be set
    /// this way. All others change only through the memory manager's calls.
    pub fn set(&self, index: usize, entry: Entry) {
        self.0[index].store(entry.bits(), Ordering::Release);
    }

    /// Replaces an entry by the result of `change`, without losing bits that the hardware sets meanwhile; returns the
    /// old entry.
    pub(super) fn update(&self, index: usize, change: impl Fn(Entry) -> Entry) -> Entry {
        let changed = |old: u64| Some(change(Entry::from_bits(old)).bits());
        let (Ok(old) | Err(old)) = self.0[index].fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
        Entry::from_bits(old)
    }

    pub(crate) fn exchange(&self, index: usize, entry: Entry) -> Entry {
        Entry::from_bits(self.0[index].swap(entry.bits(), Ordering::AcqRel))
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = (0..ENTRIES).filter(|&index| self.get(index).present()).count();
        write!(f, "Table({present} of {ENTRIES} entries present)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::FrameNumber;

    #[test]
    fn each_level_takes_nine_bits() {
        let address = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12 | 5;
        assert_eq!([3, 2, 1, 0].map(|level| Table::index(address, level)), [1, 2, 3, 4]);
    }

    #[test]
    fn the_kernels_entries_are_those_from_the_end_of_the_programs_addresses_on() {
        assert_eq!(KERNEL_ENTRIES, Table::index(crate::USER_END, TOP)..ENTRIES);
    }

    #[test]
    fn the_hardware_marks_only_the_entry_it_read() {
        let table = Table::new();
        let entry = Entry::page(FrameNumber::new(7), true);
        table.set(3, entry);
        assert_eq!(table.mark_used(3, entry, true), Some(entry.used(true)));
        table.set(3, Entry::NONE);
        assert_eq!(table.mark_used(3, entry, true), None);
        assert_eq!(table.get(3), Entry::NONE);
    }
}
