//! Strict unmaps: the change is done on every CPU before the call returns.
//!
//! They serve munmap, madvise, mprotect and exit. The order is always: change, flush, free. A [`Gather`] changes
//! translations and collects the frames and page-table pages that they led to. It flushes once, and only then releases
//! them. While it is open, the space counts it. So a second thread that finds translations already gone does not return
//! before they are flushed (Linux: `mm_tlb_flush_nested`).
//!
//! No new translation may appear in the range before the flush (R7). There are three kinds of gather for that. A gather
//! made by [`Gather::new`] flushes before it releases each page-table lock; [`Gather::finish_under`] makes the last of
//! these flushes the only one at its end. A gather made by [`Gather::keeping`] borrows the lock that keeps new
//! translations out of the whole range. It flushes once at its end, and cannot outlive that lock. A gather made by
//! [`Gather::marking`] leaves a [`Mark`] in the entries that it clears, and flushes once at its end too.

use core::ops::Deref;

use super::mark::Mark;
use super::room::{Place, Room};
use super::settled::{Settled, TableGuard};
use super::span::Span;
use crate::entry::{exchanged, Debt, Entry, Translation};
use crate::flush::{Flush, PageSize};
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::space::AddressSpace;
use crate::Engine;

/// The guard of a lock that keeps new translations out of a range: a space's lock held exclusively, or that of the areas
/// concerned.
///
/// A kernel implements it for the guard type of that lock.
///
/// # Safety
/// R7 rests on it. While the guard lives, no fault and no other operation of the program creates a translation at an
/// address that a gather changes which borrows the guard. Every call of [`RangeGuard::space`] names the same space.
pub unsafe trait RangeGuard<P: Platform> {
    /// The space that the lock protects.
    fn space(&self) -> &P::Space;
}

/// Translations changed on a program's behalf and not flushed yet, with the things that they led to.
///
/// `release` gets each held thing once no CPU can reach it. The caller lends the room; a full gather flushes by itself.
/// Dropping a gather finishes it.
///
/// ```
/// use ceasefire::{Access, Engine, Entry, Gather, PageSize, Place, Platform, TableGuard, Translation};
///
/// # struct Pte(u64);
/// # impl Translation for Pte {
/// #     fn entry(&self) -> Entry { Entry::NONE }
/// # }
/// # trait Leaf { fn exchange(&self, address: u64, new: u64) -> Pte; }
/// /// The only name of a frame that is in use: it has no copy.
/// struct Frame(u64);
///
/// fn unmap_one<P: Platform, G: TableGuard<P> + Leaf>(
///     engine: &Engine<P>, space: &P::Space, lock: G, address: u64, free: impl FnMut(Frame),
/// ) {
///     let mut room = [Place::EMPTY; 1];
///     let mut gather = Gather::new(engine, space.as_ref(), &mut room, free);
///     let mut changes = gather.under(engine.settle(lock));
///     changes.clear(address, PageSize::KIB_4, |leaf| leaf.exchange(address, 0), |old| Some(Frame(old.0 >> 12)));
///     drop(changes); // flushes, then releases the page-table lock
///     gather.finish(); // only now `free` has got the frame
/// }
/// ```
///
/// The old entry names the frame too, and Rust cannot tell one number from another. So make the frame from the entry in
/// `clear` alone, and give it a type without copies.
///
/// It changes translations only under a lock under which the space was [settled](Engine::settle):
///
/// ```compile_fail,E0308
/// # use ceasefire::{Gather, Platform, TableGuard};
/// # fn unsettled<P: Platform, R: FnMut(u32), G: TableGuard<P>>(gather: &mut Gather<'_, P, u32, R>, lock: G) {
///     let changes = gather.under(lock);
/// # }
/// ```
///
/// The changes own the lock, so it cannot be released between a change and its flush:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Entry, Gather, PageSize, Platform, Settled, TableGuard};
/// # fn early<P: Platform, R: FnMut(u32), G: TableGuard<P>>(gather: &mut Gather<'_, P, u32, R>, lock: Settled<G>) {
///     let mut changes = gather.under(lock);
///     drop(lock);
///     changes.clear(0x1000, PageSize::KIB_4, |_| Entry::NONE, |_| None);
/// # }
/// ```
///
/// A gather that relies on the lock of the range borrows it, so that lock cannot be released early either:
///
/// ```compile_fail,E0505
/// # use ceasefire::{Engine, Gather, Place, Platform, RangeGuard};
/// # fn early<P: Platform, G: RangeGuard<P>>(engine: &Engine<P>, lock: G) {
///     let mut room = [Place::<u32>::EMPTY; 4];
///     let gather = Gather::keeping(engine, &lock, &mut room, drop);
///     drop(lock);
///     gather.finish();
/// # }
/// ```
///
/// A thing that it holds cannot be used before the flush, and a finished gather takes nothing more:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Gather, Platform};
/// # fn early<P: Platform, R: FnMut(Box<u8>)>(gather: &mut Gather<'_, P, Box<u8>, R>, page: Box<u8>) {
///     gather.hold(page);
///     drop(page);
/// # }
/// ```
#[must_use = "a gather that stays open keeps every other unmap of the space waiting"]
#[derive(Debug)]
pub struct Gather<'e, P: Platform, T, R: FnMut(T)> {
    engine: &'e Engine<P>,
    space: &'e AddressSpace,
    /// New translations are kept out of the range until the gather ends.
    keeps: bool,
    /// What it leaves in the entries that it clears, if page-table locks are released before the flush.
    mark: Option<Mark>,
    /// Its last flush is made, and nothing changed since.
    finished: bool,
    room: Room<'e, T, R>,
}

impl<'e, P: Platform, T, R: FnMut(T)> Gather<'e, P, T, R> {
    /// A gather in `space` that flushes before it releases each page-table lock. It has room for `room.len()` things.
    pub fn new(engine: &'e Engine<P>, space: &'e AddressSpace, room: &'e mut [Place<T>], release: R) -> Self {
        Self::open(engine, space, false, room, release)
    }

    /// A gather in `space` whose cleared entries all get its [mark](Gather::mark), if it has one. So page-table locks
    /// may be released before the flush. Whoever finds the mark in an entry must not put a translation there before the
    /// gather [has flushed](Engine::has_flushed), or the address is flushed. Without a mark it is as one made by
    /// [`Gather::new`]: each CPU has one mark at a time.
    ///
    /// It must not narrow translations without flushing under the lock.
    pub fn marking(
        engine: &'e Engine<P>,
        space: &'e AddressSpace,
        room: &'e mut [Place<T>],
        release: R,
    ) -> Self {
        let mut gather = Self::open(engine, space, false, room, release);
        gather.mark = engine.begin_marking();
        gather
    }

    /// A gather in the space of `keeper`, which keeps new translations out of the range while it is borrowed. So
    /// page-table locks may be released before the flush, and one flush covers many tables.
    pub fn keeping<K: RangeGuard<P>>(
        engine: &'e Engine<P>,
        keeper: &'e K,
        room: &'e mut [Place<T>],
        release: R,
    ) -> Self {
        Self::open(engine, keeper.space().as_ref(), true, room, release)
    }

    fn open(
        engine: &'e Engine<P>,
        space: &'e AddressSpace,
        keeps: bool,
        room: &'e mut [Place<T>],
        release: R,
    ) -> Self {
        space.in_flight.begin_gather();
        Self { engine, space, keeps, mark: None, finished: false, room: Room::new(room, release) }
    }

    /// The space whose translations it changes.
    pub fn space(&self) -> &'e AddressSpace {
        self.space
    }

    /// Whether new translations are kept out of the range until it ends, because [`Gather::keeping`] made it.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// The mark that it leaves, if [`Gather::marking`] made it and page-table locks may be released before its flush.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Whether it flushes before it releases each page-table lock: it neither keeps the range nor leaves marks.
    pub fn flushes_each(&self) -> bool {
        !self.keeps && self.mark.is_none()
    }

    /// Changes translations under a page-table lock under which the space was settled.
    ///
    /// Dropping the changes releases the lock. It flushes first if the gather [does so](Gather::flushes_each).
    pub fn under<G: TableGuard<P>>(&mut self, lock: Settled<G>) -> Changes<'_, 'e, P, T, R, G> {
        Changes { gather: self, lock }
    }

    /// Unlinks a page-table page that no longer translates anything. `unlink` takes it out of the table above and
    /// returns it, to be held; `None` if there is none. The page-table page, or a table below it, translated pages of
    /// `size` from `address` on.
    ///
    /// It is released once no walker can read it, neither a processor's nor the kernel's own
    /// ([`Walkers`](crate::Walkers)).
    pub fn unlink(&mut self, address: u64, size: PageSize, unlink: impl FnOnce() -> Option<T>) {
        // Before the table is taken out: `unlink` may panic behind that.
        self.room.changed.cover_table(address, size, size.bytes());
        if let Some(table) = unlink() {
            self.hold(table);
        }
    }

    /// Keeps `held` until the next flush is done. Flushes by itself if there is no room; interrupts must be on.
    pub fn hold(&mut self, held: T) {
        self.room.hold(held, |flush| pay(self.engine, self.space, flush));
    }

    /// Flushes the changes so far and releases the things that it held. Interrupts must be on.
    pub fn flush(&mut self) {
        self.room.flush(|flush| pay(self.engine, self.space, flush));
    }

    /// Flushes, releases and closes.
    pub fn finish(self) {}

    /// Makes the last changes under a page-table lock, like [`Gather::under`], and finishes before the lock is
    /// released. So one flush serves these changes and the translations that the gather found gone.
    pub fn finish_under<G: TableGuard<P>>(
        mut self,
        lock: Settled<G>,
        change: impl FnOnce(&mut Changes<'_, 'e, P, T, R, G>),
    ) {
        let mut changes = self.under(lock);
        change(&mut changes);
        // R7
        if changes.gather.engine.guarded(Guard::UnlockFlush) {
            changes.gather.flush_last();
        }
    }

    /// Notes the debt of a translation of `space`. The caller may have mixed up spaces. The gather's own flush does not
    /// cover another one, which is flushed at once.
    fn owe(&mut self, space: &AddressSpace, debt: Debt) {
        if !self.engine.may_be_held(space, debt.entry) {
            return;
        }
        if self.is_foreign(space) {
            self.engine.flush(space, debt.flush());
        } else {
            self.room.changed.cover(debt.address, debt.size, debt.size.bytes());
        }
    }

    /// Whether a lock's space is another than the gather's.
    fn is_foreign(&self, space: &AddressSpace) -> bool {
        space.id() != self.space.id()
    }

    /// The flush after which the gather changes nothing more and looks at no translation.
    fn flush_last(&mut self) {
        if self.space.in_flight.nested() && self.engine.guarded(Guard::Nested) {
            // R3: another thread cleared translations that this one found gone, and may not have flushed them yet.
            pay(self.engine, self.space, Flush::ALL);
            self.room.changed = Span::new();
        }
        self.flush();
        self.finished = true;
    }
}

fn pay<P: Platform>(engine: &Engine<P>, space: &AddressSpace, flush: Flush) {
    // R1, R3
    if engine.guarded(Guard::GatherFlush) {
        engine.flush(space, engine.noted(flush));
    }
}

impl<P: Platform> Engine<P> {
    /// The flush of a gather, with the notes on what lies in its range.
    pub(crate) fn noted(&self, flush: Flush) -> Flush {
        Flush {
            tables: flush.tables && self.guarded(Guard::Tables), // R2
            mixed: flush.mixed && self.guarded(Guard::Mixed),    // R1, R3
            ..flush
        }
    }
}

impl<P: Platform, T, R: FnMut(T)> Drop for Gather<'_, P, T, R> {
    fn drop(&mut self) {
        if !self.finished {
            self.flush_last();
        }
        // After the flush, since the count says that flushes are outstanding, and so does the mark.
        self.space.in_flight.end_gather();
        if let Some(mark) = self.mark {
            self.engine.end_marking(mark);
        }
    }
}

/// Changes of translations under one page-table lock, which is released when they are dropped.
#[must_use = "dropping it releases the page-table lock"]
#[derive(Debug)]
pub struct Changes<'g, 'e, P: Platform, T, R: FnMut(T), G: TableGuard<P>> {
    gather: &'g mut Gather<'e, P, T, R>,
    lock: Settled<G>,
}

impl<P: Platform, T, R: FnMut(T), G: TableGuard<P>> Changes<'_, '_, P, T, R, G> {
    /// Clears the translation of `size` at `address`. `exchange` puts an entry that no CPU can use in its place, in one
    /// atomic step, and returns the old entry. `led_to` names the thing that the old entry led to, which is held until
    /// the flush; `None` if nothing may be used again, such as the registers of a device. Returns the old entry.
    ///
    /// Flushes by itself if there is no room for the thing; interrupts must be on.
    pub fn clear<E: Translation>(
        &mut self,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce(&G) -> E,
        led_to: impl FnOnce(&E) -> Option<T>,
    ) -> E {
        let old = self.narrow(address, size, exchange);
        if let Some(held) = led_to(&old) {
            self.hold(held);
        }
        old
    }

    /// Narrows the translation of `size` at `address`. `exchange` puts an entry with fewer rights to the same frame in
    /// its place, in one atomic step, and returns the old entry. If it also removes the mark of a store, the caller
    /// must carry the mark over to the page.
    pub fn narrow<E: Translation>(
        &mut self,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce(&G) -> E,
    ) -> E {
        let Self { gather, lock } = self;
        let lock = &**lock;
        let space = lock.space().as_ref();
        let worst = || gather.owe(space, Debt::new(address, size, Entry::DIRTY));
        let (old, entry) = exchanged(|| exchange(lock), worst);
        gather.owe(space, Debt::new(address, size, entry));
        old
    }

    /// Unlinks a page-table page under the lock, like [`Gather::unlink`].
    pub fn unlink(&mut self, address: u64, size: PageSize, unlink: impl FnOnce(&G) -> Option<T>) {
        if let Some(table) = self.detach(address, size, size.bytes(), unlink) {
            self.hold(table);
        }
    }

    /// Takes a page-table page in use out of its place, to be linked elsewhere. `exchange` does so and returns the
    /// entry that pointed to it. The page-table page translates `bytes` from `address` on, in pages of `size` or
    /// larger; at least one page is flushed. After the flush, no CPU uses a translation of it there and no walker finds
    /// it there.
    pub fn detach<E>(
        &mut self,
        address: u64,
        size: PageSize,
        bytes: u64,
        exchange: impl FnOnce(&G) -> E,
    ) -> E {
        let Self { gather, lock } = self;
        let space = lock.space().as_ref();
        let foreign = gather.is_foreign(space);
        if !foreign {
            // Before the table is taken out: `exchange` may panic behind that.
            gather.room.changed.cover_table(address, size, bytes.max(size.bytes()));
        }
        let old = exchange(lock);
        if foreign {
            gather.engine.flush(space, Flush::ALL);
        }
        old
    }

    /// Keeps `held` until the next flush is done, like [`Gather::hold`].
    pub fn hold(&mut self, held: T) {
        self.gather.hold(held);
    }

    /// Flushes under the lock, like [`Gather::flush`].
    pub fn flush(&mut self) {
        self.gather.flush();
    }

    /// The lock, to create new translations under it. Call [`Changes::flush`] first if there were others before.
    pub fn lock(&self) -> &Settled<G> {
        &self.lock
    }

    /// Whether new translations are kept out of the range until the gather ends, because [`Gather::keeping`] made it.
    pub fn keeps(&self) -> bool {
        self.gather.keeps
    }

    /// The mark that the gather leaves in the entries that it clears.
    pub fn mark(&self) -> Option<Mark> {
        self.gather.mark
    }
}

impl<P: Platform, T, R: FnMut(T), G: TableGuard<P>> Deref for Changes<'_, '_, P, T, R, G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.lock
    }
}

impl<P: Platform, T, R: FnMut(T), G: TableGuard<P>> Drop for Changes<'_, '_, P, T, R, G> {
    fn drop(&mut self) {
        // R7: before the lock, which is a field, is released.
        if self.gather.flushes_each() && self.gather.engine.guarded(Guard::UnlockFlush) {
            self.gather.flush();
        }
    }
}
