//! Deferrable unmaps: what the kernel does on its own account is flushed once for many pages, or not at all.
//!
//! Reclaim and migration clear translations that no program asked to lose, so nothing is promised to anyone until
//! the page itself is touched. A [`Batch`] records each cleared translation in its space (raising the space's
//! generation, so that CPUs which start to run it flush by themselves) and remembers which CPUs may hold it. One
//! flush then settles everything, and what was held comes out. (Linux: `tlbflush_unmap_batch`.) Under
//! [`Schedule::Lazy`] a page of which CPUs can do nothing but read what was there comes out without that flush, as an
//! [`Owed`]. In a space with a global ASID each translation's broadcast is started when it is recorded, and the batch's
//! flush is the wait for them all; and where the hardware broadcasts, what many CPUs may hold under slots of their own is
//! paid by one broadcast of everything.
//!
//! Three things are stricter than in Linux. Pages stay where they are, cached and held, until the flush: so nobody
//! reads a second copy of a page while another CPU still reads the first. A permit to write a page out takes the
//! page and flushes writable entries first: so no store lands in a page that is being written. And the flush is
//! remembered in the spaces it covered, so the next munmap does not pay for it again.

use super::account::{Paid, Part, Recorded};
use super::permit::WritePermit;
use super::settled::TableGuard;
use crate::entry::{Debt, Translation};
use crate::flush::PageSize;
use crate::lazy::{may_owe, Condition, Met, Owed};
use crate::platform::Platform;
use crate::primitive::Ordering;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Asid, Generation, Stamp, Tagged};
use crate::Engine;

/// How many pages a [`Batch`] holds before it settles on its own, unless told otherwise: the number that Linux's
/// reclaim isolates at a time (`SWAP_CLUSTER_MAX`).
pub const BATCH: usize = 32;

/// How many spaces a batch remembers, to tell them what became of their debt. Before it records in one more it pays.
const SPACES: usize = 8;

/// When the debts of deferrable unmaps are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// At once, one flush for each translation: what every kernel did before batching.
    PerPage,
    /// At the end of a batch.
    Batched,
    /// Before they could matter, within the engine's [`Bounds`](crate::Bounds); at the end of a batch where that is not
    /// allowed.
    Lazy,
}

/// Translations cleared on the kernel's own account and not flushed yet, with the pages they belonged to.
///
/// A page goes in by value before its translations are taken away ([`Batch::take`]). `release` gets each page: once no CPU
/// can reach it through what was cleared, or, if it was [let go of](Unmapping::let_go), owing. Dropping a batch flushes it.
///
/// ```
/// use ceasefire::{Batch, Condition, Engine, Entry, Owed, PageSize, Platform, Schedule, TableGuard};
///
/// fn reclaim<P: Platform, G: TableGuard<P>>(
///     engine: &Engine<P>, page: u64, lock: &G, clear: impl FnOnce() -> Entry, free: impl FnMut(Owed<u64>),
/// ) {
///     let mut batch: Batch<'_, P, u64, _> = Batch::new(engine, Schedule::Lazy, free);
///     let mut unmapping = batch.take(page);
///     unmapping.clear(lock, 0x1000, PageSize::Small, clear); // under the page-table lock
///     unmapping.let_go(Condition::default());
///     batch.flush(); // at most one flush; only now `free` gets the page
/// }
/// ```
///
/// The debt is recorded where the translation is exchanged, so there is no value for it that could be lost, and the space
/// is the one of the lock. A page belongs to one batch while its translations are taken away:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Condition, Owed, Platform};
/// fn elsewhere<P: Platform, T, R: FnMut(Owed<T>)>(
///     batch: &mut Batch<'_, P, T, R>, other: &mut Batch<'_, P, T, R>, page: T,
/// ) {
///     batch.take(page).hold();
///     other.take(page).let_go(Condition::default());
/// }
/// ```
#[must_use = "the pages it holds come out only when it flushes"]
#[derive(Debug)]
pub struct Batch<'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize = BATCH> {
    engine: &'e Engine<P>,
    schedule: Schedule,
    release: R,
    /// Below `withheld` the pages that wait for a permit, below `waiting` those that wait for the flush, from `leaving` on
    /// those that may come out owing.
    held: [Option<T>; N],
    withheld: usize,
    waiting: usize,
    leaving: usize,
    /// What has to be flushed.
    due: Part,
    /// What may be owed longer, if anything may.
    lazy: Option<Lazy>,
    /// The spaces recorded in; the first `known` are set. The one that the last record went to comes first, since
    /// the next mostly goes there too.
    spaces: [Option<Recorded<P::Space>>; SPACES],
    known: usize,
    /// When the first translation since the last flush was recorded.
    since: u64,
    /// A recorded translation may be cached as dirty: stores through it would not fault.
    writable: bool,
    /// Broadcasts were started and not waited for.
    started: bool,
}

/// What a lazy batch recorded beside what has to be flushed.
#[derive(Debug)]
struct Lazy {
    /// Of the page whose translations are being cleared; nobody knows yet what becomes of it.
    page: Part,
    met: Met,
    /// Of the pages that may come out owing.
    leaving: Part,
}

impl<'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize> Batch<'e, P, T, R, N> {
    /// A constant, so that the array is filled where it lies.
    const NOTHING: Option<T> = None;
    const ROOM: () = assert!(N > 0, "a batch without room for a page takes none");

    /// An empty batch. `N` is how many pages it holds, at least 1.
    pub fn new(engine: &'e Engine<P>, schedule: Schedule, release: R) -> Self {
        let () = Self::ROOM;
        let lazily = schedule == Schedule::Lazy && !engine.bounds().is_strict();
        Self {
            engine,
            schedule,
            release,
            held: [Self::NOTHING; N],
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
        }
    }

    /// Takes a page, to take its translations away. Flushes first where there is no room for it: interrupts must be on.
    ///
    /// Where all the room is taken by pages that wait for a permit to be written out, the flush makes none; the oldest of
    /// them comes out like a held one then, and is not written out.
    pub fn take(&mut self, page: T) -> Unmapping<'_, 'e, P, T, R, N> {
        if self.waiting == self.leaving {
            self.make_room();
        }
        Unmapping { batch: self, page: Some(page) }
    }

    /// Holds a page whose translations are all gone until the next flush, as [`Unmapping::hold`] does.
    pub fn hold(&mut self, page: T) {
        self.take(page).hold();
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.waiting + (N - self.leaving)
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Permission to write out the oldest page that was [withheld](Unmapping::withhold); `None` if there is none left.
    ///
    /// Flushes first if stores through any recorded translation may go unseen until then: interrupts must be on. The page
    /// must be kept from others (isolated, locked) until it is written; that is why the permit has it by value.
    pub fn write_permit(&mut self) -> Option<WritePermit<T>> {
        if self.withheld == 0 {
            return None;
        }
        if self.may_be_stored_to() && self.engine.guarded(Guard::WritableFlush) {
            // The flush is made anyway, so it covers what could have been owed longer.
            self.pay();
        }
        self.next_withheld().map(WritePermit)
    }

    /// Whether stores through a recorded translation may go unseen until the flush: it may be cached as dirty, or another
    /// downgrade is in flight in its space, so that CPUs may hold rights which the page table did not show. A downgrade
    /// that was in flight when the translation was recorded, and is not any more, was flushed.
    fn may_be_stored_to(&self) -> bool {
        let narrows = |known: &Recorded<P::Space>| {
            known.space.as_ref().in_flight.any_but(known.narrowed)
                && self.engine.narrows(known.space.as_ref())
        };
        self.writable || self.spaces[..self.known].iter().flatten().any(narrows)
    }

    /// The oldest withheld page. The pages behind it move up.
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

    /// Pays for what has to be paid, enters what is owed longer, and releases what it holds but for the pages withheld.
    /// Interrupts must be on.
    pub fn flush(&mut self) {
        let stamp = if self.engine.guarded(Guard::BatchFlush) { self.pay_due() } else { Stamp::SETTLED };
        for held in &mut self.held[self.withheld..self.waiting] {
            if let Some(page) = held.take() {
                (self.release)(Owed::settled(page));
            }
        }
        for held in self.held[self.leaving..].iter_mut().rev() {
            if let Some(page) = held.take() {
                (self.release)(Owed::new(page, stamp));
            }
        }
        (self.waiting, self.leaving) = (self.withheld, N);
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

    /// What was recorded since the last page was handed over has to be flushed.
    fn keep_back(&mut self) {
        if let Some(lazy) = &mut self.lazy {
            lazy.met = Met::default();
            lazy.page.pour(&mut self.due);
        }
    }

    /// Keeps a page until the next flush.
    fn wait(&mut self, page: T) {
        self.keep_back();
        self.held[self.waiting] = Some(page);
        self.waiting += 1;
    }

    /// In each of its callers: called, it would cost half as much again.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn owe(&mut self, space: &P::Space, debt: Debt, narrowed: bool) {
        let owner = space.as_ref();
        if !self.engine.may_be_held(owner, debt.entry) {
            return;
        }
        // First the generation, then the CPUs: one that joins after the set was read sees the new generation.
        let generation = owner.generation.raise();
        let tag = owner.tag.read();
        let deferred = if tag.is_slots() {
            self.defer_to_interrupt(space, generation, debt, narrowed)
        } else {
            self.defer_to_hardware(space, generation, tag.tagged(), debt, narrowed)
        };
        if !deferred {
            self.engine.flush_to(generation, owner, debt.flush());
            return;
        }
        owner.deferred.raise_to(generation);
        self.writable |= debt.entry.dirty;
        self.engine.flush_devices(owner, debt.flush());
    }

    /// Notes which CPUs to interrupt for the debt, if it may wait and it is worth it.
    fn defer_to_interrupt(
        &mut self,
        space: &P::Space,
        generation: Generation,
        debt: Debt,
        narrowed: bool,
    ) -> bool {
        let owner = space.as_ref();
        match &mut self.spaces[0] {
            // The batch flushes for this space anyway: what is added may wait, whoever runs it by now.
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

    /// Takes note of a space that the last record did not go to, if its debt may wait and it is worth it.
    #[cold]
    fn begins(&mut self, space: &P::Space, generation: Generation, narrowed: bool) -> bool {
        let here = self.engine.platform().this_cpu();
        let waits = self.may_wait() && space.as_ref().cpus().any_but(here);
        if waits {
            self.remember(space, generation, narrowed);
        }
        waits
    }

    /// Notes which CPUs may hold a translation of the page that the next call hands over.
    // A function of its own, so that what every caller has in it stays short.
    #[inline(never)]
    fn defer_lazily(&mut self, owner: &AddressSpace, debt: Debt) {
        let (Some(lazy), Some(known)) = (&mut self.lazy, &mut self.spaces[0]) else { return };
        known.lazy = true;
        lazy.page.cpus.unite(owner.cpus());
        lazy.page.recorded += 1;
        lazy.met.add(debt.entry, self.engine.narrows(owner));
    }

    /// Notes a debt of a space that has a global ASID or is about to, or about to give it back, if it may wait.
    // As above.
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
            // Two broadcasts for each translation: not worth remembering.
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

    /// Notes a debt of a space with a global ASID, if it may wait.
    fn defer_to_broadcast(
        &mut self,
        space: &P::Space,
        generation: Generation,
        asid: Asid,
        debt: Debt,
        narrowed: bool,
    ) -> bool {
        if let (Some(lazy), false) = (&mut self.lazy, narrowed) {
            let mut met = Met::default();
            met.add(debt.entry, self.engine.narrows(space.as_ref()));
            lazy.met.join(met);
            // If the page may be owed for with it, it costs nothing now, and everybody's share of a broadcast later.
            if may_owe(Condition::default(), met) && self.may_wait() {
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

    /// Starts the broadcast that pays the debt, if the wait for it may wait.
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

    /// Whether a debt may be put off at all.
    fn may_wait(&self) -> bool {
        self.schedule != Schedule::PerPage && self.engine.platform().capabilities().clean_stores_walk
    }

    /// Takes note of a debt in `space`, to tell the space what became of it.
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
                // A space that others look at says from here on that it owes, if it does.
                owner.batches.fetch_add(1, Ordering::SeqCst);
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

    /// Flushes what has to be flushed and enters the rest; until when that is owed.
    fn pay_due(&mut self) -> Stamp {
        self.keep_back();
        if self.known == 0 {
            return Stamp::SETTLED;
        }
        let mut paid = Paid::Local;
        let mut owing = self.lazy.as_mut().filter(|lazy| lazy.leaving.recorded > 0);
        if self.due.recorded > 0 {
            let all = self.due.everywhere || self.engine.broadcasts_to(&self.due.cpus);
            if let Some(Lazy { leaving, .. }) = &mut owing {
                // What they owe lazily is flushed with the rest.
                leaving.cpus.subtract(&self.due.cpus);
                if all || leaving.is_nobodys() {
                    leaving.pour(&mut self.due);
                }
            }
            let started = core::mem::take(&mut self.started);
            paid = self.engine.pay_batch(&mut self.due, started, all);
            self.engine.count_settled(core::mem::take(&mut self.due.recorded), self.since, paid);
        }
        let stamp = match owing {
            Some(Lazy { leaving, .. }) if leaving.recorded > 0 => {
                let Part { cpus, everywhere, recorded } = leaving;
                let stamp = self.engine.enter(cpus, *everywhere, *recorded, self.since);
                cpus.clear();
                (*everywhere, *recorded) = (false, 0);
                stamp
            }
            _ => Stamp::SETTLED,
        };
        for entry in &mut self.spaces[..self.known] {
            if let Some(recorded) = entry.take() {
                recorded.close(paid, stamp);
            }
        }
        (self.known, self.writable) = (0, false);
        stamp
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
    /// Changes the page, which is not handed over to the batch yet.
    pub fn update<U>(&mut self, change: impl FnOnce(&mut T) -> U) -> Option<U> {
        self.page.as_mut().map(change)
    }

    /// Clears a translation of the page: `exchange` puts an entry that no CPU can use in the place of the one of `size` at
    /// `address`, in one atomic step and under the page-table lock of `guard`, and yields the old one.
    ///
    /// The debt is recorded under that lock, so the next that takes it finds it (see [`Engine::settle`]). It is paid at once
    /// where deferring would save nothing (no other CPU may hold the translation) or is not safe (the platform does not
    /// promise that stores through clean entries walk again).
    #[inline]
    pub fn clear<G: TableGuard<P>, E: Translation>(
        &mut self,
        guard: &G,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce() -> E,
    ) -> E {
        let old = exchange();
        self.batch.owe(guard.space(), Debt::new(address, size, old.entry()), false);
        old
    }

    /// Narrows a translation of the page, which stays: `exchange` puts an entry with fewer rights to the same frame in the
    /// place of the one of `size` at `address`, in one atomic step and under the page-table lock of `guard`, and yields the
    /// old one.
    ///
    /// It is never owed longer than the batch lasts. A caller that takes the mark of a store away with the rights carries
    /// it over to the page.
    pub fn narrow<G: TableGuard<P>, E: Translation>(
        &mut self,
        guard: &G,
        address: u64,
        size: PageSize,
        exchange: impl FnOnce() -> E,
    ) -> E {
        let old = exchange();
        self.batch.owe(guard.space(), Debt::new(address, size, old.entry()), true);
        old
    }

    /// Keeps the page until the batch's next flush is done.
    pub fn hold(self) {}

    /// Lets go of the page: it comes out when the batch flushes, owing what was not flushed, if the schedule, its translations
    /// and its `condition` allow that; else it is [held](Unmapping::hold).
    ///
    /// What cannot be let go of after all, though it came out owing, has to be [paid for](Engine::pay).
    pub fn let_go(mut self, condition: Condition) {
        let batch = &mut *self.batch;
        let Some(lazy) = &mut batch.lazy else { return };
        if may_owe(condition, lazy.met) {
            if let Some(page) = self.page.take() {
                lazy.page.pour(&mut lazy.leaving);
                lazy.met = Met::default();
                batch.leaving -= 1;
                batch.held[batch.leaving] = Some(page);
            }
        }
    }

    /// Keeps the page from being let go of: it is to be written out, with a [permit](Batch::write_permit).
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
