//! Deferrable unmaps: one flush for many pages, or none.
//!
//! Reclaim and migration clear translations that no program asked to lose. So nothing is promised to a program until
//! the page itself is touched. A [`Batch`] records each cleared translation in its space and remembers the CPUs that
//! may hold it. The record raises the space's generation, so a CPU that starts to run the space later flushes by
//! itself. One flush then pays for everything, and the batch releases the pages that it held. (Linux:
//! `tlbflush_unmap_batch`.)
//!
//! Under [`Schedule::Lazy`], a page that CPUs can only read comes out without that flush, as an [`Owed`]. In a space
//! with a global ASID, the batch starts each translation's broadcast when it records it; its flush is the wait for all
//! of them. Where the hardware broadcasts, one broadcast of everything pays for translations that many CPUs may hold
//! under slots of their own.
//!
//! A batch is stricter than Linux in three points:
//!
//! - Pages stay in their caches, held, until the flush. So no CPU reads a second copy of a page while another still
//!   reads the first.
//! - A permit to write a page out takes the page by value and flushes writable entries first. So no store lands in a
//!   page that is being written.
//! - The flush is remembered in the spaces that it covered. So the next munmap does not pay for it again.

use core::marker::PhantomData;
use core::mem;

use super::account::{Paid, Part, Recorded};
use super::permit::WritePermit;
use super::room::Place;
use super::settled::TableGuard;
use crate::entry::{exchanged, Debt, Entry, Translation};
use crate::flush::{Flush, PageSize};
use crate::lazy::{may_owe, Condition, Met, Owed};
use crate::platform::Platform;
use crate::primitive::Ordering;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, Generation, Stamp, Tagged};
use crate::Engine;

/// The default number of pages that a [`Batch`] holds before it flushes by itself: the number that Linux's reclaim
/// isolates at a time (`SWAP_CLUSTER_MAX`).
pub const BATCH: usize = 32;

/// The number of spaces that a batch remembers, to tell them what became of their debt. It pays before it records in
/// one more.
const SPACES: usize = 8;

/// When the debts of deferrable unmaps are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// At once, one flush for each translation. This is how kernels worked before batching.
    PerPage,
    /// At the end of a batch.
    Batched,
    /// Before they could matter, within the engine's [`Bounds`](crate::Bounds). A debt that may not be lazy is paid at
    /// the end of its batch.
    Lazy,
}

/// Translations cleared on the kernel's own account and not flushed yet, with the pages they belonged to.
///
/// A page goes in by value before its translations are taken away ([`Batch::take`]). `release` gets each page once no
/// CPU can reach it through a cleared translation. A page that was [released in debt](Unmapping::release_in_debt) may come out owing.
/// Dropping a batch flushes it.
///
/// ```
/// use ceasefire::{Batch, Condition, Engine, Entry, Owed, PageSize, Platform, Schedule, TableGuard};
///
/// /// The only name of a frame that is in use: it has no copy.
/// struct Frame(u64);
///
/// fn reclaim<P: Platform, G: TableGuard<P>>(
///     engine: &Engine<P>, frame: Frame, lock: &G, clear: impl FnOnce(&G) -> Entry, free: impl FnMut(Owed<Frame>),
/// ) {
///     let mut batch: Batch<'_, P, Frame, _> = Batch::new(engine, Schedule::Lazy, free);
///     let mut unmapping = batch.take(frame);
///     unmapping.clear(lock, 0x1000, PageSize::KIB_4, clear); // under the page-table lock
///     unmapping.release_in_debt(Condition::UNKEPT);
///     batch.flush(); // at most one flush; only now `free` gets the frame
/// }
/// ```
///
/// A batch that outlives a call, in a task's structure, has a function in place of a closure. Its type has a name then:
///
/// ```
/// # use ceasefire::{Batch, Owed, Platform};
/// # struct Frame(u64);
/// struct Task<P: Platform + 'static> {
///     unmapped: Option<Batch<'static, P, Frame, fn(Owed<Frame>)>>,
/// }
/// ```
///
/// A batch stays with its task. The task may move to another CPU, since a task switch waits for the task's broadcasts.
/// A batch handed to another task would wait for the wrong CPU's broadcasts:
///
/// ```compile_fail,E0277
/// # use ceasefire::{Batch, Owed, Platform};
/// # struct Frame(u64);
/// fn elsewhere<P: Platform + Sync>(batch: Batch<'static, P, Frame, fn(Owed<Frame>)>) {
///     std::thread::spawn(move || drop(batch));
/// }
/// ```
///
/// If `exchange`, `release` or the platform panics, the batch still pays before it releases a page: see *Panics* in the
/// book.
///
/// The debt is recorded where the translation is exchanged, in the space of the lock, so there is no value for it that
/// could be lost. A page belongs to one batch while its translations are taken away:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Owed, Platform};
/// fn elsewhere<P: Platform, T, R: FnMut(Owed<T>)>(
///     batch: &mut Batch<'_, P, T, R>, other: &mut Batch<'_, P, T, R>, page: T,
/// ) {
///     batch.take(page).hold();
///     other.take(page).hold();
/// }
/// ```
#[must_use = "the pages it holds come out only when it flushes"]
#[derive(Debug)]
pub struct Batch<'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize = BATCH> {
    engine: &'e Engine<P>,
    schedule: Schedule,
    release: R,
    /// Pages below `withheld` wait for a permit, those below `waiting` for the flush. Pages from `leaving` on may come
    /// out owing.
    held: [Place<T>; N],
    withheld: usize,
    waiting: usize,
    leaving: usize,
    /// The part that must be flushed.
    due: Part,
    /// The part that may be owed longer; `None` if nothing may.
    lazy: Option<Lazy>,
    /// The spaces recorded in; the first `known` are set. The space of the last record comes first, since the next
    /// record mostly goes there too.
    spaces: [Option<Recorded<P::Space>>; SPACES],
    known: usize,
    /// When the first translation since the last flush was recorded.
    since: u64,
    /// A recorded translation may be cached as dirty: stores through it would not fault.
    writable: bool,
    /// Broadcasts were started and not yet waited for.
    started: bool,
    /// A payment has begun and has not ended. It stays set if the platform panics.
    paying: bool,
    /// The stamp until which the pages owe that leave in debt. It stays if a release panics and leaves some behind.
    stamp: Stamp,
    /// Broadcasts are waited for on the CPU that started them, or that their task moved to.
    here: PhantomData<*const ()>,
}

/// The records of a lazy batch, beside what must be flushed.
#[derive(Debug)]
struct Lazy {
    /// Those of the page whose translations are being cleared. It is not decided yet what becomes of the page.
    page: Part,
    met: Met,
    /// Those of the pages that may come out owing.
    leaving: Part,
}

impl<'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize> Batch<'e, P, T, R, N> {
    const ROOM: () = assert!(N > 0, "a batch without room for a page takes none");

    /// Makes an empty batch. `N` is the number of pages that it holds, at least 1.
    pub fn new(engine: &'e Engine<P>, schedule: Schedule, release: R) -> Self {
        let () = Self::ROOM;
        let lazily = schedule == Schedule::Lazy && !engine.bounds().is_strict();
        Self {
            engine,
            schedule,
            release,
            held: [Place::EMPTY; N],
            waiting: 0,
            leaving: N,
            withheld: 0,
            due: Part::new(),
            lazy: lazily.then(|| Lazy { page: Part::new(), met: Met::default(), leaving: Part::new() }),
            spaces: core::array::from_fn(|_| None),
            known: 0,
            since: 0,
            writable: false,
            started: false,
            paying: false,
            stamp: Stamp::SETTLED,
            here: PhantomData,
        }
    }

    /// Takes a page, to take its translations away. It flushes first if there is no room for the page; interrupts must
    /// be on.
    ///
    /// If pages that wait for a write permit take all the room, the flush makes none. The oldest of them is then
    /// released like a held page, and is not written out.
    pub fn take(&mut self, page: T) -> Unmapping<'_, 'e, P, T, R, N> {
        if self.waiting == self.leaving {
            self.make_room();
        }
        Unmapping { batch: self, page: Some(page) }
    }

    /// Holds a page whose translations are all gone until the next flush, like [`Unmapping::hold`].
    pub fn hold(&mut self, page: T) {
        self.take(page).hold();
    }

    /// The number of pages that it holds.
    pub fn len(&self) -> usize {
        self.waiting + (N - self.leaving)
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Permission to write out the oldest [withheld](Unmapping::withhold) page; `None` if there is none left.
    ///
    /// It flushes first if stores through a recorded translation could go unseen; interrupts must be on. The caller
    /// must keep the page from other tasks (isolated, locked) until it is written. That is why the permit holds the
    /// page by value.
    pub fn write_permit(&mut self) -> Option<WritePermit<T>> {
        if self.withheld == 0 {
            return None;
        }
        if self.may_be_stored_to() && self.engine.guarded(Guard::WritableFlush) {
            // R5: the flush is made anyway, so it also covers what could have been owed longer.
            self.pay();
        }
        self.next_withheld().map(WritePermit)
    }

    /// Whether stores through a recorded translation could go unseen until the flush. They could if the translation may
    /// be cached as dirty. They also could if another downgrade is in flight in its space: CPUs may then hold rights
    /// that the page table did not show. A downgrade that was in flight when the translation was recorded, and has
    /// ended, was flushed.
    fn may_be_stored_to(&self) -> bool {
        let narrows = |known: &Recorded<P::Space>| {
            known.space.as_ref().in_flight.any_but(known.narrowed)
                && self.engine.narrows(known.space.as_ref())
        };
        self.writable || self.spaces[..self.known].iter().flatten().any(narrows)
    }

    /// Removes the oldest withheld page. The pages behind it move up.
    fn next_withheld(&mut self) -> Option<T> {
        if self.withheld == 0 {
            return None;
        }
        let page = self.held[0].take();
        self.held[..self.waiting].rotate_left(1);
        self.waiting -= 1;
        self.withheld -= 1;
        page
    }

    /// Pays what must be paid, enters what is owed longer, and releases the pages that it holds except the withheld
    /// ones. Interrupts must be on.
    pub fn flush(&mut self) {
        let stamp = if self.engine.guarded(Guard::BatchFlush) { self.pay_due() } else { Stamp::SETTLED }; // R1
        self.stamp = self.stamp.with(stamp);
        for held in &mut self.held[self.withheld..self.waiting] {
            if let Some(page) = held.take() {
                (self.release)(Owed::settled(page));
            }
        }
        for held in self.held[self.leaving..].iter_mut().rev() {
            if let Some(page) = held.take() {
                (self.release)(Owed::new(page, self.stamp));
            }
        }
        (self.waiting, self.leaving) = (self.withheld, N);
        self.stamp = Stamp::SETTLED;
    }

    #[cold]
    fn make_room(&mut self) {
        self.flush();
        if self.waiting == N {
            if let Some(page) = self.next_withheld() {
                (self.release)(Owed::settled(page));
            }
        }
    }

    /// The records since the last page was handed over must be flushed.
    fn keep_back(&mut self) {
        if let Some(lazy) = &mut self.lazy {
            lazy.met = Met::default();
            lazy.page.pour(&mut self.due);
        }
    }

    /// Keeps a page until the next flush.
    fn wait(&mut self, page: T) {
        self.keep_back();
        self.held[self.waiting].put(page);
        self.waiting += 1;
    }

    /// Inlined into each of its callers: as a call, it would cost half as much again.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn owe(&mut self, space: &P::Space, debt: Debt, narrowed: bool) {
        let owner = space.as_ref();
        if !self.engine.may_be_held(owner, debt.entry) {
            return;
        }
        // First the generation, then the CPUs: a CPU that joins after the set was read sees the new generation.
        let generation = owner.generation.raise();
        let tag = owner.tag.read();
        let deferred = if tag.is_slots() {
            self.defer_to_interrupt(space, generation, debt, narrowed)
        } else {
            self.defer_to_hardware(space, generation, tag.tagged(), debt, narrowed)
        };
        if !deferred {
            // R1
            if self.engine.guarded(Guard::AtOnce) {
                self.engine.flush_to(generation, owner, debt.flush());
            }
            return;
        }
        owner.deferred.raise_to(generation);
        self.writable |= debt.entry.dirty;
        self.engine.flush_devices(owner, debt.flush());
    }

    /// Notes the CPUs to interrupt for the debt. False if the debt may not wait, or waiting saves nothing.
    fn defer_to_interrupt(
        &mut self,
        space: &P::Space,
        generation: Generation,
        debt: Debt,
        narrowed: bool,
    ) -> bool {
        let owner = space.as_ref();
        match &mut self.spaces[0] {
            // The batch flushes for this space anyway, so the new debt may wait, whichever CPU runs the space by now.
            Some(known) if known.is(owner) && (!narrowed || known.narrowed) => known.newest = generation,
            _ => {
                if !self.begins(space, generation, narrowed) {
                    return false;
                }
            }
        }
        if self.lazy.is_none() || narrowed {
            self.due.cpus.unite(owner.cpus());
            self.due.recorded += 1;
        } else {
            self.defer_lazily(owner, debt);
        }
        true
    }

    /// Starts to record in a space that the last record did not go to. False if its debt may not wait, or waiting saves
    /// nothing.
    #[cold]
    fn begins(&mut self, space: &P::Space, generation: Generation, narrowed: bool) -> bool {
        let here = self.engine.platform().this_cpu();
        let waits = self.may_wait() && space.as_ref().cpus().any_but(here);
        if waits {
            self.remember(space, generation, narrowed);
        }
        waits
    }

    /// Notes the CPUs that may hold a translation of the page that the caller will hand over next.
    // A function of its own, to keep the code that is inlined into every caller short.
    #[inline(never)]
    fn defer_lazily(&mut self, owner: &AddressSpace, debt: Debt) {
        let (Some(lazy), Some(known)) = (&mut self.lazy, &mut self.spaces[0]) else { return };
        known.lazy = true;
        lazy.page.cpus.unite(owner.cpus());
        lazy.page.recorded += 1;
        lazy.met.add(debt.entry, self.engine.narrows(owner));
    }

    /// Notes a debt of a space whose tag is not its slots alone: it has a global ASID, is about to get one, or is about
    /// to give it back. False if the debt may not wait.
    // A function of its own for the same reason as `defer_lazily`.
    #[inline(never)]
    fn defer_to_hardware(
        &mut self,
        space: &P::Space,
        generation: Generation,
        tagged: Tagged,
        debt: Debt,
        narrowed: bool,
    ) -> bool {
        match tagged {
            Tagged::Slots => self.defer_to_interrupt(space, generation, debt, narrowed),
            // Each translation would need two broadcasts: not worth remembering.
            Tagged::Ending(_) => false,
            Tagged::Global(asid) => self.defer_to_broadcast(space, generation, asid, debt, narrowed),
            Tagged::Adopting(asid) | Tagged::Leaving(asid) => {
                let deferred = self.start_broadcast(space, generation, asid, debt, narrowed);
                if deferred {
                    self.due.cpus.unite(space.as_ref().cpus());
                }
                deferred
            }
        }
    }

    /// Notes a debt of a space with a global ASID. False if the debt may not wait.
    fn defer_to_broadcast(
        &mut self,
        space: &P::Space,
        generation: Generation,
        asid: Asid,
        debt: Debt,
        narrowed: bool,
    ) -> bool {
        if !self.engine.is_used_elsewhere(space.as_ref()) {
            return false;
        }
        if let (Some(lazy), false) = (&mut self.lazy, narrowed) {
            let mut met = Met::default();
            met.add(debt.entry, self.engine.narrows(space.as_ref()));
            lazy.met.join(met);
            // If the page may be released in debt, this debt costs nothing now and a share of a common broadcast later.
            if may_owe(Condition::UNKEPT, met) && self.may_wait() {
                self.remember(space, generation, narrowed);
                if let (Some(lazy), Some(known)) = (&mut self.lazy, &mut self.spaces[0]) {
                    known.lazy = true;
                    lazy.page.everywhere = true;
                    lazy.page.recorded += 1;
                }
                return true;
            }
        }
        self.start_broadcast(space, generation, asid, debt, narrowed)
    }

    /// Starts the broadcast that pays the debt. False if even the wait for it may not be deferred.
    fn start_broadcast(
        &mut self,
        space: &P::Space,
        generation: Generation,
        asid: Asid,
        debt: Debt,
        narrowed: bool,
    ) -> bool {
        let deferred = self.may_wait();
        if deferred {
            self.remember(space, generation, narrowed);
            self.started |= self.engine.start_broadcasts(asid, debt.flush());
            self.due.recorded += 1;
        }
        deferred
    }

    /// Whether a debt may be deferred at all.
    fn may_wait(&self) -> bool {
        self.schedule != Schedule::PerPage && self.engine.platform().capabilities().clean_stores_walk
    }

    /// Remembers a debt in `space`, to tell the space later what became of it.
    fn remember(&mut self, space: &P::Space, generation: Generation, narrowed: bool) {
        let owner = space.as_ref();
        let same = |entry: &Option<Recorded<P::Space>>| matches!(entry, Some(known) if known.is(owner));
        if !same(&self.spaces[0]) {
            let found = self.spaces[..self.known].iter().position(same);
            if found.is_none() && self.known == SPACES {
                self.pay();
            }
            self.spaces.swap(0, found.unwrap_or(self.known));
        }
        if self.known == 0 {
            self.since = self.engine.platform().now();
        }
        let recorded = match &mut self.spaces[0] {
            Some(recorded) => {
                if !generation.follows(recorded.newest) {
                    recorded.first = generation;
                }
                recorded.newest = generation;
                recorded
            }
            empty => {
                // From here on, an operation that checks the space under the page-table lock finds an open batch.
                owner.batches.fetch_add(1, Ordering::Relaxed);
                self.known += 1;
                let (first, newest) = (generation, generation);
                empty.insert(Recorded { space: space.clone(), first, newest, narrowed: false, lazy: false })
            }
        };
        if narrowed && !recorded.narrowed {
            recorded.narrowed = true;
            owner.in_flight.begin_downgrade();
        }
    }

    /// Pays for everything that was recorded.
    fn pay(&mut self) {
        self.keep_back();
        if let Some(lazy) = &mut self.lazy {
            lazy.leaving.pour(&mut self.due);
        }
        self.pay_due();
    }

    /// Flushes what must be flushed and enters the rest. The result is the stamp until which the rest is owed.
    fn pay_due(&mut self) -> Stamp {
        self.keep_back();
        if self.known == 0 {
            return Stamp::SETTLED;
        }
        if mem::replace(&mut self.paying, true) {
            return self.pay_again();
        }
        let spaces = &self.spaces[..self.known];
        let concerns = |id| spaces.iter().flatten().any(|known| known.space.as_ref().id() == id);
        let mut paid = Paid::Local;
        let mut owing = self.lazy.as_mut().filter(|lazy| lazy.leaving.recorded > 0);
        if self.due.recorded > 0 {
            let all = self.due.everywhere || self.engine.broadcasts_to(&self.due.cpus, concerns);
            if let Some(Lazy { leaving, .. }) = &mut owing {
                // The flush also pays what these CPUs owe lazily.
                leaving.cpus.subtract(&self.due.cpus);
                if all || leaving.is_nobodys() {
                    leaving.pour(&mut self.due);
                }
            }
            let started = mem::take(&mut self.started);
            paid = self.engine.pay_batch(&mut self.due, concerns, started, all);
            self.engine.count_settled(mem::take(&mut self.due.recorded), self.since, paid);
        }
        let stamp = match owing {
            Some(Lazy { leaving, .. }) if leaving.recorded > 0 => {
                let Part { cpus, everywhere, recorded } = leaving;
                let stamp = self.engine.enter((cpus, *everywhere), concerns, *recorded, self.since);
                cpus.clear();
                (*everywhere, *recorded) = (false, 0);
                stamp
            }
            _ => Stamp::SETTLED,
        };
        self.close(paid, stamp);
        stamp
    }

    /// Pays after a payment in which the platform panicked. The lists of CPUs are lost with it, so it flushes every
    /// space on every CPU.
    #[cold]
    fn pay_again(&mut self) -> Stamp {
        for known in self.spaces[..self.known].iter().flatten() {
            self.engine.flush(known.space.as_ref(), Flush::TRANSLATIONS);
        }
        self.due = Part::new();
        if let Some(lazy) = &mut self.lazy {
            (lazy.page, lazy.leaving) = (Part::new(), Part::new());
        }
        self.started = false;
        self.close(Paid::Interrupts, Stamp::SETTLED);
        Stamp::SETTLED
    }

    /// Tells the spaces what became of their debts.
    fn close(&mut self, paid: Paid, stamp: Stamp) {
        let only_own = self.engine.guarded(Guard::Reached); // R3
        for entry in &mut self.spaces[..self.known] {
            if let Some(recorded) = entry.take() {
                recorded.close(paid, stamp, only_own);
            }
        }
        (self.known, self.writable, self.paying) = (0, false, false);
    }
}

impl<P: Platform, T, R: FnMut(Owed<T>), const N: usize> Drop for Batch<'_, P, T, R, N> {
    fn drop(&mut self) {
        self.flush();
        while let Some(page) = self.next_withheld() {
            (self.release)(Owed::settled(page));
        }
    }
}

/// A page whose translations are being taken away. Dropping it [holds](Unmapping::hold) the page.
#[must_use = "dropping it keeps the page until the batch's next flush"]
#[derive(Debug)]
pub struct Unmapping<'b, 'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize> {
    batch: &'b mut Batch<'e, P, T, R, N>,
    /// Present until it is handed over to the batch.
    page: Option<T>,
}

impl<P: Platform, T, R: FnMut(Owed<T>), const N: usize> Unmapping<'_, '_, P, T, R, N> {
    /// Changes the page, which is not handed over to the batch yet. `change` must leave the same page in its place: the
    /// translations that were cleared are this page's.
    pub fn update<U>(&mut self, change: impl FnOnce(&mut T) -> U) -> Option<U> {
        self.page.as_mut().map(change)
    }

    /// Clears the translation of `size` at `address`. `exchange` gets the guard of the page-table lock, puts an entry
    /// that no CPU can use in the translation's place, in one atomic step, and returns the old entry.
    ///
    /// The lock must not be one under which the same task has [settled](Engine::settle) the space: the operation that
    /// settled it would return while this debt is open (R3).
    ///
    /// The debt is recorded under the lock, so the next operation that takes it finds the debt (see
    /// [`Engine::settle`]). The debt is paid at once in two cases. Deferring would save nothing: no other CPU may hold
    /// the translation. Or it would not be safe: the platform does not promise that stores through clean entries walk
    /// again.
    #[inline]
    pub fn clear<G: TableGuard<P>, E: Translation>(
        &mut self,
        guard: &G,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce(&G) -> E,
    ) -> E {
        self.exchange(guard, address, size, false, exchange)
    }

    /// Narrows the translation of `size` at `address`; the page stays mapped. `exchange` puts an entry with fewer
    /// rights to the same frame in its place, in one atomic step and under the page-table lock of `guard`, and returns
    /// the old entry.
    ///
    /// The debt of a narrowing never outlives the batch. If the exchange also removes the mark of a store, the caller
    /// must carry it over to the page.
    pub fn narrow<G: TableGuard<P>, E: Translation>(
        &mut self,
        guard: &G,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce(&G) -> E,
    ) -> E {
        self.exchange(guard, address, size, true, exchange)
    }

    #[inline]
    fn exchange<G: TableGuard<P>, E: Translation>(
        &mut self,
        guard: &G,
        address: u64,
        size: PageSize,
        narrowed: bool,
        exchange: impl FnOnce(&G) -> E,
    ) -> E {
        let (batch, space) = (&mut *self.batch, guard.space());
        let worst = || batch.owe(space, Debt::new(address, size, Entry::DIRTY), narrowed);
        let (old, entry) = exchanged(|| exchange(guard), worst);
        let narrowed = narrowed && batch.engine.guarded(Guard::Narrowing); // R5
        batch.owe(space, Debt::new(address, size, entry), narrowed);
        old
    }

    /// Keeps the page until the batch's next flush is done.
    pub fn hold(self) {}

    /// Lets the page be released in debt. It is released when the batch flushes, and it owes what was not flushed, if the schedule,
    /// the page's translations and its `condition` allow that. Otherwise it is [held](Unmapping::hold).
    ///
    /// If the kernel cannot let the page go after all, though it came out owing, it must [pay for it](Engine::pay).
    pub fn release_in_debt(mut self, condition: Condition) {
        let batch = &mut *self.batch;
        let Some(lazy) = &mut batch.lazy else { return };
        if may_owe(condition, lazy.met) {
            if let Some(page) = self.page.take() {
                lazy.page.pour(&mut lazy.leaving);
                lazy.met = Met::default();
                batch.leaving -= 1;
                batch.held[batch.leaving].put(page);
            }
        }
    }

    /// Keeps the page in the batch: it is to be written out, with a [permit](Batch::write_permit).
    pub fn withhold(mut self) {
        if let Some(page) = self.page.take() {
            let batch = &mut *self.batch;
            batch.wait(page);
            batch.held[batch.withheld..batch.waiting].rotate_right(1);
            batch.withheld += 1;
        }
    }
}

impl<P: Platform, T, R: FnMut(Owed<T>), const N: usize> Drop for Unmapping<'_, '_, P, T, R, N> {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.batch.wait(page);
        }
    }
}
