//! Page tables: four levels of 512 entries, each in the [format](crate::tables::entry) of its architecture.
//!
//! Entries change only under the lock of their table, through [`Leaf`]: a translation is made by [`Leaf::install`], taken
//! away by [`Leaf::replace`] and narrowed by [`Leaf::narrow`], which hand out the debt. An operation that a program asked
//! for must know that nothing is owed for the translations it finds gone; what it clears goes into a
//! [`Gather`](ceasefire::Gather), which asks for a [`SettledLeaf`], and every way to get one takes the lock and settles:
//! the check cannot be left out when a lock is dropped and taken again.
//!
//! An entry that is not present may still stand for something: a page that no access may use for now, one that is moving
//! to another frame, or one on the swap device.
//!
//! All of that is below the lower half of a root. The upper half, [`KERNEL_ENTRIES`], is the kernel's, which puts there
//! what it likes ([`Machine::share_kernel`]): nothing here looks at it, and no walk goes there.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use ceasefire::{Cleared, Narrowed, PageSize, Settled};

use crate::address::{FrameNumber, PAGE_SHIFT, USER_END};
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::huge_frames;
use crate::locks::Lock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::space::SpaceHandle;
pub use crate::tables::entry::Entry;
use crate::{locks, Memory};

/// Entries in a page-table page.
pub const ENTRIES: usize = 512;
/// The entries of a root that are the kernel's: all from [`USER_END`] on.
pub const KERNEL_ENTRIES: core::ops::Range<usize> = ENTRIES / 2..ENTRIES;
/// log2 of the addresses that an entry of the lowest level and its 511 neighbours translate.
pub(crate) const LEAF_SHIFT: u32 = PAGE_SHIFT + 9;
/// The level of the root.
pub(crate) const TOP: u32 = 3;

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
        Entry::from_bits(self.0[index].load(Ordering::Acquire))
    }

    /// What the hardware does when it uses a translation: sets the accessed and, for a store, the dirty bit in an
    /// entry that is still what the walk read. The entry it left, if it was.
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

    /// Sets an entry. Of a table that is in use this is for the kernel's entries of a root alone ([`KERNEL_ENTRIES`]): all
    /// others change only as the memory manager's calls change them.
    pub fn set(&self, index: usize, entry: Entry) {
        self.0[index].store(entry.bits(), Ordering::Release);
    }

    /// Replaces an entry by what `change` makes of it, whatever bits the hardware sets meanwhile; what it was.
    fn update(&self, index: usize, change: impl Fn(Entry) -> Entry) -> Entry {
        let changed = |old: u64| Some(change(Entry::from_bits(old)).bits());
        let (Ok(old) | Err(old)) = self.0[index].fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
        Entry::from_bits(old)
    }

    fn exchange(&self, index: usize, entry: Entry) -> Entry {
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

/// What a walk towards an address came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// No table, no translation.
    Nothing,
    /// The lowest-level table.
    Leaf(FrameNumber),
    /// A table whose entry stands for 2 MiB.
    Huge(FrameNumber),
}

/// A table whose entries lead to pages, locked: of the lowest level, or of the one above where an entry stands for
/// 2 MiB.
pub(crate) struct Leaf<'m, P: Machine> {
    memory: &'m Memory<P>,
    space: &'m SpaceHandle<P>,
    table: &'m Table,
    size: PageSize,
    /// Held for its drop.
    _lock: <P::Lock<()> as Lock<(), P>>::Guard<'m>,
}

/// A locked table in a space that owes no flush for translations found gone.
pub(crate) type SettledLeaf<'m, P> = Settled<'m, Leaf<'m, P>>;

impl<P: Machine> Leaf<'_, P> {
    /// What an entry of it stands for.
    pub(crate) fn size(&self) -> PageSize {
        self.size
    }

    /// The addresses of its entries in a part of what it translates; one, if that is a huge page.
    pub(crate) fn addresses(&self, (start, end): (u64, u64)) -> impl Iterator<Item = u64> {
        (start..end).step_by(self.size.bytes() as usize)
    }

    fn index(&self, address: u64) -> usize {
        Table::index(address, u32::from(self.size == PageSize::Huge))
    }

    pub(crate) fn get(&self, address: u64) -> Entry {
        self.table.get(self.index(address))
    }

    /// Puts a translation where there was none, or widens the rights of the one that is there. What it leads to must be
    /// what was there before (a page in its cache, the frame that a page moved to), or the place must be one where nothing
    /// is owed: in anonymous memory an entry says so itself ([`Entry::GONE`]). Anything else goes through [`install_new`].
    pub(crate) fn install(&self, address: u64, entry: Entry) {
        let old = self.get(address);
        debug_assert!(
            !old.present() || (old.frame() == entry.frame() && (entry.writable() || !old.writable())),
            "{address:#x}: {old:?} must be cleared and flushed before {entry:?}"
        );
        let root = self.space.coherence().root();
        self.memory.ask_shadow(|shadow| shadow.installs(root, address, self.size, entry.frame()));
        self.table.set(self.index(address), entry);
        let platform = self.memory.platform();
        platform.work(Work::Map, 1);
        let (space, address) = (self.space.coherence(), address & !(self.size.bytes() - 1));
        platform.observe(Event::Installed { space, address, frame: entry.frame(), size: self.size });
    }

    /// Puts back an entry that was here before or elsewhere, present or not, for the same page.
    pub(crate) fn put_back(&self, address: u64, entry: Entry) {
        if entry.present() {
            self.install(address, entry);
        } else {
            self.note(address, entry);
        }
    }

    /// Changes an entry that no hardware can use, before and after.
    pub(crate) fn note(&self, address: u64, entry: Entry) {
        debug_assert!(!self.get(address).present() && !entry.present());
        self.table.set(self.index(address), entry);
    }

    /// Takes a translation away; what it was, and the debt.
    pub(crate) fn clear(&self, address: u64) -> (Entry, Cleared) {
        self.replace(address, |_| Entry::NONE)
    }

    /// Puts an entry that is not present in the place of one that may be; what was there, and the debt. `replacement`
    /// makes it of what the hardware left.
    pub(crate) fn replace(&self, address: u64, replacement: impl Fn(Entry) -> Entry) -> (Entry, Cleared) {
        self.memory.platform().work(Work::Unmap, 1);
        let old = self.table.update(self.index(address), |old| {
            let new = replacement(old);
            debug_assert!(!new.present());
            new
        });
        self.tell_gone(address, old);
        (old, Cleared::new(address, self.size, self.held(old)))
    }

    /// Takes rights away; what the entry was, and the debt. `narrower` makes the new entry of what the hardware left.
    pub(crate) fn narrow(&self, address: u64, narrower: impl Fn(Entry) -> Entry) -> (Entry, Narrowed) {
        self.memory.platform().work(Work::Protect, 1);
        let old = self.table.update(self.index(address), &narrower);
        if !narrower(old).present() {
            self.tell_gone(address, old);
        }
        (old, Narrowed::new(address, self.size, self.held(old)))
    }

    /// CPUs may hold what an entry was: the shadow takes note.
    fn tell_gone(&self, address: u64, old: Entry) {
        if old.present() {
            let (platform, root) = (self.memory.platform(), self.space.coherence().root());
            platform.shadow(|shadow| shadow.gone(root, address, self.size, old.frame(), platform.now()));
        }
    }

    /// What CPUs may hold of an entry. One that is hidden was present before, and whoever hid it may not have flushed yet
    /// (Linux: `pte_accessible`); or its page was elsewhere, where CPUs may still read it.
    fn held(&self, old: Entry) -> ceasefire::Entry {
        let hidden = old.is_hidden() && (old.owes() || self.space.coherence().downgrade_in_flight());
        ceasefire::Entry { accessible: old.present() || hidden, writable: old.writable(), dirty: old.dirty() }
    }

    /// Whether the translation was used since this was last asked. No flush: a CPU that holds the entry may use it
    /// unseen for a while, which costs accuracy and nothing else.
    pub(crate) fn test_and_clear_accessed(&self, address: u64) -> bool {
        let index = self.index(address);
        let old = self.table.get(index);
        if old.present() && old.accessed() {
            self.table.0[index].fetch_and(!Entry::ACCESSED, Ordering::AcqRel);
            return true;
        }
        false
    }
}

/// Puts a translation to a page that is new at this address. That nothing is owed there is what the proof is for: no CPU
/// still holds a translation to another page (rule R7).
pub(crate) fn install_new<P: Machine>(leaf: &SettledLeaf<'_, P>, address: u64, entry: Entry) {
    leaf.install(address, entry);
}

impl<P: Machine> Memory<P> {
    /// Walks towards an address. The tables must not be freed meanwhile: hold the space's lock, or the lock of a mapper
    /// that covers the address.
    pub(crate) fn find_table(&self, space: &SpaceHandle<P>, address: u64) -> Found {
        let mut frame = space.root();
        for level in (1..=TOP).rev() {
            let entry = self.platform().table(frame).get(Table::index(address, level));
            if entry.is_huge() {
                return Found::Huge(frame);
            }
            if !entry.present() {
                return Found::Nothing;
            }
            frame = entry.frame();
        }
        Found::Leaf(frame)
    }

    /// The first address after `address` that another table than the missing one may translate.
    pub(crate) fn next_table(&self, space: &SpaceHandle<P>, address: u64) -> u64 {
        let mut frame = space.root();
        let mut level = TOP;
        while level > 1 {
            let entry = self.platform().table(frame).get(Table::index(address, level));
            if !entry.present() {
                break;
            }
            frame = entry.frame();
            level -= 1;
        }
        ((address >> (PAGE_SHIFT + 9 * level)) + 1) << (PAGE_SHIFT + 9 * level)
    }

    /// The table above the lowest on the way to an address.
    pub(crate) fn find_above(&self, space: &SpaceHandle<P>, address: u64) -> Found {
        let mut frame = space.root();
        for level in (2..=TOP).rev() {
            let entry = self.platform().table(frame).get(Table::index(address, level));
            if !entry.present() {
                return Found::Nothing;
            }
            frame = entry.frame();
        }
        Found::Leaf(frame)
    }

    /// The table whose entry may translate `address`, locked. The tables must not be freed meanwhile, as for
    /// [`Memory::find_table`].
    pub(crate) fn lock_leaf<'m>(&'m self, space: &'m SpaceHandle<P>, address: u64) -> Option<Leaf<'m, P>> {
        loop {
            match self.find_table(space, address) {
                Found::Nothing => return None,
                Found::Leaf(table) => return Some(self.lock_table(space, table, PageSize::Small)),
                Found::Huge(table) => {
                    let leaf = self.lock_table(space, table, PageSize::Huge);
                    // Asked again under the lock: it may have been split meanwhile.
                    if leaf.get(address).is_huge() {
                        return Some(leaf);
                    }
                }
            }
        }
    }

    /// The same, with what the space owes settled.
    pub(crate) fn settled_leaf<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        address: u64,
    ) -> Option<SettledLeaf<'m, P>> {
        Some(self.engine.settle(space.coherence(), self.lock_leaf(space, address)?))
    }

    /// Locks a table that is known to be there.
    pub(crate) fn lock_table<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        table: FrameNumber,
        size: PageSize,
    ) -> Leaf<'m, P> {
        self.touches(table, 1);
        Leaf {
            memory: self,
            space,
            size,
            _lock: self.table_locks.of(table).lock(self.platform()),
            table: self.platform().table(table),
        }
    }

    /// Calls `visit` for each table with entries for pages in `[start, end)`, locked and settled, with the part of the
    /// range that it translates. No huge page reaches across either end.
    pub(crate) fn for_each_leaf(
        &self,
        space: &SpaceHandle<P>,
        range: (u64, u64),
        visit: impl FnMut(&SettledLeaf<'_, P>, (u64, u64)),
    ) {
        self.for_each_locked(space, range, |address| self.settled_leaf(space, address), visit);
    }

    /// The same with whatever the space owes: for what promises the program nothing.
    pub(crate) fn for_each_owing_leaf(
        &self,
        space: &SpaceHandle<P>,
        range: (u64, u64),
        visit: impl FnMut(&Leaf<'_, P>, (u64, u64)),
    ) {
        self.for_each_locked(space, range, |address| self.lock_leaf(space, address), visit);
    }

    fn for_each_locked<L>(
        &self,
        space: &SpaceHandle<P>,
        (start, end): (u64, u64),
        lock: impl Fn(u64) -> Option<L>,
        mut visit: impl FnMut(&L, (u64, u64)),
    ) {
        let mut at = start;
        while at < end {
            let next = end.min(((at >> LEAF_SHIFT) + 1) << LEAF_SHIFT);
            if let Some(leaf) = lock(at) {
                visit(&leaf, (at, next));
            } else {
                at = self.next_table(space, at).min(end);
                continue;
            }
            at = next;
            self.platform().reschedule();
        }
    }

    /// The table for `address`, made where there is none, unless a huge page is in its place.
    pub(crate) fn make_table(&self, space: &SpaceHandle<P>, address: u64) -> Result<Found, OutOfMemory> {
        self.make_table_of(space, address, 0)
    }

    /// The same for the table of `level`, 0 the lowest.
    pub(crate) fn make_table_of(
        &self,
        space: &SpaceHandle<P>,
        address: u64,
        level: u32,
    ) -> Result<Found, OutOfMemory> {
        let mut frame = space.root();
        for above in (level + 1..=TOP).rev() {
            let table = self.platform().table(frame);
            let index = Table::index(address, above);
            if table.get(index).is_none() {
                let child = self.allocate(self.home())?;
                self.zero(child.number(), 1);
                self.platform().work(Work::TableChange, 1);
                let lock = self.table_locks.of(frame).lock(self.platform());
                if table.get(index).is_none() {
                    table.set(index, Entry::table(child.into_number()));
                } else {
                    drop(lock);
                    self.free(child);
                }
            }
            let entry = table.get(index);
            if entry.is_huge() {
                return Ok(Found::Huge(frame));
            }
            frame = entry.frame();
        }
        Ok(Found::Leaf(frame))
    }

    /// Fills a table that nobody knows yet with the entries that say together what the huge `entry` says.
    pub(crate) fn fill_table(&self, table: FrameNumber, entry: Entry) {
        let table = self.platform().table(table);
        for (index, frame) in huge_frames(entry.frame()).enumerate() {
            table.set(index, entry.part(frame));
        }
    }

    /// Changes an entry above the lowest level: a table or a huge page, or nothing, in the place of another. The caller has
    /// the table locked, and whoever could use what was there has been told. What it was.
    pub(crate) fn set_table(&self, above: &Leaf<'_, P>, address: u64, entry: Entry) -> Entry {
        debug_assert_eq!(above.size, PageSize::Huge);
        if entry.present() && !entry.is_huge() {
            let (table, root) = (self.platform().table(entry.frame()), above.space.coherence().root());
            self.ask_shadow(|shadow| {
                let leading = (0..ENTRIES).map(|index| (index, table.get(index)));
                leading.filter(|(_, entry)| entry.present()).try_for_each(|(index, entry)| {
                    let at = (address >> LEAF_SHIFT << LEAF_SHIFT) + ((index as u64) << PAGE_SHIFT);
                    shadow.installs(root, at, PageSize::Small, entry.frame())
                })
            });
        } else if entry.present() {
            let root = above.space.coherence().root();
            self.ask_shadow(|shadow| shadow.installs(root, address, PageSize::Huge, entry.frame()));
        }
        self.platform().work(Work::TableChange, 1);
        above.table.exchange(above.index(address), entry)
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
                debug_assert!(!entry.is_huge(), "a huge page is left at {at:#x}");
                let child = entry.frame();
                let whole = at >= floor && at + span <= ceiling.min(USER_END);
                if level > 1 {
                    // A table that goes takes all below it along: what moved away may have left empty ones.
                    let part = if whole { (at, at + span) } else { (start.max(at), end.min(at + span)) };
                    self.unlink_below(child, level - 1, part, (floor, ceiling), unlinked);
                }
                if whole {
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
