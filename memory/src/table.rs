//! Page tables: four levels of 512 entries, in the format of x86-64.
//!
//! Entries change only under the lock of their table, through [`Leaf`]: a translation is made by [`Leaf::install`] and
//! taken away by [`Leaf::clear`], which hands out the debt. An operation that a program asked for must know that
//! nothing is owed for the translations it finds gone; it can only work on a [`SettledLeaf`], and every way to get one
//! takes the lock and settles, so the check cannot be left out when a lock is dropped and taken again.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use ceasefire::{Cleared, Lock, PageSize};

use crate::address::{FrameNumber, PAGE_SHIFT, USER_END};
use crate::allocate::OutOfMemory;
use crate::machine::{Event, Machine, Work};
use crate::space::SpaceHandle;
use crate::{locks, Memory};

/// Entries in a page-table page.
pub const ENTRIES: usize = 512;
/// log2 of the addresses that an entry of the lowest level and its 511 neighbours translate.
pub(crate) const LEAF_SHIFT: u32 = PAGE_SHIFT + 9;
/// The level of the root.
pub(crate) const TOP: u32 = 3;

/// One entry of a page table (Intel SDM volume 3, section 4.5).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// No translation.
    pub const NONE: Self = Self(0);
    const PRESENT: u64 = 1;
    const WRITABLE: u64 = 1 << 1;
    const USER: u64 = 1 << 2;
    const ACCESSED: u64 = 1 << 5;
    const DIRTY: u64 = 1 << 6;
    /// The entry translates 2 MiB itself; only above the lowest level.
    const HUGE: u64 = 1 << 7;
    /// What an entry that is not present stands for, in bits that the hardware then ignores.
    const KIND: u64 = 3 << 9;
    const HIDDEN: u64 = 1 << 9;
    const MIGRATING: u64 = 2 << 9;
    const SWAPPED: u64 = 3 << 9;
    const FRAME: u64 = 0x000f_ffff_ffff_f000;

    /// A translation to `frame`, not yet used.
    pub const fn page(frame: FrameNumber, writable: bool) -> Self {
        Self(
            (frame.get() as u64) << PAGE_SHIFT
                | Self::PRESENT
                | Self::USER
                | if writable { Self::WRITABLE } else { 0 },
        )
    }

    /// The same, marked as already used, and with `dirty` as already stored through.
    #[must_use]
    pub const fn used(self, dirty: bool) -> Self {
        Self(self.0 | Self::ACCESSED | if dirty { Self::DIRTY } else { 0 })
    }

    /// The same, as one translation of 2 MiB.
    #[must_use]
    pub const fn huge(self) -> Self {
        Self(self.0 | Self::HUGE)
    }

    /// Whether it translates 2 MiB itself, or did before it was hidden or its page began to move.
    pub const fn is_huge(self) -> bool {
        self.0 & Self::HUGE != 0
    }

    /// The same with stores allowed or not. An entry that may not be stored through is not dirty either.
    #[must_use]
    pub const fn with_writable(self, writable: bool) -> Self {
        if writable {
            Self(self.0 | Self::WRITABLE)
        } else {
            Self(self.0 & !(Self::WRITABLE | Self::DIRTY))
        }
    }

    /// The same, not present for now: every access faults, and the entry keeps where it led.
    #[must_use]
    pub const fn hide(self) -> Self {
        Self(self.0 & !(Self::PRESENT | Self::KIND) | Self::HIDDEN)
    }

    /// The same while its page moves to another frame: every access waits.
    #[must_use]
    pub const fn begin_move(self) -> Self {
        Self(self.0 & !(Self::PRESENT | Self::KIND) | Self::MIGRATING)
    }

    /// A hidden or moving entry, present again and leading to `frame`.
    #[must_use]
    pub const fn reveal(self, frame: FrameNumber) -> Self {
        Self(self.0 & !(Self::KIND | Self::FRAME) | (frame.get() as u64) << PAGE_SHIFT | Self::PRESENT)
    }

    /// The page is in `slot` of the swap device.
    pub const fn swapped(slot: u32) -> Self {
        Self((slot as u64) << PAGE_SHIFT | Self::SWAPPED)
    }

    /// Whether it stands for nothing at all.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it leads somewhere, but no access may use it for now.
    pub const fn is_hidden(self) -> bool {
        self.0 & (Self::PRESENT | Self::KIND) == Self::HIDDEN
    }

    /// Whether its page is moving.
    pub const fn is_moving(self) -> bool {
        self.0 & (Self::PRESENT | Self::KIND) == Self::MIGRATING
    }

    /// The swap slot that holds the page, if one does.
    pub const fn slot(self) -> Option<u32> {
        if self.0 & (Self::PRESENT | Self::KIND) == Self::SWAPPED {
            Some(((self.0 & Self::FRAME) >> PAGE_SHIFT) as u32)
        } else {
            None
        }
    }

    /// Whether it counts as a mapping of its frame: present or hidden.
    pub const fn maps(self) -> bool {
        self.present() || self.is_hidden()
    }

    /// Whether it translates.
    pub const fn present(self) -> bool {
        self.0 & Self::PRESENT != 0
    }

    /// Whether stores are allowed.
    pub const fn writable(self) -> bool {
        self.0 & Self::WRITABLE != 0
    }

    /// Whether the hardware has used it.
    pub const fn accessed(self) -> bool {
        self.0 & Self::ACCESSED != 0
    }

    /// Whether the hardware has stored through it.
    pub const fn dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Where it leads.
    pub const fn frame(self) -> FrameNumber {
        FrameNumber::new(((self.0 & Self::FRAME) >> PAGE_SHIFT) as u32)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:#x})", self.0)
    }
}

/// A page-table page.
#[repr(C, align(4096))]
pub struct Table([AtomicU64; ENTRIES]);

impl Table {
    /// An empty table, for a machine that keeps its tables apart from its memory.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; ENTRIES])
    }

    /// Empties it. Nobody may be using it.
    pub fn clear(&self) {
        for index in 0..ENTRIES {
            self.set(index, Entry::NONE);
        }
    }

    /// The place of `address` in a table of `level`, 0 the lowest.
    pub const fn index(address: u64, level: u32) -> usize {
        (address >> (PAGE_SHIFT + 9 * level)) as usize % ENTRIES
    }

    /// An entry, as it is now.
    pub fn get(&self, index: usize) -> Entry {
        Entry(self.0[index].load(Ordering::Acquire))
    }

    /// What the hardware does when it uses a translation: sets the accessed and, for a store, the dirty bit in an
    /// entry that is still what the walk read. The entry it left, if it was.
    pub fn mark_used(&self, index: usize, read: Entry, store: bool) -> Option<Entry> {
        let used = read.used(store);
        if used == read {
            return Some(read);
        }
        self.0[index]
            .compare_exchange(read.0, used.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
            .then_some(used)
    }

    fn set(&self, index: usize, entry: Entry) {
        self.0[index].store(entry.0, Ordering::Release);
    }

    fn exchange(&self, index: usize, entry: Entry) -> Entry {
        Entry(self.0[index].swap(entry.0, Ordering::AcqRel))
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

/// The locks of all page-table pages, a few for many.
#[derive(Debug)]
pub(crate) struct TableLocks<P: Machine> {
    stripes: Box<[P::Lock<()>]>,
}

impl<P: Machine> TableLocks<P> {
    pub(crate) fn new(cpus: usize) -> Self {
        // Enough that two CPUs rarely meet on a lock when their tables differ.
        let count = (cpus * 64).next_power_of_two();
        Self { stripes: (0..count).map(|_| P::Lock::new(&locks::TABLE, ())).collect() }
    }

    fn of(&self, table: FrameNumber) -> &P::Lock<()> {
        // Fibonacci hashing spreads neighbours; the number of stripes is a power of two.
        let hash = table.get().wrapping_mul(0x9e37_79b9) >> 8;
        &self.stripes[hash as usize & (self.stripes.len() - 1)]
    }
}

/// A lowest-level table, locked.
pub(crate) struct Leaf<'m, P: Machine> {
    memory: &'m Memory<P>,
    space: &'m SpaceHandle<P>,
    table: &'m Table,
    /// The address that entry 0 translates.
    base: u64,
    /// Held for its drop.
    _lock: <P::Lock<()> as Lock<(), P>>::Guard<'m>,
}

impl<P: Machine> Leaf<'_, P> {
    pub(crate) fn get(&self, address: u64) -> Entry {
        self.table.get(Table::index(address, 0))
    }

    /// Makes a translation where there is none, or widens the rights of the one that is there.
    pub(crate) fn install(&self, address: u64, entry: Entry) {
        let platform = self.memory.platform();
        let old = self.get(address);
        debug_assert!(
            !old.present() || (old.frame() == entry.frame() && (entry.writable() || !old.writable())),
            "{address:#x}: {old:?} must be cleared and flushed before {entry:?}"
        );
        self.table.set(Table::index(address, 0), entry);
        platform.work(Work::Map, 1);
        let space = self.space.coherence();
        platform.observe(Event::Installed { space, address, frame: entry.frame(), size: PageSize::Small });
    }

    /// Takes a translation away; what it was, and the debt.
    pub(crate) fn clear(&self, address: u64) -> (Entry, Cleared) {
        let old = self.table.exchange(Table::index(address, 0), Entry::NONE);
        self.memory.platform().work(Work::Unmap, 1);
        let held = ceasefire::Entry { accessible: old.present(), dirty: old.dirty() };
        (old, Cleared::new(address, PageSize::Small, held))
    }

    /// Whether the translation was used since this was last asked. No flush: a CPU that holds the entry may use it
    /// unseen for a while, which costs accuracy and nothing else.
    pub(crate) fn test_and_clear_accessed(&self, address: u64) -> bool {
        let index = Table::index(address, 0);
        let old = self.table.get(index);
        if old.present() && old.accessed() {
            self.table.0[index].fetch_and(!Entry::ACCESSED, Ordering::AcqRel);
            return true;
        }
        false
    }

    /// The addresses that it translates.
    pub(crate) fn span(&self) -> core::ops::Range<u64> {
        self.base..self.base + (1 << LEAF_SHIFT)
    }
}

/// A locked lowest-level table in a space that owes no flush for translations found gone.
pub(crate) struct SettledLeaf<'m, P: Machine>(Leaf<'m, P>);

impl<'m, P: Machine> SettledLeaf<'m, P> {
    /// Settles what the space owes, under the table's lock.
    pub(crate) fn new(leaf: Leaf<'m, P>) -> Self {
        leaf.memory.engine.settle(leaf.space.coherence());
        Self(leaf)
    }

    pub(crate) fn get(&self, address: u64) -> Entry {
        self.0.get(address)
    }

    pub(crate) fn clear(&self, address: u64) -> (Entry, Cleared) {
        self.0.clear(address)
    }
}

impl<P: Machine> Memory<P> {
    /// The lowest-level table for `address`, if there is one. The tables must not be freed meanwhile: hold the space's
    /// lock, or the lock of a mapper that covers the address.
    pub(crate) fn find_leaf(&self, space: &SpaceHandle<P>, address: u64) -> Option<FrameNumber> {
        let mut frame = space.root();
        for level in (1..=TOP).rev() {
            let entry = self.platform().table(frame).get(Table::index(address, level));
            if !entry.present() {
                return None;
            }
            frame = entry.frame();
        }
        Some(frame)
    }

    /// The lowest-level table for `address`, made where there is none.
    pub(crate) fn make_leaf(&self, space: &SpaceHandle<P>, address: u64) -> Result<FrameNumber, OutOfMemory> {
        let mut frame = space.root();
        for level in (1..=TOP).rev() {
            let table = self.platform().table(frame);
            let index = Table::index(address, level);
            if !table.get(index).present() {
                let child = self.allocate(self.home())?;
                self.platform().zero(child.number(), 1);
                self.platform().work(Work::TableChange, 1);
                let lock = self.table_locks.of(frame).lock(self.platform());
                if table.get(index).present() {
                    drop(lock);
                    self.free(child);
                } else {
                    table.set(index, Entry::page(child.into_number(), true).used(false));
                }
            }
            frame = table.get(index).frame();
        }
        Ok(frame)
    }

    /// Locks the lowest-level table `table`, which translates `address` in `space`.
    pub(crate) fn lock_leaf<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        table: FrameNumber,
        address: u64,
    ) -> Leaf<'m, P> {
        Leaf {
            memory: self,
            space,
            _lock: self.table_locks.of(table).lock(self.platform()),
            table: self.platform().table(table),
            base: address >> LEAF_SHIFT << LEAF_SHIFT,
        }
    }

    /// Unlinks every table that translates nothing but addresses in `[floor, ceiling)` and some in `[start, end)`, and
    /// hands each to `unlinked` with the first address it translated, lowest level first. No translation may be left
    /// in them, and the space's lock is held exclusively.
    pub(crate) fn unlink_tables(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        end: u64,
        (floor, ceiling): (u64, u64),
        unlinked: &mut dyn FnMut(u64, FrameNumber),
    ) {
        self.unlink_below(space.root(), TOP, (start, end), (floor, ceiling), unlinked);
    }

    fn unlink_below(
        &self,
        table: FrameNumber,
        level: u32,
        (start, end): (u64, u64),
        (floor, ceiling): (u64, u64),
        unlinked: &mut dyn FnMut(u64, FrameNumber),
    ) {
        let span = 1 << (PAGE_SHIFT + 9 * level);
        let mut at = start / span * span;
        while at < end {
            let index = Table::index(at, level);
            let entry = self.platform().table(table).get(index);
            if entry.present() {
                let child = entry.frame();
                if level > 1 {
                    let part = (start.max(at), end.min(at + span));
                    self.unlink_below(child, level - 1, part, (floor, ceiling), unlinked);
                }
                if at >= floor && at + span <= ceiling.min(USER_END) {
                    let lock = self.table_locks.of(table).lock(self.platform());
                    self.platform().table(table).set(index, Entry::NONE);
                    drop(lock);
                    unlinked(at, child);
                }
            }
            at += span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_what_it_is_given() {
        let entry = Entry::page(FrameNumber::new(0x1234_5678), true);
        assert!(entry.present() && entry.writable() && !entry.accessed() && !entry.dirty());
        assert_eq!(entry.frame(), FrameNumber::new(0x1234_5678));
        assert!(entry.used(true).dirty() && entry.used(false).accessed() && !entry.used(false).dirty());
        assert!(!Entry::NONE.present());
    }

    #[test]
    fn each_level_takes_nine_bits() {
        let address = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12 | 5;
        assert_eq!([3, 2, 1, 0].map(|level| Table::index(address, level)), [1, 2, 3, 4]);
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
