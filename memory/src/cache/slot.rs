//! What the slots of files and of the swap device owe.
//!
//! A page may leave its slot, or move to another frame, while CPUs can still read the copy that was there: lazily, without
//! a flush. From then on the slot owes, and nothing may be made of it before that is settled: no page is brought in, none is
//! mapped or handed to a system call, and no byte changes. All of that comes by here, since a page of a file or of the swap
//! device is found in one way only, under the lock of its directory; so no reader of an old copy is ever told of a newer
//! one. What a program maps was settled when it was mapped, and a page that somebody holds cannot begin to owe: so a store
//! through a mapping needs no look.
//!
//! Settling waits for other CPUs, so the directory is unlocked meanwhile, and looked at again.

use ceasefire::{Owed, Stamp};

use crate::address::{Block, FrameNumber, ObjectId, Store};
use crate::locks::Lock;
use crate::machine::{Event, Machine};
use crate::objects::pages::Pages;
use crate::Memory;

/// A directory of pages, locked.
pub(crate) type LockedPages<'m, P> = <<P as Machine>::Lock<Pages> as Lock<Pages, P>>::Guard<'m>;

impl<P: Machine> Memory<P> {
    /// The pages of a file, locked, none of `count` from `index` on owing anything. No lock that is held with interrupts
    /// off may be held.
    pub(crate) fn settled_pages(&self, file: ObjectId, index: u32, count: u32) -> LockedPages<'_, P> {
        let pages = self.settled_slots(&self.objects.get(file).pages, index, count);
        self.finds(Store::File(file), index, count);
        for index in index..index.saturating_add(count) {
            self.platform().observe(Event::Settled(Block { store: Store::File(file), index }));
        }
        pages
    }

    /// The cache of the swap device, locked, with nothing owing in `slot`.
    pub(crate) fn settled_slot(&self, slot: u32) -> LockedPages<'_, P> {
        let cache = self.settled_slots(&self.swap.cache, slot, 1);
        self.finds(Store::Swap, slot, 1);
        self.platform().observe(Event::Settled(Block { store: Store::Swap, index: slot }));
        cache
    }

    fn settled_slots<'m>(&'m self, pages: &'m P::Lock<Pages>, index: u32, count: u32) -> LockedPages<'m, P> {
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

    /// Settles what any page of a file owes, before its contents change or what is known of it is forgotten.
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

    /// Pages of a store, `count` from `index` on, may be found, brought in or changed from now on: the shadow looks. Their
    /// directory is locked, so that none of them leaves meanwhile.
    pub(crate) fn finds(&self, store: Store, index: u32, count: u32) {
        self.ask_shadow(|shadow| shadow.finds(store, index, index.saturating_add(count - 1)));
    }

    /// A frame holds an older copy of a block's page from now on. The directory is locked.
    pub(crate) fn outdated(&self, frame: FrameNumber, block: Block) {
        self.platform().shadow(|shadow| shadow.outdated(frame, block));
    }

    /// Whether a slot with that stamp still owes.
    pub(crate) fn slot_owes(&self, owed: Stamp) -> bool {
        #[cfg(ceasefire_sabotage)]
        if !self.engine.guarded(ceasefire::sabotage::Guard::Slot) {
            return false;
        }
        !self.engine.is_settled(owed)
    }

    /// Pays what is owed under a stamp.
    pub(crate) fn pay(&self, owed: Stamp) {
        self.engine.pay(Owed::new((), owed));
    }
}
