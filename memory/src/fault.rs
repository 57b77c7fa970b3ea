//! Faults: filling in the translation that a program missed.
//!
//! Fresh memory reads as zeros through one shared frame until it is stored to. A page of a file is found in the page
//! cache or brought in with its successors, and mapped together with those of its neighbours that are in memory
//! (fault-around). Where a translation has to lead elsewhere from now on, because a store made a private copy, the old
//! one is taken away and flushed everywhere before the new one is visible: no two CPUs ever see different frames at one
//! address.

use core::fmt;

use ceasefire::{Gather, Lock, RwLock};

use crate::address::PAGE_BYTES;
use crate::allocate::OutOfMemory;
use crate::area::{Area, Source};
use crate::frame::{Frame, LruState};
use crate::machine::{Machine, Work};
use crate::object::ObjectId;
use crate::space::SpaceHandle;
use crate::table::{Entry, Leaf};
use crate::{FrameNumber, Memory};

/// The most pages that one fault maps.
const MOST_AROUND: usize = 64;
/// The most pages that one miss brings in.
const MOST_AHEAD: usize = 64;

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
    /// Nothing is mapped there.
    NotMapped(u64),
    /// A store where only loads are allowed.
    ReadOnly(u64),
    /// No frame is left for it.
    OutOfMemory,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMapped(address) => write!(f, "nothing is mapped at {address:#x}"),
            Self::ReadOnly(address) => write!(f, "{address:#x} is mapped read-only"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl<P: Machine> Memory<P> {
    /// Makes the access at `address` possible; the program then tries again.
    ///
    /// # Errors
    /// [`FaultError`] if it can never succeed as things are.
    pub fn fault(&self, space: &SpaceHandle<P>, address: u64, access: Access) -> Result<(), FaultError> {
        let platform = self.platform();
        platform.work(Work::Fault, 1);
        self.count(|share| &share.faults, 1);
        let address = address & !(PAGE_BYTES - 1);
        let areas = space.areas.read(platform);
        let area = *areas.find(address).ok_or(FaultError::NotMapped(address))?;
        if access == Access::Write && !area.writable {
            return Err(FaultError::ReadOnly(address));
        }
        let table = self.make_leaf(space, address)?;
        match (area.source, access) {
            (Source::Anonymous(_), Access::Read) => {
                let leaf = self.lock_leaf(space, table, address);
                if !leaf.get(address).present() {
                    leaf.install(address, Entry::page(self.zero, false).used(false));
                }
                Ok(())
            }
            (Source::Anonymous(object) | Source::Private { copies: object, .. }, Access::Write) => {
                self.own_copy(space, table, &area, object, address)
            }
            (Source::Shared(file) | Source::Private { file, .. }, _) => {
                self.map_cached(space, table, &area, file, address, access)
            }
        }
    }

    /// Gives the program a frame of its own at `address`, with what it could read there so far.
    fn own_copy(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        object: ObjectId,
        address: u64,
    ) -> Result<(), FaultError> {
        let platform = self.platform();
        let fresh = self.allocate(self.home())?;
        let original = match area.source {
            Source::Private { file, .. } => match self.find_or_read(file, area, address) {
                Ok(page) => Some(page),
                Err(error) => {
                    self.free(fresh);
                    return Err(error);
                }
            },
            _ => None,
        };
        let surplus = {
            let leaf = self.lock_leaf(space, table, address);
            let old = leaf.get(address);
            if old.present() && old.writable() {
                Some(fresh)
            } else {
                match original {
                    Some(page) => platform.copy(page, fresh.number(), 1),
                    None => platform.zero(fresh.number(), 1),
                }
                if old.present() {
                    self.take_away(space, &leaf, address);
                } else if original.is_some() {
                    // Reclaim may have cleared the file's page here and not flushed it yet.
                    self.engine.settle(space.coherence());
                }
                let info = self.frames.get(fresh.number());
                info.adopt(object, area.index(address), 2, LruState::new(true));
                info.mapped();
                let number = fresh.into_number();
                leaf.install(address, Entry::page(number, true).used(true));
                drop(leaf);
                self.list_soon(number);
                None
            }
        };
        if let Some(page) = original {
            self.put(page);
        }
        if let Some(frame) = surplus {
            self.free(frame);
        }
        Ok(())
    }

    /// Clears and flushes what `address` translates to, before something else takes its place.
    fn take_away(&self, space: &SpaceHandle<P>, leaf: &Leaf<'_, P>, address: u64) {
        let mut gather: Gather<'_, P, FrameNumber, _, 1> =
            Gather::new(&self.engine, space.coherence(), |page| self.put(page));
        let (old, cleared) = leaf.clear(address);
        let held = self.unmapped_frame(old);
        gather.unmap(cleared, held);
        gather.finish();
    }

    /// Accounts for a translation that was cleared; the frame whose reference it gave up, if it was counted.
    pub(crate) fn unmapped_frame(&self, old: Entry) -> Option<FrameNumber> {
        (old.present() && old.frame() != self.zero).then(|| {
            let info = self.frames.get(old.frame());
            if old.dirty() {
                info.set_dirty(true);
            }
            info.unmapped();
            old.frame()
        })
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
    ) -> Result<(), FaultError> {
        let platform = self.platform();
        let wanted = self.find_or_read(file, area, address)?;
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
                    self.frames.get(frame).hold();
                    found[slot] = Some(frame);
                }
            }
        }
        {
            let leaf = self.lock_leaf(space, table, address);
            debug_assert!(leaf.span().contains(&start) && leaf.span().contains(&(end - 1)));
            for (slot, at) in (start..end).step_by(PAGE_BYTES as usize).enumerate() {
                let Some(frame) = found[slot] else { continue };
                let store = at == address && access == Access::Write;
                let old = leaf.get(at);
                if !old.present() {
                    // Used, though only one of them was: Linux's choice for file pages on x86, where the hardware
                    // would set the bit at the first access anyway.
                    leaf.install(at, Entry::page(frame, store).used(store));
                    self.frames.get(frame).mapped();
                    found[slot] = None;
                } else if store && !old.writable() && old.frame() == frame {
                    leaf.install(at, Entry::page(frame, true).used(true));
                }
            }
        }
        for frame in found.into_iter().take(slots).flatten() {
            self.put(frame);
        }
        Ok(())
    }

    /// The page of `file` that `area` maps at `address`, held; brought in with its successors if it is not in memory.
    fn find_or_read(&self, file: ObjectId, area: &Area, address: u64) -> Result<FrameNumber, FaultError> {
        let index = area.index(address);
        loop {
            self.platform().work(Work::CacheFind, 1);
            let pages = self.objects.get(file).pages.lock(self.platform());
            if let Some(frame) = pages.find(index) {
                self.frames.get(frame).hold();
                return Ok(frame);
            }
            let missing = (index..pages.len.max(index + 1))
                .take(self.config.read_ahead.clamp(1, MOST_AHEAD as u32) as usize)
                .take_while(|&next| pages.find(next).is_none())
                .count();
            drop(pages);
            self.read_ahead(file, index, missing)?;
        }
    }

    /// Brings `count` pages of a file into memory: fewer if memory is short, but the first.
    fn read_ahead(&self, file: ObjectId, index: u32, count: usize) -> Result<(), OutOfMemory> {
        let platform = self.platform();
        // All frames first: an allocation may reclaim for a long time, and the file's other readers should find either
        // nothing or the pages.
        let mut fresh: [Option<Frame>; MOST_AHEAD] = [const { None }; MOST_AHEAD];
        let mut got = 0;
        while got < count {
            match self.allocate(self.home()) {
                Ok(frame) => fresh[got] = Some(frame),
                Err(error) if got == 0 => return Err(error),
                Err(_) => break,
            }
            got += 1;
        }
        for (at, frame) in (index..).zip(fresh.into_iter().take(got).flatten()) {
            // The file is a hole: zeros, and no device to wait for.
            platform.zero(frame.number(), 1);
            match self.insert(file, at, frame) {
                Ok(page) => self.list_soon(page),
                Err(surplus) => self.free(surplus),
            }
        }
        Ok(())
    }

    /// Puts a page into a file; the frame back if there is one already. The caller has one reference to it.
    fn insert(&self, file: ObjectId, index: u32, frame: Frame) -> Result<FrameNumber, Frame> {
        let mut pages = self.objects.get(file).pages.lock(self.platform());
        if pages.find(index).is_some() {
            return Err(frame);
        }
        self.platform().work(Work::CacheInsert, 1);
        // One reference for the cache, one for the caller.
        self.frames.get(frame.number()).adopt(file, index, 2, LruState::new(false));
        let number = frame.into_number();
        pages.insert(index, number);
        Ok(number)
    }
}
