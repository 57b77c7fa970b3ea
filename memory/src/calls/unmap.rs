//! What a program takes away itself: munmap and exit; and the walk that they share with madvise and truncation.
//!
//! Strict: when the call returns no CPU uses the old translations (rule R3). The order is unhook, flush, free. munmap
//! holds the space's lock exclusively until the flush is done; discarding holds it shared, so it flushes each table
//! before it unlocks it, else a fault could put a new page where another CPU still reads the old one (rule R7).

use core::fmt;

use ceasefire::{ClearedTable, Gather, PageSize};

use crate::address::{FrameNumber, USER_END};
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::Frame;
use crate::locks::RwLock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::area::{checked_end, Area, Protection, RangeError};
use crate::spaces::space::SpaceHandle;
use crate::tables::table::SettledLeaf;
use crate::Memory;

/// Why a range cannot be unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmapError {
    /// It is no range of pages (Linux: EINVAL).
    Range(RangeError),
    /// It ends within a huge page, and there is no frame for the table that splits it (ENOMEM).
    OutOfMemory,
}

impl fmt::Display for UnmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl From<RangeError> for UnmapError {
    fn from(error: RangeError) -> Self {
        Self::Range(error)
    }
}

impl From<OutOfMemory> for UnmapError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// What a cleared translation or table leaves behind, until it was flushed.
pub(crate) enum Held {
    Page(FrameNumber),
    Table(FrameNumber),
}

/// When a walk that clears translations flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushAt {
    /// Before each table is unlocked: others may fault.
    EachTable,
    /// At the end: the space's lock keeps others out.
    End,
}

impl<P: Machine> Memory<P> {
    /// Unmaps a range (munmap).
    ///
    /// # Errors
    /// [`UnmapError`]; nothing has changed then. A range in which nothing is mapped is no error.
    pub fn unmap(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), UnmapError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, bytes)?;
        let mut areas = self.lock_to_change(space, (start, end))?;
        let removed = areas.remove(start, end);
        let limits = areas.around(start);
        self.tear_down(space, &removed, (start, end), limits);
        drop(areas);
        self.platform().observe(Event::Returned {
            space: space.coherence(),
            start,
            end,
            allowed: Protection::None,
        });
        Ok(())
    }

    /// Takes a whole space apart (exit). Every thread of it has ended, and said so after its CPU was
    /// [lazy](ceasefire::Engine::enter_lazy): CPUs may still have it loaded, but run it no more.
    ///
    /// Whatever space the calling CPU has loaded is unloaded, so call it where no program goes on running afterwards
    /// without a switch. The caller may sleep in here, and no switch back to it may load the space again: to the scheduler
    /// it has to be a thread of the kernel's already. Debug builds notice.
    pub fn exit(&self, space: SpaceHandle<P>) {
        drop(self.engine.unload());
        self.end(&space);
    }

    /// Takes a space apart that no CPU runs.
    pub(crate) fn end(&self, space: &SpaceHandle<P>) {
        let mut areas = space.areas.write(self.platform());
        let removed = areas.remove(0, USER_END);
        self.tear_down(space, &removed, (0, USER_END), (0, USER_END));
        drop(areas);
        // The flush of the tables took the space off every CPU that still had it loaded, so nobody walks the root.
        let mut gather =
            Gather::<P, Held, _, 1>::new(&self.engine, space.coherence(), |held| self.release(held));
        gather.table(ClearedTable::new(0), Held::Table(space.root()));
        gather.finish();
        let retired = self.engine.retire(space.coherence());
        // It is as safe where this is not so, and loses an ASID.
        debug_assert!(retired.is_ok(), "{space:?} ended while a CPU ran it: {retired:?}");
    }

    /// Clears, unhooks and flushes `removed`, which lie in `[start, end)`, and frees the tables that nothing in
    /// between `limits` needs any more. The space's lock is held exclusively.
    pub(crate) fn tear_down(
        &self,
        space: &SpaceHandle<P>,
        removed: &[Area],
        (start, end): (u64, u64),
        limits: (u64, u64),
    ) {
        self.drain_before_unmap();
        let mut gather =
            Gather::<P, Held, _>::new(&self.engine, space.coherence(), |held| self.release(held));
        for area in removed {
            self.zap(space, &mut gather, (area.start, area.end), FlushAt::End);
        }
        if removed.iter().any(|area| area.file().is_some()) {
            // Before the file's truncation or write-out no longer finds this space: what they promise holds for CPUs that
            // still use what was cleared here, too.
            gather.flush();
        }
        for area in removed {
            self.unhook_area(space, area);
        }
        // From here on the reverse map leads nobody into these tables.
        self.unlink_tables(space, start, end, limits, &mut |address, table| {
            gather.table(ClearedTable::new(address), Held::Table(table));
        });
        gather.finish();
    }

    /// Clears every entry in a range.
    pub(crate) fn zap<R: FnMut(Held)>(
        &self,
        space: &SpaceHandle<P>,
        gather: &mut Gather<'_, P, Held, R>,
        range: (u64, u64),
        flush: FlushAt,
    ) {
        self.for_each_leaf(space, range, |leaf, (start, end)| {
            let huge = leaf.size() == PageSize::Huge;
            if huge && flush == FlushAt::EachTable && end - start < PageSize::Huge.bytes() {
                // Its ends were split when this began, so it came later: it may stay.
                return;
            }
            let mut dirty = false;
            for address in leaf.addresses((start, end)) {
                dirty |= self.zap_entry(gather, leaf, address);
            }
            // Whoever writes a page of a file out looks for entries like these, and must not find them gone while CPUs
            // can still store through them (Linux commit 1cf35d47712d).
            if dirty || flush == FlushAt::EachTable {
                gather.flush();
            }
        });
    }

    /// Clears one entry, whatever it stands for; whether a page of a file was stored to through it.
    pub(crate) fn zap_entry<R: FnMut(Held)>(
        &self,
        gather: &mut Gather<'_, P, Held, R>,
        leaf: &SettledLeaf<'_, P>,
        address: u64,
    ) -> bool {
        let entry = leaf.get(address);
        if entry.maps() {
            let (old, cleared) = leaf.clear(address);
            let page = self.unmapped_frame(old);
            gather.unmap(leaf, cleared, page.map(Held::Page));
            let of_file =
                |frame| self.frames.get(frame).place().is_some_and(|(object, _)| !object.is_anonymous());
            return old.dirty() && page.is_some_and(of_file);
        }
        if !entry.is_none() {
            // A moving page has given up its claim here already; nothing will lead to it when it arrives.
            leaf.note(address, crate::tables::table::Entry::NONE);
            if let Some(slot) = entry.slot() {
                self.unname_slot(slot);
            }
        }
        false
    }

    pub(crate) fn release(&self, held: Held) {
        match held {
            Held::Page(page) => self.put(page),
            Held::Table(table) => {
                self.platform().work(Work::TableChange, 1);
                self.platform().observe(Event::TableFreed(table));
                self.free(Frame::owned(table));
            }
        }
    }
}
