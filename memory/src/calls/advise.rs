//! madvise: what a program says about its memory. (COLLAPSE is in `collapse`.)

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Gather, PageSize, BATCH};

use crate::address::PAGE_BYTES;
use crate::calls::zap::{Held, Room};
use crate::frames::allocate::OutOfMemory;
use crate::frames::lru::Isolated;
use crate::locks::RwLock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::area::{checked_end, Area, Protection, RangeError, Source};
use crate::spaces::space::SpaceHandle;
use crate::tables::leaf::{narrow, LeafChanges};
use crate::tables::table::LEAF_SHIFT;
use crate::tables::walk::Found;
use crate::upkeep::reclaim::Why;
use crate::Memory;

/// Why an advice is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviseError {
    /// It is no range of pages (Linux: EINVAL).
    Range(RangeError),
    /// Nothing is mapped at this address of it (ENOMEM).
    NotMapped(u64),
    /// It is not private anonymous memory at this address, which the advice is for (EINVAL).
    NotAnonymous(u64),
    /// The pages at this address are locked (EINVAL).
    Locked(u64),
    /// It ends within a huge page, and there is no frame for the table that splits it (ENOMEM).
    OutOfMemory,
}

impl fmt::Display for AdviseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::NotMapped(address) => write!(f, "nothing is mapped at {address:#x}"),
            Self::NotAnonymous(address) => write!(f, "{address:#x} is not private anonymous memory"),
            Self::Locked(address) => write!(f, "the pages at {address:#x} are locked in memory"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl From<RangeError> for AdviseError {
    fn from(error: RangeError) -> Self {
        Self::Range(error)
    }
}

impl From<OutOfMemory> for AdviseError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Whether all of a range is mapped, and by areas that allow the advice.
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
    /// Drops the pages in a range; the next access finds it as it was first mapped (madvise DONTNEED).
    ///
    /// # Errors
    /// [`AdviseError`]; nothing has changed then. What is not mapped in the range is passed over.
    pub fn discard(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, bytes)?;
        let areas = self.lock_to_walk(space, (start, end))?;
        check(None, areas.overlapping(start, end), locked)?;
        self.drain_before_unmap();
        let mut room = Room::for_pages(PageSize::Huge.bytes() / PAGE_BYTES);
        let mut gather = Gather::<P, Held, _>::new(&self.engine, space.coherence(), room.places(), |held| {
            self.release(held)
        });
        for area in areas.overlapping(start, end) {
            let range = (start.max(area.start), end.min(area.end));
            self.zap(space, &mut gather, range);
        }
        gather.finish();
        drop(areas);
        self.platform().observe(Event::Returned {
            space: space.coherence(),
            start,
            end,
            allowed: Protection::None,
        });
        Ok(())
    }

    /// The program can do without what is in a range: each page keeps its bytes until memory is short, and reads as
    /// zeros from then on, unless it is stored to first (madvise FREE).
    ///
    /// # Errors
    /// [`AdviseError`]; nothing has changed then.
    pub fn advise_free(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, bytes)?;
        let areas = self.lock_to_walk(space, (start, end))?;
        let hole = areas.hole(start, end);
        check(hole, areas.overlapping(start, end), |area| not_anonymous(area).or_else(|| locked(area)))?;
        let mut room = Room::for_pages(PageSize::Huge.bytes() / PAGE_BYTES);
        let mut gather = Gather::<P, Held, _>::new(&self.engine, space.coherence(), room.places(), |held| {
            self.release(held)
        });
        for area in areas.overlapping(start, end) {
            let range = (start.max(area.start), end.min(area.end));
            self.for_each_leaf(space, range, |leaf, (start, end)| {
                // A huge page keeps its bytes: that is allowed, and cheaper than to split it for this.
                if leaf.size() == PageSize::Small {
                    // Flushed before the table is unlocked: reclaim asks the entry whether it was stored through.
                    let mut changes = gather.under(leaf);
                    for address in (start..end).step_by(PAGE_BYTES as usize) {
                        self.free_lazily(&mut changes, address);
                    }
                }
            });
        }
        gather.finish();
        Ok(())
    }

    /// Marks one page as one that may be dropped unless it is stored to.
    fn free_lazily<R: FnMut(Held)>(&self, leaf: &mut LeafChanges<'_, '_, '_, P, Held, R>, address: u64) {
        let entry = leaf.get(address);
        if entry.slot().is_some() {
            self.zap_entry(leaf, address);
            return;
        }
        if !entry.present() || entry.frame() == self.zero {
            return;
        }
        let info = self.frames.get(entry.frame());
        // A page that others map too, or that has a slot they may name, keeps its bytes for them.
        if !self.make_exclusive(entry.frame()) {
            return;
        }
        // Only a page that is on a list can change its place in line.
        let Some(page) = self.isolate_page(entry.frame()) else { return };
        info.clear_dirty();
        self.set_standing(&page, |state| state.set_lazy(true).set_active(false).set_referenced(false));
        narrow(leaf, address, |entry| entry.clean().unused());
        self.put_back(core::iter::once(page));
    }

    /// The program will not need a range soon: its pages are the next in line for reclaim (madvise COLD).
    ///
    /// # Errors
    /// [`AdviseError`]; nothing has changed then.
    pub fn advise_cold(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), AdviseError> {
        self.take_off_lists(space, start, bytes, false, |pages| {
            for page in &*pages {
                self.set_standing(page, |state| state.set_active(false).set_referenced(false));
            }
            self.put_back(pages.drain(..));
        })
    }

    /// The program will not need a range for long: its pages are reclaimed now (madvise PAGEOUT).
    ///
    /// # Errors
    /// [`AdviseError`]; nothing has changed then.
    pub fn advise_page_out(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), AdviseError> {
        self.take_off_lists(space, start, bytes, true, |pages| {
            self.evict(pages.drain(..), Why::Advised);
        })
    }

    /// Reclaims what can be had of a range that only this program maps, on the kernel's own account: as if memory were
    /// short and these pages came first; how many were freed. Nothing is promised to the program, so unlike what
    /// [`Memory::advise_page_out`] takes away these pages may go owing (Linux: proactive reclaim, `DAMON_RECLAIM`).
    ///
    /// # Errors
    /// [`AdviseError`]; nothing has changed then.
    pub fn reclaim_range(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<u64, AdviseError> {
        let mut freed = 0;
        self.take_off_lists(space, start, bytes, true, |pages| {
            freed += u64::from(self.evict(pages.drain(..), Why::Unused).0);
        })?;
        Ok(freed)
    }

    /// Allows pages of 2 MiB in a range of anonymous memory, or forbids them where there are none yet (madvise HUGEPAGE
    /// and NOHUGEPAGE).
    ///
    /// # Errors
    /// [`AdviseError`]; nothing has changed then.
    pub fn advise_huge(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        bytes: u64,
        huge: bool,
    ) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, bytes)?;
        // An area that ends within a huge page would keep operations on it from being its own.
        let mut areas = self.lock_to_change(space, (start, end))?;
        check(areas.hole(start, end), areas.overlapping(start, end), not_anonymous)?;
        areas.change(start, end, |area| area.huge = huge);
        Ok(())
    }

    /// Takes the pages of a range that only this program maps off the lists, marks them unused, and hands them over, up
    /// to a batch at a time, with nothing locked. With `split`, huge pages in small ones, as far as they lie in the range.
    pub(crate) fn take_off_lists(
        &self,
        space: &SpaceHandle<P>,
        start: u64,
        bytes: u64,
        split: bool,
        mut handle: impl FnMut(&mut Vec<Isolated>),
    ) -> Result<(), AdviseError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, bytes)?;
        self.list_collected();
        let mut pages = Vec::with_capacity(BATCH);
        let mut at = start;
        while at < end {
            {
                let areas = space.areas.read(self.platform());
                if at == start {
                    check(areas.hole(start, end), areas.overlapping(start, end), locked)?;
                }
                while at < end && pages.len() < BATCH {
                    if split && matches!(self.find_table(space, at), Found::Huge(_)) {
                        // One that cannot be split now stays, like any page that is in use.
                        if self.split_at(space, at).is_err() {
                            at = (at | ((1 << LEAF_SHIFT) - 1)) + 1;
                            continue;
                        }
                        self.list_own();
                    }
                    at = self.take_from_leaf(space, at, end, &mut pages);
                }
            }
            handle(&mut pages);
            if at < end {
                self.platform().reschedule();
            }
        }
        Ok(())
    }

    /// Takes pages off the lists as far as one table and a batch reach; where it stopped.
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
