//! madvise COLLAPSE: small pages gathered into a huge one.
//!
//! It is the opposite of [splitting](crate::tables::huge), and needs the space and the mappers exclusively.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Gather, PageSize, Place};

use crate::address::{FrameNumber, HUGE_FRAMES, PAGE_BYTES};
use crate::calls::zap::Held;
use crate::frames::allocate::Pay;
use crate::frames::frame::{huge_frames, LruState};
use crate::frames::released::Released;
use crate::locks::RwLock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::area::{Protection, Source};
use crate::spaces::space::{Ended, SpaceHandle};
use crate::tables::entry::Entry;
use crate::tables::huge::{base_of, HUGE_BYTES};
use crate::tables::leaf::clear;
use crate::tables::walk::Found;
use crate::Memory;

/// The reason why pages cannot be collapsed into a huge one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollapseError {
    /// The 2 MiB around the address are not in one mapping of anonymous memory (Linux: EINVAL).
    NotAnonymous(u64),
    /// There are no 512 neighbouring free frames (Linux: ENOMEM).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for CollapseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnonymous(address) => {
                write!(f, "the 2 MiB around {address:#x} are not one mapping of anonymous memory")
            }
            Self::OutOfMemory => write!(f, "no {HUGE_FRAMES} neighbouring frames are free"),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for CollapseError {}

impl<P: Machine> Memory<P> {
    /// Gathers the small pages in the 2 MiB around `address` into a huge page (madvise COLLAPSE). Returns whether there
    /// is a huge page now. There is none if one of the pages is shared, on the swap device or in use elsewhere at the
    /// moment.
    ///
    /// # Errors
    /// [`CollapseError`]; then nothing has changed.
    pub fn collapse(&self, space: &SpaceHandle<P>, address: u64) -> Result<bool, CollapseError> {
        let platform = self.platform();
        platform.work(Work::AreaChange, 1);
        let base = base_of(address);
        // Pages on their way to the lists are held, and would count as in use.
        self.list_collected();
        let areas = self.close_areas(space, &[(base, base + HUGE_BYTES)])?;
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
        // The space and the mappers are held exclusively, so no other task comes here until the huge page is in place.
        let Found::Leaf(above) = self.find_above(space, base) else {
            unreachable!("the table was found above")
        };
        let number = huge.into_number();
        {
            let above = self.lock_table(space, above, PageSize::MIB_2);
            let mut released = Released::new(self);
            let mut room = [Place::EMPTY];
            let mut gather: Gather<'_, P, Held, _> =
                Gather::new(&self.engine, space.coherence(), &mut room, |held| released.give_up(held));
            gather.unlink(base, PageSize::KIB_4, || {
                self.set_table(&above, base, Entry::NONE);
                Some(Held::Table(table))
            });
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
        let leaf = self.engine.settle(self.lock_table(space, table, PageSize::KIB_4));
        let all = addresses().all(|address| {
            let entry = leaf.get(address);
            let page = (entry.present() && entry.frame() != self.zero).then(|| entry.frame());
            let taken = match page {
                Some(frame) => {
                    let info = self.frames.get(frame);
                    // A slot and the page's lock come with a reference each: a page with either is not taken.
                    let alone = info.maps() == 1 && info.take(1);
                    debug_assert!(!alone || (info.slot().is_none() && !info.locked()), "{frame:?} is in use");
                    alone
                }
                None => entry.is_empty() || entry.present(),
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
        let mut gather: Gather<'_, P, (), _> = Gather::new(&self.engine, space.coherence(), &mut [], drop);
        let mut changes = gather.under(leaf);
        for address in addresses() {
            // The pages were taken above, and stay.
            let old = clear(&mut changes, address, |_| None);
            self.unmapped_frame(old);
        }
        drop(changes);
        gather.finish();
        Some(pages)
    }
}
