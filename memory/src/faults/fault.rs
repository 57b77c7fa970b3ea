//! Faults: filling in a missing translation.
//!
//! Fresh memory reads as zeros through one shared frame until it is stored to. A page of a file is found in the page
//! cache, or brought in with its successors. A page on the swap device is brought back. The fault waits for a page that
//! is moving. A page that was hidden as a NUMA hint is revealed, and moved to the node of the CPU that faulted.

use core::fmt;

use ceasefire::PageSize;

use crate::address::{FrameNumber, PAGE_BYTES};
use crate::cache::page_cache::Cached;
use crate::frames::allocate::OutOfMemory;
use crate::machine::{Machine, Work};
use crate::spaces::area::{Area, Protection, Source};
use crate::spaces::open::AreaLocks;
use crate::spaces::space::{Ended, SpaceHandle};
use crate::tables::entry::Entry;
use crate::tables::leaf::Leaf;
use crate::tables::table::Table;
use crate::tables::walk::Found;
use crate::Memory;

/// The access that a program tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
}

/// The reason why a fault cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultError {
    /// Nothing is mapped at the address (Linux: SIGSEGV, `SEGV_MAPERR`).
    NotMapped(u64),
    /// A store where only loads are allowed (SIGSEGV, `SEGV_ACCERR`).
    ReadOnly(u64),
    /// No access is allowed at the address (SIGSEGV, `SEGV_ACCERR`).
    NoAccess(u64),
    /// The page lies beyond the end of the file mapped there (SIGBUS).
    BeyondEnd(u64),
    /// No frame is left for the page, and none can be reclaimed (SIGBUS or the out-of-memory killer: the kernel's
    /// choice).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMapped(address) => write!(f, "nothing is mapped at {address:#x}"),
            Self::ReadOnly(address) => write!(f, "{address:#x} is mapped read-only"),
            Self::NoAccess(address) => write!(f, "no access is allowed at {address:#x}"),
            Self::BeyondEnd(address) => write!(f, "{address:#x} is beyond the end of the file mapped there"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for FaultError {}

impl From<OutOfMemory> for FaultError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The state of a fault when the space is unlocked.
pub(super) enum Progress {
    /// The access can be tried again.
    Done,
    /// Something changed meanwhile: look again.
    Again,
    /// The fault must wait for a page, with nothing locked.
    Wait(FrameNumber),
    /// Done, but the page is held and far from the CPU that uses it.
    Far(FrameNumber),
}

impl<P: Machine> Memory<P> {
    /// Makes the access at `address` possible. The program then tries again.
    ///
    /// # Errors
    /// [`FaultError`] if the access cannot succeed in the present state.
    pub fn fault(&self, space: &SpaceHandle<P>, address: u64, access: Access) -> Result<(), FaultError> {
        self.platform().work(Work::Fault, 1);
        self.count(|share| &share.faults, 1);
        self.pay_overdue();
        loop {
            match self.resolve(space, address & !(PAGE_BYTES - 1), access)? {
                Progress::Done => return Ok(()),
                // The task that changed it may need this CPU to finish.
                Progress::Again => self.platform().reschedule(),
                Progress::Wait(frame) => self.wait_for_page(frame),
                Progress::Far(page) => {
                    self.bring_near(page);
                    return Ok(());
                }
            }
        }
    }

    fn resolve(&self, space: &SpaceHandle<P>, address: u64, access: Access) -> Result<Progress, FaultError> {
        let resolve = |area: &Area| self.resolve_in(space, area, address, access);
        if let Some(progress) = self.with_area(space, AreaLocks::Faults, address, resolve) {
            return progress;
        }
        let areas = space.share_areas(self.platform())?;
        resolve(areas.find(address).ok_or(FaultError::NotMapped(address))?)
    }

    /// Resolves a fault in an area, while it or its space is locked.
    fn resolve_in(
        &self,
        space: &SpaceHandle<P>,
        area: &Area,
        address: u64,
        access: Access,
    ) -> Result<Progress, FaultError> {
        let platform = self.platform();
        match (area.protection, access) {
            (Protection::None, _) => return Err(FaultError::NoAccess(address)),
            (Protection::Read, Access::Write) => return Err(FaultError::ReadOnly(address)),
            _ => {}
        }
        if area.huge && self.fault_huge(space, area, address) {
            return Ok(Progress::Done);
        }
        let (table, size) = match self.make_table(space, address)? {
            Found::Huge(table) => (table, PageSize::MIB_2),
            Found::Leaf(table) => (table, PageSize::KIB_4),
            Found::Nothing => return Ok(Progress::Again),
        };
        if size == PageSize::MIB_2 {
            return if platform.table(table).get(Table::index(address, 1)).is_empty() {
                Ok(Progress::Again)
            } else {
                self.resolve_entry(space, self.lock_table(space, table, size), area, address, access)
            };
        }
        // Where no task frees tables, most faults see without the lock that there is nothing. Their next step looks again.
        let nothing =
            !self.config.frees_tables && platform.table(table).get(Table::index(address, 0)).is_empty();
        let reads_zeros = matches!((area.source, access), (Source::Anonymous(_), Access::Read));
        if !nothing || reads_zeros {
            let Some(leaf) = self.lock_in_place(space, table, address) else { return Ok(Progress::Again) };
            if !leaf.get(address).is_empty() {
                return self.resolve_entry(space, leaf, area, address, access);
            }
            if reads_zeros {
                if leaf.is_vacant(address) {
                    leaf.install(address, Entry::page(self.zero, false).used(false));
                }
                return Ok(Progress::Done);
            }
        }
        match (area.source, access) {
            (Source::Anonymous(own), _) => self.fresh_page(space, table, area, own, address),
            (Source::Private { file, copies }, Access::Write) => {
                match self.cached_page(file, area.index(address))? {
                    None => Err(FaultError::BeyondEnd(address)),
                    Some(Cached::Wait(frame)) => Ok(Progress::Wait(frame)),
                    Some(Cached::Here(page)) => {
                        self.own_copy(space, table, area, copies, address, Some(page))
                    }
                }
            }
            (Source::Shared(file) | Source::Private { file, .. }, _) => {
                self.map_cached(space, table, area, file, address, access)
            }
        }
    }

    /// Resolves a fault at an entry that stands for something.
    fn resolve_entry(
        &self,
        space: &SpaceHandle<P>,
        leaf: Leaf<'_, P>,
        area: &Area,
        address: u64,
        access: Access,
    ) -> Result<Progress, FaultError> {
        let entry = leaf.get(address);
        if entry.is_empty() || (leaf.size() == PageSize::MIB_2 && !entry.is_huge()) {
            return Ok(Progress::Again);
        }
        if entry.is_moving() {
            return Ok(Progress::Wait(entry.frame()));
        }
        if entry.is_gone() {
            let leaf = self.engine.settle(leaf);
            leaf.note(address, Entry::NONE);
            return Ok(Progress::Again);
        }
        if let Some(slot) = entry.slot() {
            drop(leaf);
            return self.swap_in(space, area, address, slot);
        }
        if entry.owes() {
            // CPUs may still read the frame that the page was in before.
            let leaf = self.engine.settle(leaf);
            return Ok(self.reveal(&leaf, area, address, entry));
        }
        if entry.is_hidden() {
            return Ok(self.reveal(&leaf, area, address, entry));
        }
        if access == Access::Read || entry.writable() {
            return Ok(Progress::Done);
        }
        let frame = entry.frame();
        let Some(own) = area.anonymous() else {
            // The store will make the page differ from its device, and it must not change while it is written there.
            let info = self.frames.get(frame);
            if self.must_wait(info) {
                return Ok(Progress::Wait(frame));
            }
            info.set_dirty();
            leaf.install(address, writable(entry));
            return Ok(Progress::Done);
        };
        let copied =
            frame != self.zero && self.frames.get(frame).place().is_some_and(|(object, _)| object == own);
        if copied && self.make_exclusive(frame) {
            leaf.install(address, writable(entry));
            return Ok(Progress::Done);
        }
        let original = (frame != self.zero).then(|| {
            self.frames.get(frame).hold();
            frame
        });
        drop(leaf);
        let Found::Leaf(table) = self.find_table(space, address) else {
            if let Some(page) = original {
                self.put(page);
            }
            return Ok(Progress::Again);
        };
        self.own_copy(space, table, area, own, address, original)
    }

    /// Makes a hidden page usable again, and notes the node that uses it.
    fn reveal(&self, leaf: &Leaf<'_, P>, area: &Area, address: u64, entry: Entry) -> Progress {
        let frame = entry.frame();
        // The page may have been hidden because no access was allowed. Fewer rights may be allowed now than before
        // that.
        let entry = if area.protection == Protection::ReadWrite { entry } else { entry.read_only() };
        leaf.install(address, entry.reveal().used(false));
        self.count(|share| &share.hints, 1);
        let info = self.frames.get(frame);
        if frame == self.zero || info.node() == self.home() {
            return Progress::Done;
        }
        info.hold();
        Progress::Far(frame)
    }

    /// Brings back a page from the swap device, for loads only. A store faults again.
    fn swap_in(
        &self,
        space: &SpaceHandle<P>,
        area: &Area,
        address: u64,
        slot: u32,
    ) -> Result<Progress, FaultError> {
        let Some(own) = area.anonymous() else { return Ok(Progress::Again) };
        let named = || self.lock_leaf(space, address).filter(|leaf| leaf.get(address).slot() == Some(slot));
        let page = match self.swapped_in(slot, (own, area.index(address)), named)? {
            None => return Ok(Progress::Again),
            Some(Cached::Wait(frame)) => return Ok(Progress::Wait(frame)),
            Some(Cached::Here(page)) => page,
        };
        let mapped = named().map(|leaf| {
            self.frames.get(page).mapped();
            leaf.install(address, Entry::page(page, false).used(false));
        });
        if mapped.is_some() {
            self.unname_slot(slot);
        } else {
            self.put(page);
        }
        // Again, because a store may have to copy the page.
        Ok(Progress::Again)
    }
}

/// The same entry for stores, marked as already stored through.
fn writable(entry: Entry) -> Entry {
    Entry::page(entry.frame(), true).used(true).with_size_of(entry)
}
