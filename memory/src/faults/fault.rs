//! Faults: filling in the translation that a program missed.
//!
//! Fresh memory reads as zeros through one shared frame until it is stored to. A page of a file is found in the page
//! cache or brought in with its successors, and mapped together with those of its neighbours that are in memory
//! (fault-around). A page that is on the swap device comes back, one that is moving is waited for, one that was hidden
//! to learn who uses it is revealed and moved to who does. Where a translation has to lead elsewhere from now on, because
//! a store made a private copy, the old one is taken away and flushed everywhere before the new one is visible: no two
//! CPUs ever see different frames at one address.

use core::fmt;

use ceasefire::{Gather, PageSize};

use crate::address::{FrameNumber, Store, PAGE_BYTES};
use crate::cache::page_cache::Cached;
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::{Frame, LruState};
use crate::locks::{Lock, RwLock};
use crate::machine::{Machine, Work};
use crate::objects::object::ObjectId;
use crate::spaces::area::{Area, Protection, Source};
use crate::spaces::space::SpaceHandle;
use crate::tables::table::{install_new, Entry, Found, Leaf, SettledLeaf, Table, LEAF_SHIFT};
use crate::Memory;

/// The most pages that one fault maps.
const MOST_AROUND: usize = 64;

/// What a program tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
}

/// Why a fault cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultError {
    /// Nothing is mapped there (Linux: SIGSEGV, `SEGV_MAPERR`).
    NotMapped(u64),
    /// A store where only loads are allowed (SIGSEGV, `SEGV_ACCERR`).
    ReadOnly(u64),
    /// Nothing at all is allowed there (SIGSEGV, `SEGV_ACCERR`).
    NoAccess(u64),
    /// A page beyond the end of the file that is mapped there (SIGBUS).
    BeyondEnd(u64),
    /// No frame is left for it, and none can be reclaimed (SIGBUS or the out-of-memory killer: the kernel's choice).
    OutOfMemory,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMapped(address) => write!(f, "nothing is mapped at {address:#x}"),
            Self::ReadOnly(address) => write!(f, "{address:#x} is mapped read-only"),
            Self::NoAccess(address) => write!(f, "no access is allowed at {address:#x}"),
            Self::BeyondEnd(address) => write!(f, "{address:#x} is beyond the end of the file mapped there"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl From<OutOfMemory> for FaultError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// How far a fault came, with the space locked.
enum Progress {
    /// The access can be tried again.
    Done,
    /// Something changed in between: look again.
    Again,
    /// A page has to be waited for, with nothing locked.
    Wait(FrameNumber),
    /// Done, but the page is held and far from who uses it.
    Far(FrameNumber),
}

impl<P: Machine> Memory<P> {
    /// Makes the access at `address` possible; the program then tries again.
    ///
    /// # Errors
    /// [`FaultError`] if it can never succeed as things are.
    pub fn fault(&self, space: &SpaceHandle<P>, address: u64, access: Access) -> Result<(), FaultError> {
        self.platform().work(Work::Fault, 1);
        self.count(|share| &share.faults, 1);
        self.pay_overdue();
        loop {
            match self.resolve(space, address & !(PAGE_BYTES - 1), access)? {
                Progress::Done => return Ok(()),
                // Whoever changed it may need this CPU to finish.
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
        let platform = self.platform();
        let areas = space.areas.read(platform);
        let area = areas.find(address).ok_or(FaultError::NotMapped(address))?;
        match (area.protection, access) {
            (Protection::None, _) => return Err(FaultError::NoAccess(address)),
            (Protection::Read, Access::Write) => return Err(FaultError::ReadOnly(address)),
            _ => {}
        }
        if area.huge && self.fault_huge(space, area, address) {
            return Ok(Progress::Done);
        }
        let (table, size) = match self.make_table(space, address)? {
            Found::Huge(table) => (table, PageSize::Huge),
            Found::Leaf(table) => (table, PageSize::Small),
            Found::Nothing => return Ok(Progress::Again),
        };
        // Looked at without the lock: most faults find nothing, and what they do next looks again.
        let found = platform.table(table).get(Table::index(address, u32::from(size == PageSize::Huge)));
        if !found.is_none() {
            return self.resolve_entry(space, self.lock_table(space, table, size), area, address, access);
        }
        if size == PageSize::Huge {
            return Ok(Progress::Again);
        }
        match (area.source, access) {
            (Source::Anonymous(_), Access::Read) => {
                let leaf = self.lock_table(space, table, size);
                if leaf.get(address).is_none() {
                    leaf.install(address, Entry::page(self.zero, false).used(false));
                }
                Ok(Progress::Done)
            }
            (Source::Anonymous(own), Access::Write) => self.fresh_page(space, table, area, own, address),
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

    /// Resolves a fault where an entry stands for something.
    fn resolve_entry(
        &self,
        space: &SpaceHandle<P>,
        leaf: Leaf<'_, P>,
        area: &Area,
        address: u64,
        access: Access,
    ) -> Result<Progress, FaultError> {
        let entry = leaf.get(address);
        if entry.is_none() || (leaf.size() == PageSize::Huge && !entry.is_huge()) {
            return Ok(Progress::Again);
        }
        if entry.is_moving() {
            return Ok(Progress::Wait(entry.frame()));
        }
        if entry.is_gone() {
            let leaf = self.engine.settle(space.coherence(), leaf);
            leaf.note(address, Entry::NONE);
            return Ok(Progress::Again);
        }
        if let Some(slot) = entry.slot() {
            drop(leaf);
            return self.swap_in(space, area, address, slot);
        }
        if entry.owes() {
            // CPUs may still read the frame that the page was in before.
            let leaf = self.engine.settle(space.coherence(), leaf);
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
            // A page of a file is about to differ from its device, which it may not while it is written there.
            let info = self.frames.get(frame);
            if info.locked() {
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

    /// Gives the program a page of zeros where nothing is.
    fn fresh_page(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        object: ObjectId,
        address: u64,
    ) -> Result<Progress, FaultError> {
        let fresh = self.allocate(self.home())?;
        let leaf = self.lock_table(space, table, PageSize::Small);
        if !leaf.get(address).is_none() {
            drop(leaf);
            self.free(fresh);
            return Ok(Progress::Again);
        }
        self.zero(fresh.number(), 1);
        let number = self.adopt_copy(fresh, area, object, address);
        leaf.install(address, Entry::page(number, true).used(true));
        drop(leaf);
        self.list_soon(number);
        Ok(Progress::Done)
    }

    /// Makes a frame the private page of an area at `address`, held by a translation and on its way to the lists.
    fn adopt_copy(&self, fresh: Frame, area: &Area, object: ObjectId, address: u64) -> FrameNumber {
        let number = fresh.into_number();
        self.frames.get(number).adopt(object, area.index(address), 2, 1, LruState::new(true));
        number
    }

    /// Gives the program a frame of its own at `address`, with what it could read there so far: `original`, which is held
    /// and let go of, or zeros.
    fn own_copy(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        object: ObjectId,
        address: u64,
        original: Option<FrameNumber>,
    ) -> Result<Progress, FaultError> {
        let fresh = match self.allocate(self.home()) {
            Ok(fresh) => fresh,
            Err(error) => {
                if let Some(page) = original {
                    self.put(page);
                }
                return Err(error.into());
            }
        };
        let surplus = {
            let leaf = self.engine.settle(space.coherence(), self.lock_table(space, table, PageSize::Small));
            if self.still_shows(&leaf, area, address, original) {
                match original {
                    Some(page) => self.copy(page, fresh.number(), 1),
                    None => self.zero(fresh.number(), 1),
                }
                if leaf.get(address).present() {
                    self.take_away(space, &leaf, address);
                }
                let number = self.adopt_copy(fresh, area, object, address);
                install_new(&leaf, address, Entry::page(number, true).used(true));
                drop(leaf);
                self.list_soon(number);
                None
            } else {
                Some(fresh)
            }
        };
        if let Some(page) = original {
            self.put(page);
        }
        Ok(match surplus {
            Some(frame) => {
                self.free(frame);
                Progress::Again
            }
            None => Progress::Done,
        })
    }

    /// Whether `address` still shows what is about to be copied.
    fn still_shows(
        &self,
        leaf: &SettledLeaf<'_, P>,
        area: &Area,
        address: u64,
        original: Option<FrameNumber>,
    ) -> bool {
        let entry = leaf.get(address);
        let shown = entry.present() && !entry.writable() && entry.frame() == original.unwrap_or(self.zero);
        let Some(page) = original else { return entry.is_none() || shown };
        let place = self.frames.get(page).place();
        match place {
            // Truncation takes a page out of its file before it looks for mappings.
            None => false,
            Some((object, _)) if object.is_anonymous() => shown,
            Some(place) => {
                Some(place) == area.file().map(|file| (file, area.index(address)))
                    && (entry.is_none() || shown)
            }
        }
    }

    /// Clears and flushes what `address` translates to, before something else takes its place.
    fn take_away(&self, space: &SpaceHandle<P>, leaf: &SettledLeaf<'_, P>, address: u64) {
        let mut gather: Gather<'_, P, FrameNumber, _, 1> =
            Gather::new(&self.engine, space.coherence(), |page| self.put(page));
        let (old, cleared) = leaf.clear(address);
        gather.unmap(leaf, cleared, self.unmapped_frame(old));
        gather.finish();
    }

    /// Accounts for a mapping that was cleared; the frame whose reference it gave up, if it was counted.
    pub(crate) fn unmapped_frame(&self, old: Entry) -> Option<FrameNumber> {
        (old.maps() && old.frame() != self.zero).then(|| {
            let info = self.frames.get(old.frame());
            if old.dirty() {
                info.set_dirty();
            }
            info.unmapped();
            old.frame()
        })
    }

    /// Accounts for a mapping that was cleared of a page that the caller has isolated: its reference goes at once.
    pub(crate) fn unmapped_isolated(&self, old: Entry) {
        if let Some(frame) = self.unmapped_frame(old) {
            let left = self.frames.get(frame).release();
            debug_assert!(left > 0, "the isolation holds a reference");
        }
    }

    /// Lets a hidden page be used again, and notes who does.
    fn reveal(&self, leaf: &Leaf<'_, P>, area: &Area, address: u64, entry: Entry) -> Progress {
        let frame = entry.frame();
        // It may have been hidden because nothing was allowed, and less is allowed now than before that.
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

    /// Brings back a page that is on the swap device, for loads; who stores faults again.
    fn swap_in(
        &self,
        space: &SpaceHandle<P>,
        area: &Area,
        address: u64,
        slot: u32,
    ) -> Result<Progress, FaultError> {
        let Some(own) = area.anonymous() else { return Ok(Progress::Again) };
        let named = || match self.find_table(space, address) {
            Found::Leaf(table) => {
                self.platform().table(table).get(Table::index(address, 0)).slot() == Some(slot)
            }
            _ => false,
        };
        let page = match self.swapped_in(slot, (own, area.index(address)), named)? {
            None => return Ok(Progress::Again),
            Some(Cached::Wait(frame)) => return Ok(Progress::Wait(frame)),
            Some(Cached::Here(page)) => page,
        };
        let mapped = self.lock_leaf(space, address).is_some_and(|leaf| {
            let same = leaf.get(address).slot() == Some(slot);
            if same {
                self.frames.get(page).mapped();
                leaf.install(address, Entry::page(page, false).used(false));
            }
            same
        });
        if mapped {
            self.unname_slot(slot);
        } else {
            self.put(page);
        }
        // Again, for a store: the page may have to be copied.
        Ok(Progress::Again)
    }

    /// Maps the page of `file` at `address`, and its neighbours that are in memory.
    fn map_cached(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        file: ObjectId,
        address: u64,
        access: Access,
    ) -> Result<Progress, FaultError> {
        let platform = self.platform();
        let wanted = match self.cached_page(file, area.index(address))? {
            None => return Err(FaultError::BeyondEnd(address)),
            Some(Cached::Wait(frame)) => return Ok(Progress::Wait(frame)),
            Some(Cached::Here(page)) => page,
        };
        let around = u64::from(self.config.fault_around).clamp(1, MOST_AROUND as u64) * PAGE_BYTES;
        let block = address & !(around - 1);
        let start = block.max(area.start);
        let end = (block + around).min(area.end);
        let slots = ((end - start) / PAGE_BYTES) as usize;
        let mut found = [None; MOST_AROUND];
        {
            let pages = self.objects.get(file).pages.lock(platform);
            platform.work(Work::CacheFind, 1);
            for (slot, at) in (start..end).step_by(PAGE_BYTES as usize).enumerate() {
                if at == address {
                    found[slot] = Some(wanted);
                } else if let Some(frame) = pages.find(area.index(at)) {
                    // A neighbour that owes is left to whoever needs it.
                    if self.slot_owes(pages.owed(area.index(at))) {
                        continue;
                    }
                    self.finds(Store::File(file), area.index(at), 1);
                    if let Cached::Here(frame) = self.hold_cached(frame) {
                        found[slot] = Some(frame);
                    }
                }
            }
        }
        let mut wait = None;
        {
            let leaf = self.lock_table(space, table, PageSize::Small);
            self.map_found(&leaf, area, (start, end), (address, access), &mut found, &mut wait);
        }
        for frame in found.into_iter().take(slots).flatten() {
            self.put(frame);
        }
        Ok(wait.map_or(Progress::Done, Progress::Wait))
    }

    /// Maps what of `found` can be mapped, and takes it out.
    fn map_found(
        &self,
        leaf: &Leaf<'_, P>,
        area: &Area,
        (start, end): (u64, u64),
        (address, access): (u64, Access),
        found: &mut [Option<FrameNumber>],
        wait: &mut Option<FrameNumber>,
    ) {
        debug_assert_eq!(start >> LEAF_SHIFT, (end - 1) >> LEAF_SHIFT);
        for (slot, at) in (start..end).step_by(PAGE_BYTES as usize).enumerate() {
            let Some(frame) = found[slot] else { continue };
            let info = self.frames.get(frame);
            let store = at == address && access == Access::Write;
            let old = leaf.get(at);
            // Truncation takes a page out of its file before it looks for mappings.
            if !old.is_none() || info.place().map(|(_, index)| index) != Some(area.index(at)) {
                continue;
            }
            if store && info.locked() {
                *wait = Some(frame);
                continue;
            }
            if store {
                info.set_dirty();
            }
            // Used, though only one of them was: Linux's choice for file pages on x86, where the hardware
            // would set the bit at the first access anyway.
            leaf.install(at, Entry::page(frame, store).used(store));
            info.mapped();
            found[slot] = None;
        }
    }
}

/// The same entry for stores, marked as already stored through.
fn writable(entry: Entry) -> Entry {
    Entry::page(entry.frame(), true).used(true).with_size_of(entry)
}
