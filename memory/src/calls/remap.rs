//! mremap: growing, shrinking and moving a mapping.
//!
//! Moving takes entries out of one place and puts them into another. Each table is flushed before it is unlocked.
//! Otherwise another task could find the pages at their new address and free them while CPUs still reach them through
//! the old one. While entries are in neither place, no task may look for them: the mappers of the file and of the
//! private pages are held exclusively, and the space's lock keeps faults out. Where both addresses have the same offset
//! in their 2 MiB, whole tables move instead of entries.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Gather, PageSize};

use crate::address::{Pages, PAGE_BYTES, USER_END};
use crate::calls::zap::{Held, Room};
use crate::frames::allocate::OutOfMemory;
use crate::frames::released::Released;
use crate::locks::RwLock;
use crate::machine::{Event, Machine, Work};
use crate::objects::reverse::area_mapper;
use crate::spaces::area::{checked_end, Area, Areas, Protection, RangeError};
use crate::spaces::space::{ClosedAreas, Ended, SpaceHandle};
use crate::tables::entry::Entry;
use crate::tables::huge::{Unsplit, HUGE_BYTES};
use crate::tables::leaf::{clear, install_new};
use crate::tables::walk::Found;
use crate::Memory;

/// The places where a mapping may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The mapping stays where it is.
    Here,
    /// The mapping may move if it cannot grow where it is (`MREMAP_MAYMOVE`).
    Anywhere,
    /// The mapping goes to exactly this address. Existing mappings there are unmapped first (`MREMAP_FIXED`).
    At(u64),
}

/// The reason why a mapping cannot be moved or resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemapError {
    /// The old or the new range is not made of pages of a program (Linux: EINVAL).
    Range(RangeError),
    /// The old and the new range overlap (EINVAL).
    Overlap,
    /// The old range is not within one mapping (EFAULT).
    NotOneMapping(u64),
    /// The mapping cannot grow where it is, there is no room elsewhere, or it would reach beyond the longest file
    /// (ENOMEM).
    NoRoom(Pages),
    /// There is no frame for a table (ENOMEM).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for RemapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::Overlap => f.write_str("the old and the new range overlap"),
            Self::NotOneMapping(address) => write!(f, "the range at {address:#x} is not one mapping"),
            Self::NoRoom(pages) => write!(f, "no room for {pages}"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for RemapError {}

impl<P: Machine> Memory<P> {
    /// Gives the mapping of `pages` at `start` a new length, and perhaps a new place; returns its address (mremap).
    ///
    /// # Errors
    /// [`RemapError`]; then nothing has changed.
    pub fn remap(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        pages: Pages,
        new_pages: Pages,
        placement: Placement,
    ) -> Result<u64, RemapError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        // Only the length of the new range matters here, because the mapping may move. From 0 on its end is its bytes.
        let new_bytes = checked_end(0, new_pages).map_err(|_| RangeError { start, pages: new_pages })?;
        if let Placement::At(at) = placement {
            let new_end = checked_end(at, new_pages)?;
            if at < end && start < new_end {
                return Err(RemapError::Overlap);
            }
        }
        loop {
            let areas = space.lock_areas(self.platform())?;
            let to = destination(&areas, (start, end), new_bytes, placement)?;
            let mut areas = self.closed(areas, &[(start, end), (to, to + new_bytes)]);
            match self.prepare(space, (start, end), to, new_bytes) {
                Ok(()) => {}
                Err(error) => {
                    // Frees the tables made so far.
                    self.free_unneeded(space, &areas, (to, to + new_bytes));
                    drop(areas);
                    match error {
                        Unsplit::OutOfMemory => return Err(RemapError::OutOfMemory),
                        Unsplit::Moving(frame) => self.wait_for_page(frame),
                    }
                    continue;
                }
            }
            // No step from here on can fail.
            if to != start {
                self.vacate(&mut areas, (to, to + new_bytes));
            }
            if new_bytes < end - start {
                self.vacate(&mut areas, (start + new_bytes, end));
            }
            let kept = (end - start).min(new_bytes);
            for part in areas.remove(start, start + kept) {
                let moved = Area { start: to, end: to + new_bytes, ..part };
                self.relocate(space, &part, &moved);
                areas.insert(moved);
            }
            self.free_unneeded(space, &areas, (start, end));
            drop(areas);
            let kept_here = if to == start { kept } else { 0 };
            let taken = if to == start { to } else { to + new_bytes };
            for (start, end) in [(start + kept_here, end), (to, taken)] {
                let (space, allowed) = (space.coherence(), Protection::None);
                self.platform().observe(Event::Returned { space, start, end, allowed });
            }
            return Ok(to);
        }
    }

    /// Creates the tables that the new place needs. Splits huge pages that the ends of either place cut, or that cannot
    /// move whole.
    fn prepare(
        &self,
        space: &SpaceHandle<P>,
        (start, end): (u64, u64),
        to: u64,
        new_bytes: u64,
    ) -> Result<(), Unsplit> {
        let kept = (end - start).min(new_bytes);
        self.split_ends(space, (start, end))?;
        self.split_ends(space, (start, start + kept))?;
        if to == start {
            return Ok(());
        }
        self.split_ends(space, (to, to + new_bytes))?;
        let mut at = start;
        while at < start + kept {
            let next = (start + kept).min((at | (HUGE_BYTES - 1)) + 1);
            if self.moves_whole(space, (at, next), to + (at - start)) {
                self.make_table_of(space, to + (at - start), 1)?;
            } else {
                self.split_at(space, at)?;
                if self.find_table(space, at) != Found::Nothing {
                    self.make_leaf(space, to + (at - start))?;
                    self.make_leaf(space, to + (next - 1 - start))?;
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Creates a lowest-level table for an address, even in place of a huge page, which is about to be unmapped.
    fn make_leaf(&self, space: &SpaceHandle<P>, address: u64) -> Result<(), Unsplit> {
        self.split_at(space, address)?;
        self.make_table(space, address)?;
        Ok(())
    }

    /// Whether a range is the whole range of one table, and can move with it: the new place has the same offset in its
    /// 2 MiB and is empty.
    fn moves_whole(&self, space: &SpaceHandle<P>, (start, end): (u64, u64), to: u64) -> bool {
        end - start == HUGE_BYTES
            && to.is_multiple_of(HUGE_BYTES)
            && self.find_table(space, to) == Found::Nothing
    }

    /// Unmaps a range, and leaves the tables.
    fn vacate(&self, areas: &mut ClosedAreas<'_, P>, (start, end): (u64, u64)) {
        let removed = areas.remove(start, end);
        self.tear_down(areas, &removed, (start, end), (start, start));
    }

    /// Frees the tables that translate a part of a range and nothing mapped.
    fn free_unneeded(&self, space: &SpaceHandle<P>, areas: &ClosedAreas<'_, P>, (start, end): (u64, u64)) {
        let mut released = Released::new(self);
        let mut room = Room::for_pages(0);
        let mut gather: Gather<'_, P, Held, _> =
            Gather::keeping(&self.engine, areas, room.places(), |held| released.give_up(held));
        let mut at = start;
        while at < end {
            if let Some(area) = areas.find(at) {
                at = area.end;
                continue;
            }
            let (floor, ceiling) = areas.around(at);
            let stop = end.min(ceiling);
            self.unlink_tables(space, at, stop, (floor, ceiling), &mut |address, table| {
                gather.unlink(address, PageSize::KIB_4, || Some(Held::Table(table())));
            });
            at = stop;
        }
        gather.finish();
    }

    /// Moves the mappings of `old` to the place of `new`, and tells the reverse map. Both may be in one place, and
    /// `new` may be longer.
    fn relocate(&self, space: &SpaceHandle<P>, old: &Area, new: &Area) {
        let platform = self.platform();
        let mappers = |object| self.objects.get(object).mappers.write(platform);
        let mut file = old.file().map(mappers);
        let mut own = old.anonymous().map(mappers);
        for mappers in file.iter_mut().chain(&mut own) {
            mappers.remove(space, old.start, old.end);
            mappers.add(area_mapper(space, new));
        }
        if new.start != old.start {
            self.move_entries(space, (old.start, old.end), new.start);
        }
    }

    /// Moves the entries of a range. No other task looks for them: the caller holds the space and the mappers
    /// exclusively.
    fn move_entries(&self, space: &SpaceHandle<P>, (start, end): (u64, u64), to: u64) {
        let mut moved = Vec::new();
        let mut at = start;
        while at < end {
            let target = to + (at - start);
            let next = end.min((at | (HUGE_BYTES - 1)) + 1);
            if self.moves_whole(space, (at, next), target) {
                self.move_table(space, at, target);
                at = next;
                continue;
            }
            // Up to where one table reaches in both places.
            let next = next.min(at + ((target | (HUGE_BYTES - 1)) + 1 - target));
            self.take_entries(space, (at, next), &mut moved);
            if !moved.is_empty() {
                if let Some(leaf) = self.settled_leaf(space, target) {
                    for (address, entry) in moved.drain(..) {
                        let address = address - at + target;
                        if entry.present() {
                            install_new(&leaf, address, entry);
                        } else {
                            leaf.note(address, entry);
                        }
                    }
                }
            }
            debug_assert!(moved.is_empty(), "the tables of the new place exist already");
            at = next;
            self.platform().reschedule();
        }
    }

    /// Takes the entries of a part of a table out.
    fn take_entries(&self, space: &SpaceHandle<P>, (start, end): (u64, u64), moved: &mut Vec<(u64, Entry)>) {
        let Some(leaf) = self.settled_leaf(space, start) else { return };
        let mut gather: Gather<'_, P, (), _> = Gather::new(&self.engine, space.coherence(), &mut [], drop);
        // The flush comes before the table is unlocked.
        let mut leaf = gather.under(leaf);
        for address in (start..end).step_by(PAGE_BYTES as usize) {
            let entry = leaf.get(address);
            if entry.present() {
                // The page stays with the entry, which is installed again.
                moved.push((address, clear(&mut leaf, address, |_| None)));
            } else if !entry.is_none() {
                leaf.note(address, Entry::NONE);
                if !entry.is_empty() {
                    moved.push((address, entry));
                }
            }
        }
        drop(leaf);
        gather.finish();
    }

    /// Moves a whole table, or a huge page, to an empty place.
    fn move_table(&self, space: &SpaceHandle<P>, from: u64, to: u64) {
        let (Found::Leaf(above), Found::Leaf(target)) =
            (self.find_above(space, from), self.find_above(space, to))
        else {
            return;
        };
        let entry = {
            let leaf = self.engine.settle(self.lock_table(space, above, PageSize::MIB_2));
            if leaf.get(from).is_empty() {
                return;
            }
            let mut gather: Gather<'_, P, (), _> =
                Gather::new(&self.engine, space.coherence(), &mut [], drop);
            let mut leaf = gather.under(leaf);
            // The flush comes before the table above is unlocked.
            if leaf.get(from).is_huge() {
                leaf.clear(from, PageSize::MIB_2, |leaf| self.set_table(leaf, from, Entry::NONE), |_| None)
            } else {
                leaf.detach(from, PageSize::KIB_4, HUGE_BYTES, |leaf| self.set_table(leaf, from, Entry::NONE))
            }
        };
        let leaf = self.lock_table(space, target, PageSize::MIB_2);
        self.set_table(&leaf, to, entry);
    }
}

/// The future address of a mapping.
fn destination(
    areas: &Areas,
    (start, end): (u64, u64),
    new_bytes: u64,
    placement: Placement,
) -> Result<u64, RemapError> {
    let area = areas.find(start).filter(|area| area.end >= end).ok_or(RemapError::NotOneMapping(start))?;
    let no_room = RemapError::NoRoom(Pages::new(new_bytes / PAGE_BYTES));
    if u64::from(area.index(start)) + new_bytes / PAGE_BYTES > u64::from(u32::MAX) {
        return Err(no_room);
    }
    let fits = start.checked_add(new_bytes).is_some_and(|new_end| new_end <= USER_END);
    let grows_here = || fits && area.end == end && areas.overlapping(end, start + new_bytes).next().is_none();
    match placement {
        Placement::At(at) => Ok(at),
        _ if new_bytes <= end - start || grows_here() => Ok(start),
        Placement::Here => Err(no_room),
        Placement::Anywhere => areas.room(new_bytes, false).ok_or(no_room),
    }
}
