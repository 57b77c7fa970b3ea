//! madvise: a program's advice about its memory. (COLLAPSE is in `collapse`.)

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Gather, PageSize, BATCH};

use crate::address::{Pages, PAGE_BYTES};
use crate::calls::ranges::united;
use crate::calls::zap::{Held, Room};
use crate::frames::allocate::OutOfMemory;
use crate::frames::lru::Isolated;
use crate::frames::released::Released;
use crate::machine::{Event, Machine, Work};
use crate::spaces::area::{checked_end, Area, Protection, RangeError, Source};
use crate::spaces::space::{Ended, SpaceHandle};
use crate::tables::leaf::{narrow, LeafChanges};
use crate::tables::table::LEAF_SHIFT;
use crate::tables::walk::Found;
use crate::upkeep::reclaim::Why;
use crate::Memory;

/// The reason why advice is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviseError {
    /// The range is not made of pages of a program (Linux: EINVAL).
    Range(RangeError),
    /// Nothing is mapped at this address of the range (ENOMEM).
    NotMapped(u64),
    /// The advice is for private anonymous memory, and this address is not (EINVAL).
    NotAnonymous(u64),
    /// The pages at this address are locked (EINVAL).
    Locked(u64),
    /// The range ends within a huge page, and there is no frame for the table that splits it (ENOMEM).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for AdviseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::NotMapped(address) => write!(f, "nothing is mapped at {address:#x}"),
            Self::NotAnonymous(address) => write!(f, "{address:#x} is not private anonymous memory"),
            Self::Locked(address) => write!(f, "the pages at {address:#x} are locked in memory"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for AdviseError {}

/// Checks that all of a range is mapped, by areas that allow the advice.
fn check<'a>(
    hole: Option<u64>,
    mut areas: impl Iterator<Item = &'a Area>,
    refused: impl Fn(&Area) -> Option<AdviseError>,
) -> Result<(), AdviseError> {
    if let Some(hole) = hole {
        return Err(AdviseError::NotMapped(hole));
    }
    areas.find_map(refused).map_or(Ok(()), Err)
}

fn locked(area: &Area) -> Option<AdviseError> {
    area.locked.then_some(AdviseError::Locked(area.start))
}

fn not_anonymous(area: &Area) -> Option<AdviseError> {
    (!matches!(area.source, Source::Anonymous(_))).then_some(AdviseError::NotAnonymous(area.start))
}

impl<P: Machine> Memory<P> {
    /// Drops the pages in a range. The next access finds the range as it was first mapped (madvise DONTNEED).
    ///
    /// # Errors
    /// As [`Memory::discard_ranges`].
    pub fn discard(&self, space: &SpaceHandle<P>, start: u64, pages: Pages) -> Result<(), AdviseError> {
        self.discard_ranges(space, &[(start, pages)])
    }

    /// Drops the pages in several ranges of a space, each a start and a length (Linux: `process_madvise`).
    ///
    /// The ranges may overlap and may be in any order; those that overlap or touch count as one. Faults go on in them. One
    /// flush serves all ranges, with three exceptions. A table with pages of files that were stored to has its own flush.
    /// So has a huge page, and so has every 10 000 pages.
    ///
    /// # Errors
    /// [`AdviseError`] for a range; then no range has changed. Unmapped parts of the ranges are skipped. (Linux advises
    /// the ranges before the refused one and returns how many bytes they have.)
    pub fn discard_ranges(&self, space: &SpaceHandle<P>, ranges: &[(u64, Pages)]) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, ranges.len() as u32);
        let ranges = united(ranges)?;
        self.walk::<AdviseError>(space, &ranges, |areas| {
            for &range in ranges.iter() {
                check(None, areas.overlapping(range), locked)?;
            }
            self.drain_before_unmap();
            let mut released = Released::new(self);
            let mut room =
                Room::for_pages(ranges.iter().map(|(start, end)| (end - start) / PAGE_BYTES).sum());
            let coherence = areas.space().coherence();
            let gather =
                Gather::marking(&self.engine, coherence, room.places(), |held| released.give_up(held));
            let parts = ranges.iter().flat_map(|&(start, end)| {
                areas.overlapping((start, end)).map(move |area| (start.max(area.start), end.min(area.end)))
            });
            self.change_leaves(space, gather, parts, |changes, part| {
                self.zap_leaf(changes, part);
                if self.config.frees_tables && part.1 - part.0 == PageSize::MIB_2.bytes() {
                    self.unlink_empty(space, changes, part.0);
                }
            });
            Ok(())
        })?;
        for &(start, end) in ranges.iter() {
            let (space, allowed) = (space.coherence(), Protection::None);
            self.platform().observe(Event::Returned { space, start, end, allowed });
        }
        Ok(())
    }

    /// The program no longer needs the contents of a range. Each page keeps its bytes until memory is short and reads
    /// as zeros from then on, unless it is stored to first (madvise FREE).
    ///
    /// # Errors
    /// As [`Memory::advise_free_ranges`].
    pub fn advise_free(&self, space: &SpaceHandle<P>, start: u64, pages: Pages) -> Result<(), AdviseError> {
        self.advise_free_ranges(space, &[(start, pages)])
    }

    /// The same for several ranges of a space, each a start and a length (Linux: `process_madvise`). The ranges are as in
    /// [`Memory::discard_ranges`]. Each table in which entries change has its own flush, for one range as for several.
    ///
    /// # Errors
    /// [`AdviseError`] for a range; then no range has changed. (Linux advises the ranges before the refused one and
    /// returns how many bytes they have.)
    pub fn advise_free_ranges(
        &self,
        space: &SpaceHandle<P>,
        ranges: &[(u64, Pages)],
    ) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, ranges.len() as u32);
        let ranges = united(ranges)?;
        self.walk::<AdviseError>(space, &ranges, |areas| {
            for &range in ranges.iter() {
                let refused = |area: &Area| not_anonymous(area).or_else(|| locked(area));
                check(areas.hole(range), areas.overlapping(range), refused)?;
            }
            let (mut released, mut listed) = (Released::new(self), Released::new(self));
            let coherence = areas.space().coherence();
            let gather = Gather::new(&self.engine, coherence, &mut [], |held| released.give_up(held));
            self.change_leaves(space, gather, ranges.iter().copied(), |changes, (start, end)| {
                // A huge page keeps its bytes. That is allowed, and cheaper than a split.
                if changes.size() == PageSize::KIB_4 {
                    for address in (start..end).step_by(PAGE_BYTES as usize) {
                        self.free_lazily(changes, address, &mut listed);
                    }
                    listed.list();
                }
            });
            for &(start, end) in ranges.iter() {
                self.platform().observe(Event::Cleaned { space: space.coherence(), start, end });
            }
            Ok(())
        })
    }

    /// Marks one page as droppable unless it is stored to.
    fn free_lazily<R: FnMut(Held)>(
        &self,
        leaf: &mut LeafChanges<'_, '_, '_, P, Held, R>,
        address: u64,
        listed: &mut Released<'_, P>,
    ) {
        let entry = leaf.get(address);
        if entry.slot().is_some() {
            self.zap_entry(leaf, address);
            return;
        }
        if !entry.present() || entry.frame() == self.zero {
            return;
        }
        let info = self.frames.get(entry.frame());
        // A page that other spaces map, or whose slot they may name, keeps its bytes for them.
        if !self.make_exclusive(entry.frame()) {
            return;
        }
        // Only a page that is on a list can change its place there.
        let Some(page) = self.isolate_page(entry.frame()) else { return };
        info.clear_dirty();
        self.set_standing(&page, |state| state.set_lazy(true).set_active(false).set_referenced(false));
        narrow(leaf, address, |entry| entry.clean().unused());
        // Reclaim reads from the entry whether it was stored through, under the lock of the table. So it reads that after
        // the flush (R5).
        listed.put_back(page);
    }

    /// The program will not need a range soon: its pages become the next candidates for reclaim (madvise COLD).
    ///
    /// # Errors
    /// [`AdviseError`]; then nothing has changed.
    pub fn advise_cold(&self, space: &SpaceHandle<P>, start: u64, pages: Pages) -> Result<(), AdviseError> {
        self.take_off_lists(space, start, pages, false, |pages| {
            for page in &*pages {
                self.set_standing(page, |state| state.set_active(false).set_referenced(false));
            }
            self.put_back(pages.drain(..));
        })
    }

    /// The program will not need a range for long: its pages are reclaimed now (madvise PAGEOUT).
    ///
    /// # Errors
    /// [`AdviseError`]; then nothing has changed.
    pub fn advise_page_out(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        pages: Pages,
    ) -> Result<(), AdviseError> {
        self.take_off_lists(space, start, pages, true, |pages| {
            self.evict(pages.drain(..), Why::Advised);
        })
    }

    /// Reclaims pages of a range that only this program maps, on the kernel's own account, as if memory were short and
    /// these pages came first. Returns how many were freed. Nothing is promised to the program, so these pages may be
    /// freed owing, unlike those of [`Memory::advise_page_out`] (Linux: proactive reclaim, `DAMON_RECLAIM`).
    ///
    /// # Errors
    /// [`AdviseError`]; then nothing has changed.
    pub fn reclaim_range(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        pages: Pages,
    ) -> Result<u64, AdviseError> {
        let mut freed = 0;
        self.take_off_lists(space, start, pages, true, |pages| {
            freed += u64::from(self.evict(pages.drain(..), Why::Unused).0);
        })?;
        Ok(freed)
    }

    /// Allows pages of 2 MiB in a range of anonymous memory, or forbids new ones (madvise HUGEPAGE and NOHUGEPAGE).
    ///
    /// # Errors
    /// [`AdviseError`]; then nothing has changed.
    pub fn advise_huge(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        pages: Pages,
        huge: bool,
    ) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        // Huge pages are split at the ends of the range: no area may end within one.
        let mut areas = self.lock_to_change::<AdviseError>(space, &[(start, end)])?;
        check(areas.hole(start, end), areas.overlapping(start, end), not_anonymous)?;
        areas.change(start, end, |area| area.huge = huge);
        Ok(())
    }

    /// Takes the pages of a range that only this program maps off the lists and marks them unused. `handle` gets them,
    /// up to a batch at a time, with nothing locked. With `split`, huge pages are split first, as far as they lie in
    /// the range.
    pub(crate) fn take_off_lists(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        pages: Pages,
        split: bool,
        mut handle: impl FnMut(&mut Vec<Isolated>),
    ) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        self.list_collected();
        let mut taken = Vec::with_capacity(BATCH);
        let mut at = start;
        while at < end {
            {
                let areas = space.share_areas(self.platform())?;
                if at == start {
                    check(areas.hole(start, end), areas.overlapping(start, end), locked)?;
                }
                while at < end && taken.len() < BATCH {
                    if split && matches!(self.find_table(space, at), Found::Huge(_)) {
                        // A huge page that cannot be split now stays, like any page in use.
                        if self.split_at(space, at).is_err() {
                            at = (at | ((1 << LEAF_SHIFT) - 1)) + 1;
                            continue;
                        }
                        self.list_own();
                    }
                    at = self.take_from_leaf(space, at, end, &mut taken);
                }
            }
            handle(&mut taken);
            if at < end {
                self.platform().reschedule();
            }
        }
        Ok(())
    }

    /// Takes pages off the lists, within one table and up to a full batch; returns the address where it stopped.
    fn take_from_leaf(&self, space: &SpaceHandle<P>, start: u64, end: u64, pages: &mut Vec<Isolated>) -> u64 {
        let next = end.min((start | ((1 << LEAF_SHIFT) - 1)) + 1);
        let Some(leaf) = self.settled_leaf(space, start) else {
            return self.next_table(space, start).min(end);
        };
        for address in leaf.addresses((start, next)) {
            if pages.len() == BATCH {
                return address;
            }
            let entry = leaf.get(address);
            if entry.present() && entry.frame() != self.zero && self.frames.get(entry.frame()).maps() == 1 {
                leaf.test_and_clear_accessed(address);
                pages.extend(self.isolate_page(entry.frame()));
            }
        }
        next
    }
}
