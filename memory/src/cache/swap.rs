//! Swap: a device that holds anonymous pages without frames.
//!
//! A slot holds one page. A page that is in memory *and* has a slot is in the swap device's cache, under the slot's
//! number. So every fault at an entry that names the slot finds the same frame, and a page whose unmapping still owes a
//! flush stays one page. Entries that name a slot are counted. A slot is free if no entry names it and its page is not
//! in the cache.

use alloc::boxed::Box;
use alloc::vec::Vec;

use ceasefire::Stamp;

use crate::address::{Block, FrameNumber, ObjectId, Store};
use crate::cache::page_cache::Cached;
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::LruState;
use crate::locks;
use crate::locks::Lock;
use crate::machine::{Machine, Work};
use crate::objects::pages::Directory;
use crate::Memory;

/// The swap device.
#[derive(Debug)]
pub(crate) struct Swap<P: Machine> {
    pub(crate) cache: Directory<P>,
    slots: P::Lock<Slots>,
}

/// The slots in use.
#[derive(Debug)]
struct Slots {
    /// For each slot, the number of entries that name it.
    named: Box<[u32]>,
    free: Vec<u32>,
}

impl<P: Machine> Swap<P> {
    pub(crate) fn new(slots: u32) -> Self {
        let slots = Slots {
            named: core::iter::repeat_n(0, slots as usize).collect(),
            free: (0..slots).rev().collect(),
        };
        Self { cache: Directory::new(&locks::PAGES), slots: P::Lock::new(&locks::SWAP_SLOTS, slots) }
    }
}

impl<P: Machine> Memory<P> {
    /// Free slots of the swap device.
    pub fn free_slots(&self) -> u32 {
        self.swap.slots.lock(self.platform()).free.len() as u32
    }

    /// Gives an isolated anonymous page, locked by the caller, a slot and a place in the cache; returns false if the
    /// device is full. The device's copy is older than the page.
    pub(crate) fn add_to_swap(&self, frame: FrameNumber) -> bool {
        let info = self.frames.get(frame);
        if info.slot().is_some() {
            return true;
        }
        let platform = self.platform();
        let mut cache = self.swap.cache.lock(platform);
        let Some(slot) = self.swap.slots.lock(platform).free.pop() else { return false };
        platform.work(Work::CacheInsert, 1);
        info.hold();
        info.set_slot(Some(slot));
        info.set_dirty();
        cache.insert(slot, frame);
        true
    }

    /// Counts an entry that names the slot from now on. An entry named the slot before, or its page is in the cache.
    pub(crate) fn name_slot(&self, slot: u32) {
        self.swap.slots.lock(self.platform()).named[slot as usize] += 1;
    }

    /// An entry that named the slot is gone.
    pub(crate) fn unname_slot(&self, slot: u32) {
        let platform = self.platform();
        let cached = {
            let cache = self.swap.cache.lock(platform);
            let mut slots = self.swap.slots.lock(platform);
            slots.named[slot as usize] -= 1;
            let cached = cache.find(slot);
            if slots.named[slot as usize] == 0 && cached.is_none() {
                slots.free.push(slot);
            }
            cached.filter(|_| slots.named[slot as usize] == 0)
        };
        if let Some(frame) = cached {
            self.forget_swapped(frame);
        }
    }

    /// Takes a page out of the cache, if it has no holder and no entry names its slot, and frees it.
    pub(crate) fn forget_swapped(&self, frame: FrameNumber) {
        if self.take_from_swap(frame, 1, Stamp::SETTLED, |_| true) {
            self.unlist(frame);
            self.free_orphan(frame);
        }
    }

    /// Takes a page out of the cache on three conditions: it is there, there are exactly `references` references, the
    /// cache's own among them, and `agreed` returns true once they are taken. The caller then owns all of them, and
    /// CPUs may read the frame until `stamp` is settled. The slot keeps the page if entries name it.
    pub(crate) fn take_from_swap(
        &self,
        frame: FrameNumber,
        references: u32,
        stamp: Stamp,
        agreed: impl FnOnce(u32) -> bool,
    ) -> bool {
        let platform = self.platform();
        let info = self.frames.get(frame);
        let Some(slot) = info.slot() else { return false };
        let mut cache = self.swap.cache.lock(platform);
        if info.slot() != Some(slot) || cache.find(slot) != Some(frame) {
            return false;
        }
        let mut slots = self.swap.slots.lock(platform);
        let named = slots.named[slot as usize];
        if (references == 1 && named > 0) || !info.take(references) {
            return false;
        }
        if !agreed(named) {
            info.give_back(references);
            return false;
        }
        cache.remove(slot, stamp);
        self.outdated(frame, Block { store: Store::Swap, index: slot });
        cache.forget_settled(self.engine.settled_stamp());
        platform.work(Work::CacheRemove, 1);
        self.left(frame, stamp, Some(Block { store: Store::Swap, index: slot }));
        info.set_slot(None);
        if named == 0 {
            slots.free.push(slot);
        }
        true
    }

    /// Whether a page belongs to this program alone, which may then store to it: it is mapped once, has no other
    /// holder, and no entry elsewhere names its slot. If it has a slot, it gives the slot up, because the contents
    /// there become old.
    ///
    /// The caller has the page's table locked.
    pub(crate) fn make_exclusive(&self, frame: FrameNumber) -> bool {
        let info = self.frames.get(frame);
        if info.huge() {
            // Fork splits huge pages, so each is mapped once.
            return true;
        }
        if info.maps() != 1 {
            return false;
        }
        if info.references() > 1 + u32::from(info.slot().is_some()) {
            // Perhaps this CPU itself holds the page, on its way to the lists.
            self.list_own();
        }
        if let Some(slot) = info.slot() {
            let platform = self.platform();
            let mut cache = self.swap.cache.lock(platform);
            if cache.find(slot) != Some(frame) || info.locked() {
                return false;
            }
            let mut slots = self.swap.slots.lock(platform);
            if slots.named[slot as usize] > 0 || !info.take(2) {
                return false;
            }
            cache.remove(slot, Stamp::SETTLED);
            info.set_slot(None);
            slots.free.push(slot);
            info.give_back(1);
            return true;
        }
        info.references() == 1
    }

    /// The page in a slot, held, or the one to wait for. If it is not in memory, it is brought in for a place of
    /// anonymous memory. `None` if the entry there no longer names the slot.
    ///
    /// `named` locks the table of the entry if the entry names the slot. Otherwise the slot could belong to another page
    /// by then, and that page would appear here.
    pub(crate) fn swapped_in<L>(
        &self,
        slot: u32,
        (object, index): (ObjectId, u32),
        named: impl Fn() -> Option<L>,
    ) -> Result<Option<Cached>, OutOfMemory> {
        let platform = self.platform();
        let look = || {
            platform.work(Work::CacheFind, 1);
            if let Some(found) = self.find_in_place(&self.swap.cache, Store::Swap, slot) {
                return Some(found);
            }
            let cache = self.settled_slot(slot);
            Some(self.hold_cached(cache.find(slot)?))
        };
        if let Some(found) = look() {
            return Ok(Some(found));
        }
        let fresh = self.allocate(self.home())?;
        let Some(table) = named() else {
            self.free(fresh);
            return Ok(None);
        };
        let mut cache = self.settled_slot(slot);
        if cache.find(slot).is_some() {
            drop((cache, table));
            self.free(fresh);
            return Ok(look());
        }
        let info = self.frames.get(fresh.number());
        // One reference is for the cache, one for the caller, one for the way to the lists.
        info.adopt(object, index, 3, 0, LruState::new(true));
        info.set_slot(Some(slot));
        info.set_arriving();
        info.try_lock();
        let number = fresh.into_number();
        cache.insert(slot, number);
        platform.work(Work::CacheInsert, 1);
        drop((cache, table));
        self.read_in(&[(Block { store: Store::Swap, index: slot }, number)]);
        self.count(|share| &share.swapped_in, 1);
        self.unlock_page(number);
        self.list_soon(number);
        Ok(Some(Cached::Here(number)))
    }
}
