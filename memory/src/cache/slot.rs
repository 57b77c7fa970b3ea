//! The debts of slots of files and of the swap device.
//!
//! A page may leave its slot, or move to another frame, lazily: without a flush, while CPUs can still read the old
//! copy. From then on the slot owes. Before its debt is settled no page may be brought in or mapped there, no bytes may
//! be handed to a system call, and none may change. All of that passes through this file, because there are only two ways
//! to find a page of a file or of the swap device: under the lock of its directory, and by a reference that is taken
//! without it. So no CPU that reads an old copy is ever led to a newer one (rule R6). A store through a mapping needs no
//! check: the debt was settled when the page was mapped, and a held page cannot begin to owe.
//!
//! Without the lock, the frame that is found may be another page by now (Linux: `filemap_get_entry`). So the task takes a
//! reference, and looks again. A page that is held and in its place stays there: only truncation takes it out, and then
//! all mappings of it. The debt is read after that, so it includes that of the copy which the page replaced.
//!
//! Settling waits for other CPUs, so the directory is unlocked meanwhile, and checked again.

use ceasefire::{Owed, Stamp};

use crate::address::{Block, FrameNumber, ObjectId, Store};
use crate::cache::page_cache::Cached;
use crate::machine::{Event, Machine};
use crate::objects::pages::{Directory, LockedPages};
use crate::sabotage::Guard;
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// A page of a store that is in memory and owes nothing, found without the lock of its directory. `None` says nothing:
    /// the caller then looks under the lock.
    pub(crate) fn find_in_place(&self, directory: &Directory<P>, store: Store, index: u32) -> Option<Cached> {
        let frame = directory.look(self.platform(), index, |place| place.frame())?;
        if !self.frames.get(frame).try_hold() {
            return None;
        }
        let stays = directory.look(self.platform(), index, |place| {
            let there = || place.frame() == Some(frame);
            // R6
            let stays = there() || !self.guarded(Guard::Recheck);
            if !stays || self.slot_owes(place.owed()) {
                return None;
            }
            // For the checkers: a page that truncation has taken out since may have successors that owe.
            if there() {
                self.finds(store, index, 1);
            }
            Some(())
        });
        if stays.is_none() {
            self.put(frame);
            return None;
        }
        if self.frames.get(frame).arriving() {
            self.put(frame);
            return Some(Cached::Wait(frame));
        }
        Some(Cached::Here(frame))
    }

    /// The pages of a file, locked, with the debts of `count` slots from `index` on settled. No lock that is held with
    /// interrupts off may be held.
    pub(crate) fn settled_pages(&self, file: ObjectId, index: u32, count: u32) -> LockedPages<'_, P> {
        let pages = self.settled_slots(&self.objects.get(file).pages, index, count);
        self.finds(Store::File(file), index, count);
        pages
    }

    /// The cache of the swap device, locked, with the debt of `slot` settled.
    pub(crate) fn settled_slot(&self, slot: u32) -> LockedPages<'_, P> {
        let cache = self.settled_slots(&self.swap.cache, slot, 1);
        self.finds(Store::Swap, slot, 1);
        cache
    }

    fn settled_slots<'m>(&'m self, pages: &'m Directory<P>, index: u32, count: u32) -> LockedPages<'m, P> {
        loop {
            let locked = pages.lock(self.platform());
            let owed = locked.owed_within(index, count);
            if !self.slot_owes(owed) {
                return locked;
            }
            drop(locked);
            self.pay(owed);
        }
    }

    /// Settles the debts of all pages of a file, before its contents change or its records are dropped.
    pub(crate) fn settle_file(&self, file: ObjectId) {
        loop {
            let pages = self.objects.get(file).pages.lock(self.platform());
            let owed = pages.owed_anywhere();
            if !self.slot_owes(owed) {
                return self.finds(Store::File(file), 0, u32::MAX);
            }
            drop(pages);
            self.pay(owed);
        }
    }

    /// Tells the checkers that `count` pages of a store from `index` on may be found, brought in or changed from now on.
    /// Their directory is locked, so none of them can leave meanwhile.
    pub(crate) fn finds(&self, store: Store, first: u32, count: u32) {
        let Some(more) = count.checked_sub(1) else { return };
        let last = first.saturating_add(more);
        self.ask_shadow(|shadow| shadow.finds(store, first, last));
        self.platform().observe(Event::Settled { store, first, last });
    }

    /// Tells the shadow that a frame holds an older copy of a block's page from now on. The directory is locked.
    pub(crate) fn outdated(&self, frame: FrameNumber, block: Block) {
        self.platform().shadow(|shadow| shadow.outdated(frame, block));
    }

    /// Whether a slot with that stamp still owes.
    pub(crate) fn slot_owes(&self, owed: Stamp) -> bool {
        self.guarded(Guard::Slot) && !self.engine.is_settled(owed) // R6
    }

    /// Pays the debt of a stamp.
    pub(crate) fn pay(&self, owed: Stamp) {
        self.engine.pay(Owed::new((), owed));
    }
}
