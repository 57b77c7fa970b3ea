//! Tables: created, filled, replaced and unlinked.

use ceasefire::{Flush, PageSize};

use crate::address::{FrameNumber, PAGE_SHIFT, USER_END};
use crate::calls::zap::Held;
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::huge_frames;
use crate::locks::Lock;
use crate::machine::{Machine, Work};
use crate::sabotage::Guard;
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::leaf::{Leaf, LeafChanges};
use crate::tables::table::{Table, ENTRIES, LEAF_SHIFT, TOP};
use crate::tables::walk::Found;
use crate::Memory;

/// Executes the step that unlinks the table of an address. The step returns the table.
pub(crate) type Unlink<'a> = dyn FnMut(u64, &dyn Fn() -> FrameNumber) + 'a;

impl<P: Machine> Memory<P> {
    /// The table for `address`, created if there is none. If a huge page is in its place, the table above; nothing if
    /// another task frees it meanwhile.
    pub(crate) fn make_table(&self, space: &SpaceHandle<P>, address: u64) -> Result<Found, OutOfMemory> {
        self.make_table_of(space, address, 0)
    }

    /// The same for the table of `level`; 0 is the lowest.
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
            if table.lower(index).is_empty() {
                let child = self.allocate(self.home())?;
                self.zero(child.number(), 1);
                self.platform().work(Work::TableChange, 1);
                let lock = self.table_locks.of(frame).lock(self.platform());
                if self.is_vacant(space, table.get(index), Flush::ALL) {
                    table.set_lower(index, Entry::table(child.into_number()));
                } else {
                    drop(lock);
                    self.free(child);
                }
            }
            let entry = table.lower(index);
            if entry.is_huge() {
                return Ok(Found::Huge(frame));
            }
            if !entry.present() {
                return Ok(Found::Nothing);
            }
            frame = entry.frame();
        }
        Ok(Found::Leaf(frame))
    }

    /// Whether an entry of a locked table stands for nothing, not even in the TLB of a CPU: a gather may have cleared it
    /// and not flushed it yet. Then `flush` is done.
    pub(super) fn is_vacant(&self, space: &SpaceHandle<P>, entry: Entry, flush: Flush) -> bool {
        let Some(mark) = entry.mark() else { return entry.is_none() };
        // R7
        if !self.engine.has_flushed(mark) && self.guarded(Guard::Mark) {
            self.engine.flush(space.coherence(), flush);
        }
        true
    }

    /// Unlinks the locked table of the 2 MiB at `base`, if it is empty and `changes` will be flushed together. The gather
    /// leaves its mark in the place of the table, for all marks in it.
    ///
    /// The lock of the table above is not needed: while the areas are not locked exclusively, no other task changes an
    /// entry that leads to a table.
    pub(crate) fn unlink_empty<R: FnMut(Held)>(
        &self,
        space: &SpaceHandle<P>,
        changes: &mut LeafChanges<'_, '_, '_, P, Held, R>,
        base: u64,
    ) {
        let Some(mark) = changes.mark() else { return };
        let gone = |entry: Entry| {
            entry.is_none() || entry.mark().is_some_and(|left| left == mark || self.engine.has_flushed(left))
        };
        let (Found::Leaf(above), Found::Leaf(table)) =
            (self.find_above(space, base), self.find_table(space, base))
        else {
            return;
        };
        if (0..ENTRIES).all(|index| gone(changes.table.get(index))) {
            changes.unlink(base, PageSize::KIB_4, |_| {
                self.platform().table(above).exchange(Table::index(base, 1), Entry::marked(mark));
                Some(Held::Table(table))
            });
        }
    }

    /// Fills a table that no CPU can reach yet with 512 entries that together mean the same as the huge `entry`.
    pub(crate) fn fill_table(&self, table: FrameNumber, entry: Entry) {
        let table = self.platform().table(table);
        for (index, frame) in huge_frames(entry.frame()).enumerate() {
            table.set(index, entry.part(frame));
        }
    }

    /// Replaces an entry above the lowest level, which is a table, a huge page or nothing, and returns the old entry.
    /// The caller holds the lock of the table, and every CPU that could use the old entry was told.
    pub(crate) fn set_table(&self, above: &Leaf<'_, P>, address: u64, entry: Entry) -> Entry {
        debug_assert_eq!(above.size, PageSize::MIB_2);
        if entry.present() && !entry.is_huge() {
            let (table, root) = (self.platform().table(entry.frame()), above.space.coherence().root());
            self.ask_shadow(|shadow| {
                let leading = (0..ENTRIES).map(|index| (index, table.get(index)));
                leading.filter(|(_, entry)| entry.present()).try_for_each(|(index, entry)| {
                    let at = (address >> LEAF_SHIFT << LEAF_SHIFT) + ((index as u64) << PAGE_SHIFT);
                    shadow.installs(root, at, PageSize::KIB_4, entry.frame())
                })
            });
        } else if entry.present() {
            let root = above.space.coherence().root();
            self.ask_shadow(|shadow| shadow.installs(root, address, PageSize::MIB_2, entry.frame()));
        }
        self.platform().work(Work::TableChange, 1);
        above.table.exchange(above.index(address), entry)
    }

    /// Unlinks every table that translates only addresses in `[floor, ceiling)` and some in `[start, end)`, lowest
    /// level first. `each` gets the first address that a table translated and the step that unlinks it, which it must
    /// execute. The tables must hold no translations, and the space's lock must be held exclusively.
    pub(crate) fn unlink_tables(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        end: u64,
        (floor, ceiling): (u64, u64),
        each: &mut Unlink<'_>,
    ) {
        self.unlink_below(space.root(), TOP, (start, end), (floor, ceiling), each);
    }

    fn unlink_below(
        &self,
        table: FrameNumber,
        level: u32,
        (start, end): (u64, u64),
        (floor, ceiling): (u64, u64),
        each: &mut Unlink<'_>,
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
                // A table is unlinked with all tables below it, because mappings that moved away may have left empty
                // ones.
                if level > 1 {
                    let part = if whole { (at, at + span) } else { (start.max(at), end.min(at + span)) };
                    self.unlink_below(child, level - 1, part, (floor, ceiling), each);
                }
                if whole {
                    each(at, &|| {
                        let lock = self.table_locks.of(table).lock(self.platform());
                        self.platform().table(table).set(index, Entry::NONE);
                        drop(lock);
                        child
                    });
                }
            }
            at += span;
        }
    }
}
