//! An area of kernel addresses: mapping frames there, and unmapping them strictly or lazily.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

use ceasefire::{KernelGather, PageSize, Place};

use crate::address::{FrameNumber, PAGE_BYTES, USER_END};
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::Frame;
use crate::kernel_ranges::kept::Kept;
use crate::kernel_ranges::mapping::KernelMapping;
use crate::kernel_ranges::room::Room;
use crate::kernel_ranges::stock::Stock;
use crate::kernel_ranges::tables::KernelTables;
use crate::locks::{self, Lock};
use crate::machine::{Machine, Work};
use crate::Memory;

/// Things that a strict unmap keeps back before it flushes.
const STRICT: usize = 32;

/// The reason why nothing is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelMapError {
    /// The area has no free range of that many pages.
    NoRoom,
    /// There are too few frames for the pages or for their tables.
    OutOfMemory,
}

impl fmt::Display for KernelMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("the area has no free range of that length"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl core::error::Error for KernelMapError {}

impl From<OutOfMemory> for KernelMapError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Keeps things back until a flush.
type Gather<'e, 'm, P> = KernelGather<'e, P, Kept<'m, P>, fn(Kept<'m, P>)>;

/// A part of the kernel's addresses in which frames are mapped and unmapped (Linux: the range of vmalloc).
///
/// An address range that was unmapped is handed out again only when no CPU can hold its old translations, and its
/// frames are freed only then. [`KernelArea::unmap`] flushes before it returns. [`KernelArea::unmap_lazily`] keeps
/// frames and addresses back: one flush serves many unmaps. It comes when as much is kept back as the kernel allows,
/// when no address range is free, when memory runs out in a call of the area, or with [`KernelArea::purge`].
///
/// Every CPU calls [`Engine::online`](ceasefire::Engine::online) before it uses an address of the area. All calls of
/// the area need interrupts on, because they may wait for other CPUs, and none of the [`locks`] above the table lock
/// held. [`KernelArea::map`] may also reclaim memory, so its caller may sleep.
pub struct KernelArea<'m, P: Machine> {
    memory: &'m Memory<P>,
    tables: KernelTables<'m, P>,
    start: u64,
    room: Arc<Room>,
    /// What lazy unmaps have cleared and not flushed yet. Its lock guards the tables too.
    lazy: P::Lock<Gather<'m, 'm, P>>,
}

impl<P: Machine> fmt::Debug for KernelArea<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelArea({:#x?})", self.range())
    }
}

impl<'m, P: Machine> KernelArea<'m, P> {
    /// Makes an area of the `pages` pages from `start` on, which the kernel uses for nothing else. `table` is the
    /// kernel's own top-level table. Lazy unmaps keep back at most `most` things before they flush; a frame is one, and
    /// an address range is one.
    ///
    /// The tables above the lowest level are made here and stay. Where roots get a copy of the kernel's half
    /// ([`Machine::share_kernel`]) an area is therefore made before the first space. It lives as long as the kernel: if
    /// it is dropped, what it keeps back is flushed and freed, and nothing else.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no frame for those tables. Tables that were made stay linked.
    ///
    /// # Panics
    /// If the area is not in the upper half of the addresses, or `start` is not the address of a page.
    pub fn new(
        memory: &'m Memory<P>,
        table: FrameNumber,
        start: u64,
        pages: u32,
        most: usize,
    ) -> Result<Self, OutOfMemory> {
        let end = start.checked_add(u64::from(pages) * PAGE_BYTES);
        assert!(start.is_multiple_of(PAGE_BYTES), "{start:#x} is not the address of a page");
        let (true, Some(end)) = (start >= USER_END.wrapping_neg(), end) else {
            panic!("{pages} pages from {start:#x} on are not in the kernel's half");
        };
        let tables = KernelTables::new(memory, table, start..end)?;
        let room = Arc::new(Room::new(pages));
        let places = Box::leak((0..most).map(|_| Place::EMPTY).collect());
        let gather: Gather<'m, 'm, P> = KernelGather::new(memory.engine(), places, Kept::release);
        let lazy = P::Lock::new(&locks::KERNEL_AREA, gather);
        Ok(Self { memory, tables, start, room, lazy })
    }

    /// Maps `pages` fresh pages, full of zeros.
    ///
    /// # Errors
    /// [`KernelMapError`]; then nothing is mapped, and all that lazy unmaps kept back was flushed and freed.
    ///
    /// # Panics
    /// If `pages` is 0.
    pub fn map(&self, pages: u32) -> Result<KernelMapping, KernelMapError> {
        assert!(pages > 0, "a mapping has at least one page");
        let mut frames = Stock::new(self.memory);
        if frames.fill(pages as usize).is_err() {
            self.purge();
            frames.fill(pages as usize)?;
        }
        let mut tables = Stock::new(self.memory);
        loop {
            let mut lazy = self.lazy.lock(self.memory.platform());
            let first = self.room.take(pages).or_else(|| {
                self.flush(&mut lazy);
                self.room.take(pages)
            });
            let first = first.ok_or(KernelMapError::NoRoom)?;
            let mapping = KernelMapping { start: self.address(first), pages };
            let missing = self.tables.missing(mapping.start..mapping.end());
            if missing <= tables.len() {
                for address in mapping.addresses() {
                    self.tables.map(address, frames.take(), &mut tables);
                }
                drop(lazy);
                self.memory.platform().work(Work::Map, pages);
                self.memory.platform().publish_kernel();
                return Ok(mapping);
            }
            // No allocation under the lock.
            self.room.give_back(first, pages);
            drop(lazy);
            if tables.fill(missing).is_err() {
                self.purge();
                tables.fill(missing)?;
            }
        }
    }

    /// Unmaps strictly: when the call returns, no CPU uses the old translations, and frames and addresses are free.
    ///
    /// # Panics
    /// If the mapping is one of another area.
    pub fn unmap(&self, mapping: KernelMapping) {
        let mut places = [const { Place::EMPTY }; STRICT];
        let mut gather: Gather<'_, 'm, P> =
            KernelGather::new(self.memory.engine(), &mut places, Kept::release);
        let lazy = self.lazy.lock(self.memory.platform());
        self.clear(&mut gather, mapping);
        // The addresses are taken until the flush is done, so it needs no lock.
        drop(lazy);
        gather.finish();
    }

    /// Unmaps lazily: some CPU may use the old translations until a later flush. The owner guarantees that no code uses
    /// the addresses.
    ///
    /// # Panics
    /// If the mapping is one of another area.
    pub fn unmap_lazily(&self, mapping: KernelMapping) {
        let mut lazy = self.lazy.lock(self.memory.platform());
        self.clear(&mut lazy, mapping);
    }

    /// Flushes all that was unmapped lazily, and frees what was kept back: frames, addresses, and page-table pages
    /// without translations.
    pub fn purge(&self) {
        let mut lazy = self.lazy.lock(self.memory.platform());
        self.flush(&mut lazy);
    }

    /// Whether lazy unmaps keep anything back.
    pub fn owes(&self) -> bool {
        self.lazy.lock(self.memory.platform()).owes()
    }

    /// The addresses of the area.
    pub fn range(&self) -> Range<u64> {
        self.start..self.address(self.room.pages())
    }

    fn address(&self, page: u32) -> u64 {
        self.start + u64::from(page) * PAGE_BYTES
    }

    /// Clears the translations of a mapping. The area's lock is held.
    fn clear(&self, gather: &mut Gather<'_, 'm, P>, mapping: KernelMapping) {
        let range = self.range();
        assert!(
            range.start <= mapping.start && mapping.end() <= range.end,
            "{mapping:x?} is a mapping of another area"
        );
        for address in mapping.addresses() {
            let old = gather.clear(address, PageSize::KIB_4, || self.tables.clear(address));
            gather.hold(Kept::Page(self.memory, Frame::owned(old.frame())));
        }
        self.memory.platform().work(Work::Unmap, mapping.pages);
        let first = ((mapping.start - self.start) / PAGE_BYTES) as u32;
        gather.hold(Kept::Addresses(self.room.clone(), first, mapping.pages));
    }

    /// Unlinks the tables that translate nothing, and flushes. The area's lock is held from the one to the other: a
    /// table that took the place of one that is not flushed yet would not be seen by a walker that has cached the way.
    fn flush(&self, lazy: &mut Gather<'m, 'm, P>) {
        for address in self.tables.empty(self.range()) {
            lazy.unlink(address, PageSize::KIB_4, || {
                Some(Kept::Table(self.memory, self.tables.unlink(address)))
            });
        }
        lazy.flush();
    }
}
