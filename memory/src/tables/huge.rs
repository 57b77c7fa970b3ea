//! Huge pages: 2 MiB of anonymous memory in 512 neighbouring frames, translated by one entry.
//!
//! A huge page is mapped exactly once: fork splits it first. So splitting only needs the lock of the table that the entry
//! is in: the entry is taken away and flushed, and a table that says the same in 512 entries takes its place; an
//! operation on a part of a huge page splits it at the ends of its range before it begins. Collapsing goes the other way
//! and needs everyone out: the space and the mappers exclusively.

use core::fmt;

use alloc::vec::Vec;

use ceasefire::{Batch, Cleared, ClearedTable, Gather, PageSize, Schedule};

use crate::address::{FrameNumber, PAGE_BYTES};
use crate::calls::unmap::Held;
use crate::frames::allocate::OutOfMemory;
use crate::frames::allocate::Pay;
use crate::frames::frame::{huge_frames, Frame, LruState, HUGE_FRAMES};
use crate::locks::RwLock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::area::{Area, Areas, Protection, Source};
use crate::spaces::space::SpaceHandle;
use crate::tables::table::{install_new, Entry, Found, Leaf};
use crate::Memory;

/// The size of a huge page in bytes.
pub const HUGE_BYTES: u64 = PageSize::Huge.bytes();

/// Why pages cannot be collapsed into a huge one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollapseError {
    /// The 2 MiB around the address are not all in one mapping of anonymous memory (Linux: EINVAL).
    NotAnonymous(u64),
    /// There are no 512 neighbouring free frames (Linux: ENOMEM).
    OutOfMemory,
}

impl fmt::Display for CollapseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnonymous(address) => {
                write!(f, "the 2 MiB around {address:#x} are not one mapping of anonymous memory")
            }
            Self::OutOfMemory => write!(f, "no {HUGE_FRAMES} neighbouring frames are free"),
        }
    }
}

/// Why a huge page cannot be split now.
pub(crate) enum Unsplit {
    /// It is moving to other frames.
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
fn base_of(address: u64) -> u64 {
    address & !(HUGE_BYTES - 1)
}

impl<P: Machine> Memory<P> {
    /// Lets a fault in anonymous memory have a huge page, if there is room for one in every sense; whether it has.
    pub(crate) fn fault_huge(&self, space: &SpaceHandle<P>, area: &Area, address: u64) -> bool {
        let Source::Anonymous(own) = area.source else { return false };
        let base = base_of(address);
        if base < area.start
            || base + HUGE_BYTES > area.end
            || self.find_table(space, address) != Found::Nothing
        {
            return false;
        }
        let Ok(Found::Leaf(table)) = self.make_table_of(space, base, 1) else { return false };
        let home = self.home();
        let Some(fresh) = self.allocate_huge(home, self.nodes[home.index()].watermarks.high, Pay::IfWorthIt)
        else {
            return false;
        };
        self.zero(fresh.number(), HUGE_FRAMES);
        let leaf = self.engine.settle(space.coherence(), self.lock_table(space, table, PageSize::Huge));
        if !leaf.get(base).is_none() {
            drop(leaf);
            self.free_huge(fresh);
            return false;
        }
        let number = fresh.into_number();
        let info = self.frames.get(number);
        // One reference for the translation, one on the way to the lists.
        info.adopt(own, area.index(base), 2, 1, LruState::new(true));
        info.set_huge(true);
        let writable = area.protection == Protection::ReadWrite;
        install_new(&leaf, base, Entry::page(number, writable).used(writable).huge());
        drop(leaf);
        self.list_soon(number);
        true
    }

    /// Locks the areas of a space for a change of what `range` maps; no huge page reaches across either end then.
    pub(crate) fn lock_to_change<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        range: (u64, u64),
    ) -> Result<<P::RwLock<Areas> as RwLock<Areas, P>>::Write<'m>, OutOfMemory> {
        self.lock_and_split(|| space.areas.write(self.platform()), |_| self.split_ends(space, range))
    }

    /// The same for an operation that leaves the areas as they are.
    pub(crate) fn lock_to_walk<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        range: (u64, u64),
    ) -> Result<<P::RwLock<Areas> as RwLock<Areas, P>>::Read<'m>, OutOfMemory> {
        self.lock_and_split(|| space.areas.read(self.platform()), |_| self.split_ends(space, range))
    }

    /// The same for fork, which no huge page of anonymous memory survives.
    pub(crate) fn lock_to_fork<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
    ) -> Result<<P::RwLock<Areas> as RwLock<Areas, P>>::Write<'m>, OutOfMemory> {
        self.lock_and_split(
            || space.areas.write(self.platform()),
            |areas| {
                let private = areas.all().filter(|area| area.anonymous().is_some());
                let mut bases = private.flat_map(|area| self.tables_of(space, area));
                bases.try_for_each(|base| self.split_at(space, base))
            },
        )
    }

    /// Takes a lock and splits huge pages under it; where one is moving, waits for it without the lock and begins again.
    fn lock_and_split<G>(
        &self,
        lock: impl Fn() -> G,
        split: impl Fn(&G) -> Result<(), Unsplit>,
    ) -> Result<G, OutOfMemory> {
        loop {
            let guard = lock();
            match split(&guard) {
                Ok(()) => return Ok(guard),
                Err(Unsplit::OutOfMemory) => return Err(OutOfMemory),
                Err(Unsplit::Moving(frame)) => {
                    drop(guard);
                    self.wait_for_page(frame);
                }
            }
        }
    }

    /// The starts of the 2 MiB that an area lies in, as far as there is a table or a huge page for them.
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
            Some(leaf) if leaf.size() == PageSize::Huge => {
                let entry = leaf.get(address);
                if entry.is_moving() {
                    drop(leaf);
                    self.free(table);
                    return Err(Unsplit::Moving(entry.frame()));
                }
                self.split(space, &leaf, base_of(address), table);
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

    /// Splits the huge page whose entry, not moving, is in the locked table `leaf`. Whoever holds the huge page besides
    /// holds its first small page from now on.
    pub(crate) fn split(&self, space: &SpaceHandle<P>, leaf: &Leaf<'_, P>, base: u64, table: Frame) {
        let (old, cleared) = leaf.replace(base, |old| if old.is_hidden() { old } else { old.begin_move() });
        // No CPU may hold translations of both sizes (Intel SDM volume 3, section 4.10.2.3).
        self.flush_alone(space, cleared);
        let first = old.frame();
        let head = self.frames.get(first);
        if let Some((object, index)) = head.place() {
            for (offset, number) in (1..).zip(huge_frames(first).skip(1)) {
                // One reference for the translation, one on the way to the lists.
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

    /// Pays for one cleared translation at once: a huge page's flush is a 512th of that of small pages for the same
    /// memory, so batching it is not worth a second way to wait for it.
    pub(crate) fn flush_alone(&self, space: &SpaceHandle<P>, cleared: Cleared) {
        let mut batch: Batch<'_, P, (), _, 1> = Batch::new(&self.engine, Schedule::PerPage, drop);
        batch.record(space, cleared);
        batch.settle();
    }

    /// Gathers the small pages in the 2 MiB around `address` into a huge page (madvise COLLAPSE); whether they are one
    /// now. They are not if one of them is shared, on the swap device or in use by someone else at the moment.
    ///
    /// # Errors
    /// [`CollapseError`]; nothing has changed then.
    pub fn collapse(&self, space: &SpaceHandle<P>, address: u64) -> Result<bool, CollapseError> {
        let platform = self.platform();
        platform.work(Work::AreaChange, 1);
        let base = base_of(address);
        // Pages on their way to the lists are held, and would count as in use.
        self.list_collected();
        let areas = space.areas.write(platform);
        let area = areas.find(base).filter(|area| base + HUGE_BYTES <= area.end);
        let Some((area, Source::Anonymous(own))) = area.map(|area| (area, area.source)) else {
            return Err(CollapseError::NotAnonymous(address));
        };
        if area.protection == Protection::None {
            return Ok(false);
        }
        let table = match self.find_table(space, base) {
            Found::Nothing => return Ok(false),
            Found::Huge(_) => return Ok(true),
            Found::Leaf(table) => table,
        };
        let home = self.home();
        let Some(huge) = self.allocate_huge(home, self.nodes[home.index()].watermarks.low, Pay::Always)
        else {
            return Err(CollapseError::OutOfMemory);
        };
        let mappers = self.objects.get(own).mappers.write(platform);
        let Some(pages) = self.take_small_pages(space, table, base) else {
            drop(mappers);
            self.free_huge(huge);
            return Ok(false);
        };
        // With the space and the mappers exclusively, nobody comes here until the huge page is in place.
        let Found::Leaf(above) = self.find_above(space, base) else {
            unreachable!("the table was found above")
        };
        let number = huge.into_number();
        {
            let above = self.lock_table(space, above, PageSize::Huge);
            self.set_table(&above, base, Entry::NONE);
            let mut gather: Gather<'_, P, Held, _, 1> =
                Gather::new(&self.engine, space.coherence(), |held| self.release(held));
            gather.table(ClearedTable::new(base), Held::Table(table));
            gather.finish();
            for (to, page) in huge_frames(number).zip(&pages) {
                match page {
                    Some(from) => {
                        platform.observe(Event::Superseded(*from));
                        self.copy(*from, to, 1);
                    }
                    None => self.zero(to, 1),
                }
            }
            let info = self.frames.get(number);
            info.adopt(own, area.index(base), 2, 1, LruState::new(true));
            info.set_huge(true);
            let writable = area.protection == Protection::ReadWrite;
            above.install(base, Entry::page(number, writable).used(writable).huge());
        }
        drop(mappers);
        drop(areas);
        self.list_soon(number);
        for page in pages.into_iter().flatten() {
            self.unlist(page);
            self.free_orphan(page);
        }
        self.count(|share| &share.collapses, 1);
        Ok(true)
    }

    /// Takes all pages out of a table and out of every other use, and flushes; `None` if one of them is in other use.
    fn take_small_pages(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        base: u64,
    ) -> Option<Vec<Option<FrameNumber>>> {
        let addresses = || (base..base + HUGE_BYTES).step_by(PAGE_BYTES as usize);
        let mut pages = Vec::with_capacity(HUGE_FRAMES as usize);
        let leaf = self.engine.settle(space.coherence(), self.lock_table(space, table, PageSize::Small));
        let all = addresses().all(|address| {
            let entry = leaf.get(address);
            let page = (entry.present() && entry.frame() != self.zero).then(|| entry.frame());
            let taken = match page {
                Some(frame) => {
                    let info = self.frames.get(frame);
                    info.maps() == 1 && info.slot().is_none() && !info.locked() && info.take(1)
                }
                None => entry.is_none() || entry.present(),
            };
            if taken {
                pages.push(page);
            }
            taken
        });
        if !all {
            pages.into_iter().flatten().for_each(|frame| self.frames.get(frame).give_back(1));
            return None;
        }
        let mut gather: Gather<'_, P, (), _, 1> = Gather::new(&self.engine, space.coherence(), |()| {});
        for address in addresses() {
            let (old, cleared) = leaf.clear(address);
            self.unmapped_frame(old);
            gather.unmap(&leaf, cleared, None);
        }
        gather.finish();
        Some(pages)
    }
}
