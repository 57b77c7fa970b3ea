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

use super::permit::{Withheld, WritePermit};
use crate::cpu_set::CpuSet;
use crate::entry::{Cleared, Debt, Narrowed};
use crate::lazy::{may_owe, Condition, Met, Owed};
use crate::platform::{Platform, WIDE};
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
/// `settled` gets each page: once no CPU can reach it through what was cleared, or, if it was
/// [let go of](Batch::let_go), owing. Dropping a batch settles it.
///
/// ```
/// use ceasefire::{Batch, Cleared, Condition, Engine, Owed, Platform, Schedule};
///
/// fn reclaim<P: Platform>(
///     engine: &Engine<P>, space: &P::Space, page: u64, cleared: Cleared, free: impl FnMut(Owed<u64>),
/// ) {
///     let mut batch: Batch<'_, P, u64, _> = Batch::new(engine, Schedule::Lazy, free);
///     batch.record(space, cleared); // under the page-table lock that it was cleared under
///     batch.let_go(page, Condition::default());
///     batch.settle(); // at most one flush; only now `free` gets the page
/// }
/// ```
#[must_use = "the pages it holds come out only when it settles"]
#[derive(Debug)]
pub struct Batch<'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize = BATCH> {
    engine: &'e Engine<P>,
    schedule: Schedule,
    settled: R,
    /// Below `waiting` those that wait for the flush, from `leaving` on those that may come out owing.
    held: [Option<T>; N],
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

/// Translations, and who may hold them.
#[derive(Debug)]
struct Part {
    cpus: CpuSet,
    /// Any CPU, under a global ASID, and no broadcast was started for it.
    everywhere: bool,
    recorded: u64,
}

impl Part {
    const fn new() -> Self {
        Self { cpus: CpuSet::new(), everywhere: false, recorded: 0 }
    }

    /// Empties it into another.
    fn pour(&mut self, other: &mut Self) {
        if self.recorded > 0 {
            self.cpus.pour(&mut other.cpus);
            other.everywhere |= core::mem::take(&mut self.everywhere);
            other.recorded += core::mem::take(&mut self.recorded);
        }
    }

    fn is_nobodys(&self) -> bool {
        self.cpus.is_empty() && !self.everywhere
    }
}

/// What a batch paid with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paid {
    /// Broadcasts of single pages, and interrupts where CPUs were between two tags.
    Pages,
    /// One broadcast of everything.
    Everywhere,
    Interrupts,
    /// Nobody else had to be reached.
    Local,
}

/// A space recorded in.
#[derive(Debug)]
struct Recorded<S> {
    space: S,
    /// The newest generation recorded, and the oldest such that all between are this batch's: a broadcast pays for
    /// itself alone.
    first: Generation,
    newest: Generation,
    /// A translation of it was narrowed: until the flush CPUs may store where the page table allows none.
    narrowed: bool,
    /// A translation of it may be owed longer than the batch lasts.
    lazy: bool,
}

impl<'e, P: Platform, T, R: FnMut(Owed<T>), const N: usize> Batch<'e, P, T, R, N> {
    /// A constant, so that the array is filled where it lies.
    const NOTHING: Option<T> = None;

    /// An empty batch.
    pub fn new(engine: &'e Engine<P>, schedule: Schedule, settled: R) -> Self {
        let lazily = schedule == Schedule::Lazy && !engine.bounds().is_strict();
        Self {
            engine,
            schedule,
            settled,
            held: [Self::NOTHING; N],
            waiting: 0,
            leaving: N,
            due: Part::new(),
            lazy: lazily.then(|| Lazy { page: Part::new(), met: Met::default(), leaving: Part::new() }),
            spaces: core::array::from_fn(|_| None),
            known: 0,
            since: 0,
            writable: false,
            started: false,
        }
    }

    /// Takes a cleared translation of `space`.
    ///
    /// Call it under the page-table lock under which the translation was cleared: whoever takes that lock next
    /// must find the debt recorded (see [`Engine::settle`]). It is paid at once where deferring would save nothing
    /// (no other CPU may hold it) or is not safe (the platform does not promise that stores through clean entries
    /// walk again).
    #[inline]
    pub fn record(&mut self, space: &P::Space, cleared: Cleared) {
        self.owe(space, cleared.debt, false);
    }

    /// Takes a narrowed translation of `space`, as [`Batch::record`] takes a cleared one. It is never owed longer than the
    /// batch lasts.
    pub fn narrow(&mut self, space: &P::Space, narrowed: Narrowed) {
        self.owe(space, narrowed.debt, true);
    }

    /// Keeps `page` until the next flush is done; settles first where there is no room.
    pub fn hold(&mut self, page: T) {
        self.keep_back();
        if self.waiting == self.leaving {
            self.settle();
        }
        self.held[self.waiting] = Some(page);
        self.waiting += 1;
    }

    /// Lets go of `page`, whose translations were recorded since the last page was handed over: it comes out when the
    /// batch settles, owing what was not flushed, if the schedule, its translations and its `condition` allow that; else
    /// it is [held](Batch::hold).
    ///
    /// What cannot be let go of after all, though it came out owing, has to be [paid for](Engine::pay).
    pub fn let_go(&mut self, page: T, condition: Condition) {
        match &mut self.lazy {
            // Where there is no room its translations are settled with the others', and it waits for that.
            Some(lazy) if self.waiting < self.leaving && may_owe(condition, lazy.met) => {
                lazy.page.pour(&mut lazy.leaving);
                lazy.met = Met::default();
                self.leaving -= 1;
                self.held[self.leaving] = Some(page);
            }
            _ => self.hold(page),
        }
    }

    /// Keeps `page`, whose translations were recorded since the last page was handed over, from being let go of: it is to
    /// be written out.
    pub fn withhold(&mut self, page: T) -> Withheld<T> {
        self.keep_back();
        Withheld(page)
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.waiting + (N - self.leaving)
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Permission to write out a page, whose translations this batch recorded: flushes first if any of them may
    /// be cached as dirty.
    ///
    /// The page must be held back from others (isolated, locked) until it is written; that is why the permit takes
    /// it by value.
    pub fn write_permit(&mut self, page: Withheld<T>) -> WritePermit<T> {
        if self.writable && self.engine.guarded(Guard::WritableFlush) {
            // The flush is made anyway, so it covers what could have been owed longer.
            self.pay();
        }
        WritePermit(page.0)
    }

    /// Pays for what has to be paid, enters what is owed longer, and hands out what is held.
    pub fn settle(&mut self) {
        let stamp = if self.engine.guarded(Guard::BatchFlush) { self.flush() } else { Stamp::SETTLED };
        for held in &mut self.held[..self.waiting] {
            if let Some(page) = held.take() {
                (self.settled)(Owed::settled(page));
            }
        }
        for held in self.held[self.leaving..].iter_mut().rev() {
            if let Some(page) = held.take() {
                (self.settled)(Owed::new(page, stamp));
            }
        }
        (self.waiting, self.leaving) = (0, N);
    }

    /// What was recorded since the last page was handed over has to be flushed.
    fn keep_back(&mut self) {
        if let Some(lazy) = &mut self.lazy {
            lazy.met = Met::default();
            lazy.page.pour(&mut self.due);
        }
    }

    /// In each of its callers: called, it would cost half as much again.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn owe(&mut self, space: &P::Space, debt: Debt, narrowed: bool) {
        if !debt.entry.accessible {
            return;
        }
        let owner = space.as_ref();
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
            owner.downgrades.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Pays for everything that was recorded.
    fn pay(&mut self) {
        self.keep_back();
        if let Some(lazy) = &mut self.lazy {
            lazy.leaving.pour(&mut self.due);
        }
        self.flush();
    }

    /// Flushes what has to be flushed and enters the rest; until when that is owed.
    fn flush(&mut self) -> Stamp {
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

impl<S: AsRef<AddressSpace>> Recorded<S> {
    fn is(&self, space: &AddressSpace) -> bool {
        self.space.as_ref().id() == space.id()
    }

    /// The batch has flushed, and entered under `stamp` what it let go of owing.
    fn close(self, paid: Paid, stamp: Stamp) {
        let space = self.space.as_ref();
        if self.lazy && stamp != Stamp::SETTLED {
            space.owe_until(stamp, self.newest);
        } else if paid == Paid::Pages {
            // Another batch's broadcasts may still be under way: this one answers for its own.
            space.reached.extend(self.first, self.newest);
        } else {
            space.reached.raise_to(self.newest);
        }
        if self.narrowed {
            space.downgrades.fetch_sub(1, Ordering::SeqCst);
        }
        // Last: whoever finds no open batch finds what this one left.
        space.batches.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<P: Platform> Engine<P> {
    /// Whether rights were taken away in a space that some CPU may not have heard of.
    fn narrows(&self, space: &AddressSpace) -> bool {
        self.guarded(Guard::Downgrade) && space.downgrade_in_flight()
    }

    /// Whether what so many CPUs may hold is worth one broadcast of everything, where the hardware has it: from as many on
    /// as make a space worth a global ASID. Below, interrupts leave all other CPUs' entries alone.
    fn broadcasts_to(&self, cpus: &CpuSet) -> bool {
        self.platform().capabilities().broadcast.is_some() && cpus.len() >= WIDE as usize
    }

    /// Pays what is due, by broadcasts that were `started`, to `all` CPUs at once, or by interrupts.
    fn pay_batch(&self, due: &mut Part, started: bool, all: bool) -> Paid {
        if all {
            due.cpus.clear();
            due.everywhere = false;
            // Waits for what was started too.
            self.platform().pinned(|| self.flush_everywhere());
            return Paid::Everywhere;
        }
        if started {
            self.finish_broadcasts(due.recorded);
        }
        let sent = !due.cpus.is_empty() && self.flush_loaded(&mut due.cpus);
        match (started, sent) {
            (true, _) => Paid::Pages,
            (false, true) => Paid::Interrupts,
            (false, false) => Paid::Local,
        }
    }

    /// Counts debts that a batch put off and then paid itself.
    fn count_settled(&self, debts: u64, since: u64, paid: Paid) {
        let platform = self.platform();
        platform.pinned(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            tally.debts_created.add_at_once(debts);
            let settled = match paid {
                Paid::Pages | Paid::Everywhere => &tally.debts_by_broadcast,
                Paid::Interrupts => &tally.debts_by_interrupt,
                Paid::Local => &tally.debts_by_local,
            };
            settled.add_at_once(debts);
            tally.debt_age_max_ns.at_least(platform.now().saturating_sub(since));
        });
    }
}

impl<P: Platform, T, R: FnMut(Owed<T>), const N: usize> Drop for Batch<'_, P, T, R, N> {
    fn drop(&mut self) {
        self.settle();
    }
}
