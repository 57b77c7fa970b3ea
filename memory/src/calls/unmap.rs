//! Unmapping that a program asks for: munmap and exit.
//!
//! Both are strict: when the call returns, no CPU uses the old translations (rule R3). The order is unhook, flush,
//! free. munmap holds the space's lock exclusively until the flush is done. Otherwise a fault could install a new page
//! where another CPU still reads the old one (rule R7).

use core::fmt;

use ceasefire::{Gather, PageSize, Place, RangeGuard};

use crate::address::{Pages, PAGE_BYTES, USER_END};
use crate::calls::zap::{Held, Room};
use crate::frames::allocate::OutOfMemory;
use crate::frames::released::Released;
use crate::machine::{Event, Machine, Work};
use crate::sabotage::Guard;
use crate::spaces::area::{checked_end, Area, Protection, RangeError};
use crate::spaces::space::{ClosedAreas, Ended, SpaceHandle};
use crate::Memory;

/// The reason why a range cannot be unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmapError {
    /// The range is not made of pages of a program (Linux: EINVAL).
    Range(RangeError),
    /// The range ends within a huge page, and there is no frame for the table that splits it (ENOMEM).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for UnmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for UnmapError {}

impl<P: Machine> Memory<P> {
    /// Unmaps a range (munmap).
    ///
    /// # Errors
    /// [`UnmapError`]; then nothing has changed. A range in which nothing is mapped is no error.
    pub fn unmap(&self, space: &SpaceHandle<P>, start: u64, pages: Pages) -> Result<(), UnmapError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        let mut areas = self.lock_to_change::<UnmapError>(space, &[(start, end)])?;
        let removed = areas.remove(start, end);
        let limits = areas.around(start);
        self.tear_down(&areas, &removed, (start, end), limits);
        drop(areas);
        self.platform().observe(Event::Returned {
            space: space.coherence(),
            start,
            end,
            allowed: Protection::None,
        });
        Ok(())
    }

    /// Takes a whole space apart (exit). Every thread of the space has ended, and reported its end after its CPU was
    /// [lazy](ceasefire::Engine::enter_lazy). CPUs may still have the space loaded, but no longer run it.
    ///
    /// The call unloads the space that the calling CPU has loaded. The caller must therefore be where no program
    /// continues without a switch. The caller may sleep in here, and no switch back to it may load the space again: the
    /// scheduler must treat it as a thread of the kernel already. Debug builds check this.
    ///
    /// Other handles of the space may be left. Calls with them are refused from then on, or do nothing; so does a second
    /// exit.
    pub fn exit(&self, space: SpaceHandle<P>) {
        drop(self.engine.unload());
        self.end(&space);
    }

    /// Takes apart a space that no CPU runs.
    pub(crate) fn end(&self, space: &SpaceHandle<P>) {
        let Ok(mut areas) = self.close_areas(space, &[(0, USER_END)]) else { return };
        areas.end();
        let removed = areas.remove(0, USER_END);
        self.tear_down(&areas, &removed, (0, USER_END), (0, USER_END));
        drop(areas);
        // The flush of the tables took the space off every CPU that still had it loaded, so no walker reads the root.
        let mut released = Released::new(self);
        let mut room = [Place::EMPTY];
        let mut gather = Gather::<P, Held, _>::new(&self.engine, space.coherence(), &mut room, |held| {
            released.give_up(held);
        });
        gather.unlink(0, PageSize::KIB_4, || Some(Held::Table(space.root())));
        gather.finish();
        let retired = self.engine.retire(space.coherence());
        // An ended space that a CPU still runs is safe too, but its ASID is lost.
        debug_assert!(retired.is_ok(), "{space:?} ended while a CPU ran it: {retired:?}");
    }

    /// Clears, unhooks and flushes the areas `removed`, which lie in `[start, end)`, and frees the tables between
    /// `limits` that are not needed any more. The space's lock is held exclusively.
    pub(crate) fn tear_down(
        &self,
        areas: &ClosedAreas<'_, P>,
        removed: &[Area],
        (start, end): (u64, u64),
        limits: (u64, u64),
    ) {
        self.drain_before_unmap();
        let space = areas.space();
        let pages = removed.iter().map(|area| (area.end - area.start) / PAGE_BYTES).sum();
        let mut released = Released::new(self);
        let mut room = Room::for_pages(pages);
        let mut gather =
            Gather::<P, Held, _>::keeping(&self.engine, areas, room.places(), |held| released.give_up(held));
        for area in removed {
            self.zap(space, &mut gather, (area.start, area.end));
        }
        if removed.iter().any(|area| area.file().is_some()) && self.guarded(Guard::Unhook) {
            // R6: the flush precedes the unhooking, after which the file's truncation or write-out no longer finds this
            // space. Their promises include CPUs that still use translations cleared here.
            gather.flush();
        }
        for area in removed {
            self.unhook_area(space, area);
        }
        // From here on the reverse map leads no task into these tables.
        self.unlink_tables(space, start, end, limits, &mut |address, table| {
            gather.unlink(address, PageSize::KIB_4, || Some(Held::Table(table())));
        });
        gather.finish();
    }
}
