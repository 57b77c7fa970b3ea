//! Huge pages: 2 MiB of anonymous memory in 512 neighbouring frames, translated by one entry.
//!
//! A huge page is mapped exactly once: fork splits it first. Splitting therefore needs only the lock of the table that
//! holds the entry. The entry is cleared and flushed, and a table of 512 entries with the same meaning takes its place.
//! An operation on a part of a huge page first splits the page at the ends of its range.

use ceasefire::{Batch, PageSize, Schedule};

use crate::address::{FrameNumber, USER_END};
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::{huge_frames, Frame, LruState};
use crate::machine::Machine;
use crate::spaces::area::Area;
use crate::spaces::space::{ClosedAreas, Ended, SharedAreas, SpaceHandle};
use crate::tables::entry::Entry;
use crate::tables::leaf::Leaf;
use crate::tables::walk::Found;
use crate::Memory;

/// The size of a huge page in bytes.
pub const HUGE_BYTES: u64 = PageSize::MIB_2.bytes();

/// The reason why a huge page cannot be split now.
pub(crate) enum Unsplit {
    /// The page is moving to other frames.
    Moving(FrameNumber),
    /// There is no frame for the table.
    OutOfMemory,
}

impl From<OutOfMemory> for Unsplit {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The start of the 2 MiB around an address.
pub(crate) fn base_of(address: u64) -> u64 {
    address & !(HUGE_BYTES - 1)
}

impl<P: Machine> Memory<P> {
    /// Locks the areas of a space exclusively and closes those of `ranges`, to change their mappings. No huge page
    /// reaches across an end of one.
    pub(crate) fn lock_to_change<'m, E: From<OutOfMemory> + From<Ended>>(
        &'m self,
        space: &'m SpaceHandle<P>,
        ranges: &[(u64, u64)],
    ) -> Result<ClosedAreas<'m, P>, E> {
        self.lock_and_split(|| self.close_areas(space, ranges), |_| self.split_all_ends(space, ranges))
    }

    /// The same, shared, for an operation that leaves the areas as they are.
    pub(crate) fn lock_to_share<'m, E: From<OutOfMemory> + From<Ended>>(
        &'m self,
        space: &'m SpaceHandle<P>,
        ranges: &[(u64, u64)],
    ) -> Result<SharedAreas<'m, P>, E> {
        self.lock_and_split(|| space.share_areas(self.platform()), |_| self.split_all_ends(space, ranges))
    }

    /// The same for fork: all huge pages of anonymous memory are split.
    pub(crate) fn lock_to_fork<'m, E: From<OutOfMemory> + From<Ended>>(
        &'m self,
        space: &'m SpaceHandle<P>,
    ) -> Result<ClosedAreas<'m, P>, E> {
        self.lock_and_split(
            || self.close_areas(space, &[(0, USER_END)]),
            |areas| {
                let private = areas.all().iter().filter(|area| area.anonymous().is_some());
                let mut bases = private.flat_map(|area| self.tables_of(space, area));
                bases.try_for_each(|base| self.split_at(space, base))
            },
        )
    }

    /// Takes a lock and splits huge pages under it. If one is moving, it drops the lock, waits, and begins again.
    fn lock_and_split<G, E: From<OutOfMemory> + From<Ended>>(
        &self,
        lock: impl Fn() -> Result<G, Ended>,
        split: impl Fn(&G) -> Result<(), Unsplit>,
    ) -> Result<G, E> {
        loop {
            let guard = lock()?;
            match split(&guard) {
                Ok(()) => return Ok(guard),
                Err(Unsplit::OutOfMemory) => return Err(OutOfMemory.into()),
                Err(Unsplit::Moving(frame)) => {
                    drop(guard);
                    self.wait_for_page(frame);
                }
            }
        }
    }

    /// The starts of the 2 MiB ranges of an area that have a table or a huge page.
    pub(crate) fn tables_of<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        area: &Area,
    ) -> impl Iterator<Item = u64> + 'm {
        let (start, end) = (base_of(area.start), area.end);
        let mut at = start;
        core::iter::from_fn(move || {
            while at < end && self.find_table(space, at) == Found::Nothing {
                at = self.next_table(space, at);
            }
            let base = at;
            at += HUGE_BYTES;
            (base < end).then_some(base)
        })
    }

    fn split_all_ends(&self, space: &SpaceHandle<P>, ranges: &[(u64, u64)]) -> Result<(), Unsplit> {
        ranges.iter().try_for_each(|&range| self.split_ends(space, range))
    }

    /// Splits the huge pages that the ends of a range cut.
    pub(crate) fn split_ends(&self, space: &SpaceHandle<P>, (start, end): (u64, u64)) -> Result<(), Unsplit> {
        for edge in [start, end] {
            if edge != base_of(edge) {
                self.split_at(space, edge)?;
            }
        }
        Ok(())
    }

    /// Splits the huge page at `address`, if there is one.
    pub(crate) fn split_at(&self, space: &SpaceHandle<P>, address: u64) -> Result<(), Unsplit> {
        if !matches!(self.find_table(space, address), Found::Huge(_)) {
            return Ok(());
        }
        let table = self.table_to_split()?;
        let left = match self.lock_leaf(space, address) {
            Some(leaf) if leaf.size() == PageSize::MIB_2 => {
                let entry = leaf.get(address);
                if entry.is_moving() {
                    drop(leaf);
                    self.free(table);
                    return Err(Unsplit::Moving(entry.frame()));
                }
                self.split(&leaf, base_of(address), table);
                None
            }
            _ => Some(table),
        };
        if let Some(table) = left {
            self.free(table);
        }
        Ok(())
    }

    /// An empty table for [`Memory::split`].
    fn table_to_split(&self) -> Result<Frame, OutOfMemory> {
        let table = self.allocate(self.home())?;
        self.zero(table.number(), 1);
        Ok(table)
    }

    /// Splits the huge page whose entry is in the locked table `leaf` and is not moving. A holder of the huge page
    /// holds its first small page from now on.
    pub(crate) fn split(&self, leaf: &Leaf<'_, P>, base: u64, table: Frame) {
        let old = self.replace_and_flush(leaf, base);
        let first = old.frame();
        let head = self.frames.get(first);
        if let Some((object, index)) = head.place() {
            for (offset, number) in (1..).zip(huge_frames(first).skip(1)) {
                // One reference is for the translation, one for the way to the lists.
                self.frames.get(number).adopt(object, index + offset, 2, 1, LruState::new(true));
            }
        }
        head.set_huge(false);
        let table = table.into_number();
        self.fill_table(table, old);
        self.set_table(leaf, base, Entry::table(table));
        huge_frames(first).skip(1).for_each(|number| self.list_soon(number));
        self.count(|share| &share.splits, 1);
    }

    /// Clears the translation of a huge page and flushes it at once; returns the old entry. No CPU may hold
    /// translations of both sizes (Intel SDM volume 3, section 4.10.2.3). The flush needs no batch: small pages of the
    /// same memory would need 512 flushes.
    fn replace_and_flush(&self, leaf: &Leaf<'_, P>, base: u64) -> Entry {
        let mut batch: Batch<'_, P, (), _, 1> = Batch::new(&self.engine, Schedule::PerPage, drop);
        let hidden = |old: Entry| if old.is_hidden() { old } else { old.begin_move() };
        let mut page = batch.take(());
        leaf.replace_in(&mut page, base, hidden)
    }
}
