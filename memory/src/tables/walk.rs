//! Walks through the tables: to the table that translates an address, and along a range.

use ceasefire::PageSize;

use crate::address::{FrameNumber, PAGE_SHIFT};
use crate::locks::Lock;
use crate::machine::Machine;
use crate::sabotage::Guard;
use crate::spaces::space::SpaceHandle;
use crate::tables::leaf::{Leaf, SettledLeaf};
use crate::tables::table::{Table, LEAF_SHIFT, TOP};
use crate::Memory;

/// The result of a walk towards an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// No table and no translation.
    Nothing,
    /// The lowest-level table.
    Leaf(FrameNumber),
    /// A table whose entry stands for 2 MiB.
    Huge(FrameNumber),
}

impl<P: Machine> Memory<P> {
    /// Walks towards an address. The caller holds the space's lock, or that of an area or a mapper that covers the
    /// address. So the tables above the lowest are not freed meanwhile. That of the lowest level may be, and is not read.
    pub(crate) fn find_table(&self, space: &SpaceHandle<P>, address: u64) -> Found {
        let mut frame = space.root();
        for level in (1..=TOP).rev() {
            let entry = self.platform().table(frame).lower(Table::index(address, level));
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
            let entry = self.platform().table(frame).lower(Table::index(address, level));
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
            let entry = self.platform().table(frame).lower(Table::index(address, level));
            if !entry.present() {
                return Found::Nothing;
            }
            frame = entry.frame();
        }
        Found::Leaf(frame)
    }

    /// The table whose entry may translate `address`, locked. The caller keeps the tables from being freed, as in
    /// [`Memory::find_table`].
    pub(crate) fn lock_leaf<'m>(&'m self, space: &'m SpaceHandle<P>, address: u64) -> Option<Leaf<'m, P>> {
        loop {
            match self.find_table(space, address) {
                Found::Nothing => return None,
                Found::Leaf(table) => {
                    let leaf = self.lock_in_place(space, table, address);
                    if leaf.is_some() {
                        return leaf;
                    }
                }
                Found::Huge(table) => {
                    let leaf = self.lock_table(space, table, PageSize::MIB_2);
                    // Checked again under the lock: the huge page may have been split meanwhile.
                    if leaf.get(address).is_huge() {
                        return Some(leaf);
                    }
                }
            }
        }
    }

    /// The same, after the space's debts are settled.
    pub(crate) fn settled_leaf<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        address: u64,
    ) -> Option<SettledLeaf<'m, P>> {
        Some(self.engine.settle(self.lock_leaf(space, address)?))
    }

    /// Locks a table of the lowest level that was found on the way to `address`; `None` if it is no longer there.
    ///
    /// DONTNEED frees tables while other tasks find them. It takes them from their places under their locks, which are not
    /// in them. So a task that has the lock and finds the table in its place keeps it there (Linux: `pmd_same`).
    pub(crate) fn lock_in_place<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        table: FrameNumber,
        address: u64,
    ) -> Option<Leaf<'m, P>> {
        let lock = self.table_locks.of(table).lock(self.platform());
        // R2
        if self.config.frees_tables
            && self.guarded(Guard::InPlace)
            && self.find_table(space, address) != Found::Leaf(table)
        {
            return None;
        }
        Some(self.leaf(space, table, PageSize::KIB_4, lock))
    }

    /// Locks a table that no other task frees.
    pub(crate) fn lock_table<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        table: FrameNumber,
        size: PageSize,
    ) -> Leaf<'m, P> {
        self.leaf(space, table, size, self.table_locks.of(table).lock(self.platform()))
    }

    fn leaf<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        table: FrameNumber,
        size: PageSize,
        lock: <P::Lock<()> as Lock<(), P>>::Guard<'m>,
    ) -> Leaf<'m, P> {
        self.touches(table, 1);
        Leaf { memory: self, space, size, _lock: lock, table: self.platform().table(table) }
    }

    /// Calls `visit` for each table with entries for pages in `[start, end)`, locked and settled, with the part of the
    /// range that it translates. No huge page reaches across either end.
    pub(crate) fn for_each_leaf(
        &self,
        space: &SpaceHandle<P>,
        range: (u64, u64),
        visit: impl FnMut(SettledLeaf<'_, P>, (u64, u64)),
    ) {
        self.for_each_locked(space, range, |address| self.settled_leaf(space, address), visit);
    }

    /// The same without settling the space's debts, for operations that promise the program nothing.
    pub(crate) fn for_each_owing_leaf(
        &self,
        space: &SpaceHandle<P>,
        range: (u64, u64),
        visit: impl FnMut(Leaf<'_, P>, (u64, u64)),
    ) {
        self.for_each_locked(space, range, |address| self.lock_leaf(space, address), visit);
    }

    fn for_each_locked<L>(
        &self,
        space: &SpaceHandle<P>,
        (start, end): (u64, u64),
        lock: impl Fn(u64) -> Option<L>,
        mut visit: impl FnMut(L, (u64, u64)),
    ) {
        let mut at = start;
        while at < end {
            let next = end.min(((at >> LEAF_SHIFT) + 1) << LEAF_SHIFT);
            if let Some(leaf) = lock(at) {
                visit(leaf, (at, next));
            } else {
                at = self.next_table(space, at).min(end);
                continue;
            }
            at = next;
            self.platform().reschedule();
        }
    }
}
