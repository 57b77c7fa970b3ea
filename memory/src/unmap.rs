//! What a program takes away itself: munmap, madvise(DONTNEED), exit.
//!
//! Strict: when the call returns no CPU uses the old translations (rule R3). The order is unhook, flush, free. munmap
//! holds the space's lock exclusively until the flush is done; discarding holds it shared, so it flushes each table
//! before it unlocks it, else a fault could put a new page where another CPU still reads the old one (rule R7).

use core::fmt;

use ceasefire::{ClearedTable, Gather, RwLock};

use crate::address::{PAGE_BYTES, USER_END};
use crate::area::{pages_between, Area, Source};
use crate::frame::Frame;
use crate::machine::{Event, Machine, Work};
use crate::space::{objects_of, SpaceHandle};
use crate::table::{SettledLeaf, LEAF_SHIFT};
use crate::{FrameNumber, Memory};

/// A range that is no range of pages: unaligned, empty, wrapping, or beyond the addresses of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeError {
    /// The address it starts at.
    pub start: u64,
    /// The length in bytes.
    pub bytes: u64,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at {:#x} are not whole pages of {PAGE_BYTES} bytes below {USER_END:#x}",
            self.bytes, self.start
        )
    }
}

/// What a cleared translation or table leaves behind, until it was flushed.
enum Held {
    Page(FrameNumber),
    Table(FrameNumber),
}

/// When a walk that clears translations flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlushAt {
    /// Before each table is unlocked: others may fault.
    EachTable,
    /// At the end: the space's lock keeps others out.
    End,
}

impl<P: Machine> Memory<P> {
    /// Unmaps a range (munmap).
    ///
    /// # Errors
    /// [`RangeError`]; nothing has changed then. A range in which nothing is mapped is no error.
    pub fn unmap(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), RangeError> {
        let end = self.checked_end(start, bytes)?;
        let mut areas = space.areas.write(self.platform());
        let removed = areas.remove(start, end);
        let (floor, ceiling) = areas.around(start);
        self.tear_down(space, &removed, (start, end), (floor, ceiling));
        let after: alloc::vec::Vec<Area> = areas.overlapping(0, USER_END).copied().collect();
        drop(areas);
        self.drop_unused_objects(&removed, &after);
        self.platform().observe(Event::Returned { space: space.coherence(), start, end });
        Ok(())
    }

    /// Drops the pages in a range; the next access finds it as it was first mapped (madvise DONTNEED).
    ///
    /// # Errors
    /// [`RangeError`]; nothing has changed then.
    pub fn discard(&self, space: &SpaceHandle<P>, start: u64, bytes: u64) -> Result<(), RangeError> {
        let end = self.checked_end(start, bytes)?;
        let areas = space.areas.read(self.platform());
        let mut gather =
            Gather::<P, Held, _>::new(&self.engine, space.coherence(), |held| self.release(held));
        for area in areas.overlapping(start, end) {
            self.zap(space, &mut gather, start.max(area.start), end.min(area.end), FlushAt::EachTable);
        }
        gather.finish();
        self.platform().observe(Event::Returned { space: space.coherence(), start, end });
        Ok(())
    }

    /// Takes a whole space apart (exit). Every thread of it has ended; CPUs may still have it loaded, lazily.
    ///
    /// Whatever space the calling CPU has loaded is unloaded, so call it where no program goes on running afterwards
    /// without a switch.
    pub fn exit(&self, space: SpaceHandle<P>) {
        drop(self.engine.unload());
        let mut areas = space.areas.write(self.platform());
        let removed = areas.remove(0, USER_END);
        self.tear_down(&space, &removed, (0, USER_END), (0, USER_END));
        drop(areas);
        self.drop_unused_objects(&removed, &[]);
        // The flush of the tables took the space off every CPU that still had it loaded, so nobody walks the root.
        let mut gather =
            Gather::<P, Held, _, 1>::new(&self.engine, space.coherence(), |held| self.release(held));
        gather.table(ClearedTable::new(0), Held::Table(space.root()));
        gather.finish();
    }

    fn checked_end(&self, start: u64, bytes: u64) -> Result<u64, RangeError> {
        self.platform().work(Work::AreaChange, 1);
        let error = RangeError { start, bytes };
        let end = start.checked_add(bytes).ok_or(error)?;
        pages_between(start, end).map(|_| end).ok_or(error)
    }

    /// Clears, unhooks and flushes `removed`, which lie in `[start, end)`, and frees the tables that nothing in
    /// between `limits` needs any more.
    fn tear_down(
        &self,
        space: &SpaceHandle<P>,
        removed: &[Area],
        (start, end): (u64, u64),
        limits: (u64, u64),
    ) {
        let mut gather =
            Gather::<P, Held, _>::new(&self.engine, space.coherence(), |held| self.release(held));
        for area in removed {
            self.zap(space, &mut gather, area.start, area.end, FlushAt::End);
        }
        for area in removed {
            self.unhook(space, area);
        }
        // From here on the reverse map leads nobody into these tables.
        if let (Some(first), Some(last)) = (removed.first(), removed.last()) {
            let range = (first.start.max(start), last.end.min(end));
            self.unlink_tables(space, range.0, range.1, limits, &mut |address, table| {
                gather.table(ClearedTable::new(address), Held::Table(table));
            });
        }
        gather.finish();
    }

    /// Clears every translation in a range.
    fn zap<R: FnMut(Held)>(
        &self,
        space: &SpaceHandle<P>,
        gather: &mut Gather<'_, P, Held, R>,
        start: u64,
        end: u64,
        flush: FlushAt,
    ) {
        let mut at = start;
        while at < end {
            let next = ((at >> LEAF_SHIFT) + 1) << LEAF_SHIFT;
            if let Some(table) = self.find_leaf(space, at) {
                let leaf = SettledLeaf::new(self.lock_leaf(space, table, at));
                for address in (at..next.min(end)).step_by(PAGE_BYTES as usize) {
                    if leaf.get(address).present() {
                        let (old, cleared) = leaf.clear(address);
                        gather.unmap(cleared, self.unmapped_frame(old).map(Held::Page));
                    }
                }
                if flush == FlushAt::EachTable {
                    gather.flush();
                }
            }
            at = next;
            self.platform().reschedule();
        }
    }

    /// Takes a removed area out of the reverse map. Waits until nobody walks the tables below it.
    fn unhook(&self, space: &SpaceHandle<P>, area: &Area) {
        for object in objects_of(area.source) {
            let mut mappers = self.objects.get(object).mappers.write(self.platform());
            let id = space.coherence().id();
            let covers = |mapper: &crate::object::Mapper<P>| {
                let mapped = mapper.start..mapper.start + u64::from(mapper.pages) * PAGE_BYTES;
                mapper.space.coherence().id() == id && mapped.contains(&area.start)
            };
            let Some(position) = mappers.iter().position(covers) else { continue };
            let whole = mappers.swap_remove(position);
            for part in whole.without(area.start, area.end) {
                mappers.push(part);
            }
        }
    }

    /// Destroys the objects that only `removed` areas used; `left` are those that stay in the space.
    fn drop_unused_objects(&self, removed: &[Area], left: &[Area]) {
        for (position, area) in removed.iter().enumerate() {
            let (Source::Anonymous(own) | Source::Private { copies: own, .. }) = area.source else {
                continue;
            };
            let uses = |other: &Area| objects_of(other.source).any(|object| object == own);
            if !left.iter().any(uses) && !removed[..position].iter().any(uses) {
                self.objects.destroy(self.platform(), own);
            }
        }
    }

    fn release(&self, held: Held) {
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
