//! Deferrable unmaps: what the kernel does on its own account is flushed once for many pages.
//!
//! Reclaim and migration clear translations that no program asked to lose, so nothing is promised to anyone until
//! the page itself is touched. A [`Batch`] records each cleared translation in its space (raising the space's
//! generation, so that CPUs which start to run it flush by themselves) and remembers which CPUs may hold it. One
//! flush then settles everything, and what was held comes out. (Linux: `tlbflush_unmap_batch`.) Where flushes are
//! broadcast, each translation's is started when it is recorded, and the batch's flush is the wait for them all.
//!
//! Three things are stricter than there. Pages stay where they are, cached and held, until the flush: so nobody
//! reads a second copy of a page while another CPU still reads the first. A permit to write a page out takes the
//! page and flushes writable entries first: so no store lands in a page that is being written. And the flush is
//! remembered in the spaces it covered, so the next munmap does not pay for it again.

use crate::cpu_set::CpuSet;
use crate::flush::{Cleared, Debt, Narrowed};
use crate::generation::Generation;
use crate::platform::Platform;
use crate::{Asid, Engine};

/// How many pages a [`Batch`] holds before it settles on its own, unless told otherwise: the number that Linux's
/// reclaim isolates at a time (`SWAP_CLUSTER_MAX`).
pub const BATCH: usize = 32;

/// How many spaces a batch remembers, to tell them that their debt was paid. A space beyond these pays one flush
/// too many, never one too few.
const SPACES: usize = 8;

/// When the debts of deferrable unmaps are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// At once, one flush for each translation: what every kernel did before batching.
    PerPage,
    /// At the end of a batch.
    Batched,
}

/// Translations cleared on the kernel's own account and not flushed yet, with the pages they belonged to.
///
/// `settled` gets each page once no CPU can reach it through what was cleared. Dropping a batch settles it.
///
/// ```
/// use ceasefire::{Batch, Cleared, Engine, Platform, Schedule};
///
/// fn reclaim<P: Platform>(engine: &Engine<P>, space: &P::Space, page: u64, cleared: Cleared, free: impl FnMut(u64)) {
///     let mut batch: Batch<'_, P, u64, _> = Batch::new(engine, Schedule::Batched, free);
///     batch.record(space, cleared); // under the page-table lock that it was cleared under
///     batch.hold(page);
///     batch.settle(); // one flush; only now `free` gets the page
/// }
/// ```
#[must_use = "the pages it holds come out only when it settles"]
#[derive(Debug)]
pub struct Batch<'e, P: Platform, T, R: FnMut(T), const N: usize = BATCH> {
    engine: &'e Engine<P>,
    schedule: Schedule,
    settled: R,
    held: [Option<T>; N],
    count: usize,
    /// The CPUs that may hold what was recorded.
    cpus: CpuSet,
    /// The spaces recorded in; the first `known` are set.
    spaces: [Option<Recorded<P::Space>>; SPACES],
    known: usize,
    /// Where in `spaces` the last record went.
    latest: usize,
    /// Translations recorded since the last flush, and when the first of them was.
    recorded: u64,
    since: u64,
    /// A recorded translation may be cached as dirty: stores through it would not fault.
    writable: bool,
    /// Broadcasts were started and not waited for.
    started: bool,
}

/// A space recorded in.
#[derive(Debug)]
struct Recorded<S> {
    space: S,
    /// The newest generation recorded, and the oldest such that all between are this batch's: a broadcast pays for
    /// itself alone.
    first: Generation,
    newest: Generation,
}

/// Permission to write a page out: no store can land in it unseen from here on.
///
/// Only [`Batch::write_permit`] gives one; it cannot be made by hand:
///
/// ```compile_fail,E0423
/// let permit = ceasefire::WritePermit(7);
/// ```
///
/// And the page is in it, so nothing else can use the page meanwhile:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Platform};
/// fn reuse<P: Platform, T, R: FnMut(T)>(batch: &mut Batch<'_, P, T, R>, page: T) {
///     let permit = batch.write_permit(page);
///     batch.hold(page);
/// }
/// ```
#[derive(Debug)]
pub struct WritePermit<T>(T);

impl<T> WritePermit<T> {
    /// The page that may be written.
    pub fn page(&self) -> &T {
        &self.0
    }

    /// The page back, once it was written.
    pub fn into_page(self) -> T {
        self.0
    }
}

impl<'e, P: Platform, T, R: FnMut(T), const N: usize> Batch<'e, P, T, R, N> {
    /// A constant, so that the array is filled where it lies.
    const NOTHING: Option<T> = None;

    /// An empty batch.
    pub fn new(engine: &'e Engine<P>, schedule: Schedule, settled: R) -> Self {
        Self {
            engine,
            schedule,
            settled,
            held: [Self::NOTHING; N],
            count: 0,
            cpus: CpuSet::new(),
            spaces: core::array::from_fn(|_| None),
            known: 0,
            latest: 0,
            recorded: 0,
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
    pub fn record(&mut self, space: &P::Space, cleared: Cleared) {
        self.owe(space, cleared.debt);
    }

    /// Takes a narrowed translation of `space`, as [`Batch::record`] takes a cleared one.
    pub fn narrow(&mut self, space: &P::Space, narrowed: Narrowed) {
        self.owe(space, narrowed.debt);
    }

    /// Keeps `page` until the next flush is done; settles first where there is no room.
    pub fn hold(&mut self, page: T) {
        if self.count == N {
            self.settle();
        }
        self.held[self.count] = Some(page);
        self.count += 1;
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it holds no page.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Permission to write out `page`, whose translations this batch recorded: flushes first if any of them may
    /// be cached as dirty.
    ///
    /// The page must be held back from others (isolated, locked) until it is written; that is why the permit takes
    /// it by value.
    pub fn write_permit(&mut self, page: T) -> WritePermit<T> {
        #[cfg(feature = "sabotage")]
        if !self.engine.guarded(crate::sabotage::Guard::WritableFlush) {
            return WritePermit(page);
        }
        if self.writable {
            self.flush();
        }
        WritePermit(page)
    }

    /// Pays for what was recorded, and hands out what is held.
    pub fn settle(&mut self) {
        #[cfg(feature = "sabotage")]
        if self.engine.guarded(crate::sabotage::Guard::BatchFlush) {
            self.flush();
        }
        #[cfg(not(feature = "sabotage"))]
        self.flush();
        for held in &mut self.held[..self.count] {
            if let Some(page) = held.take() {
                (self.settled)(page);
            }
        }
        self.count = 0;
    }

    fn owe(&mut self, space: &P::Space, debt: Debt) {
        if !debt.entry.accessible {
            return;
        }
        let owner = space.as_ref();
        // First the generation, then the CPUs: one that joins after the set was read sees the new generation.
        let generation = owner.generation.raise();
        let deferred = match owner.asid() {
            None => self.defer_to_interrupt(space, generation),
            Some(asid) => self.defer_to_broadcast(space, generation, asid, debt),
        };
        if !deferred {
            self.engine.flush_to(generation, owner, debt.flush());
            return;
        }
        owner.deferred.raise_to(generation);
        self.writable |= debt.entry.dirty;
        self.recorded += 1;
        self.engine.flush_devices(owner, debt.flush());
    }

    /// Notes which CPUs to interrupt for the debt, if it may wait and it is worth it.
    fn defer_to_interrupt(&mut self, space: &P::Space, generation: Generation) -> bool {
        let owner = space.as_ref();
        match self.spaces.get_mut(self.latest) {
            // The batch flushes for this space anyway: what is added may wait, whoever runs it by now.
            Some(Some(recorded)) if recorded.space.as_ref().id() == owner.id() => {
                recorded.newest = generation;
                self.cpus.unite(owner.cpus());
                true
            }
            _ => {
                let here = self.engine.platform().this_cpu();
                let deferred = self.may_wait() && self.cpus.unite_beside(here, owner.cpus());
                if deferred {
                    self.remember(space, generation);
                }
                deferred
            }
        }
    }

    /// Starts the broadcast that pays the debt, if the wait for it may wait.
    fn defer_to_broadcast(
        &mut self,
        space: &P::Space,
        generation: Generation,
        asid: Asid,
        debt: Debt,
    ) -> bool {
        let deferred = self.may_wait();
        if deferred {
            self.remember(space, generation);
            self.engine.platform().broadcast(asid, debt.extent());
            self.started = true;
        }
        deferred
    }

    /// Whether a debt may be put off at all.
    fn may_wait(&self) -> bool {
        self.schedule == Schedule::Batched && self.engine.platform().capabilities().clean_stores_walk
    }

    /// Takes note of a debt in `space`, to tell the space when it was paid.
    fn remember(&mut self, space: &P::Space, generation: Generation) {
        if self.recorded == 0 {
            self.since = self.engine.platform().now();
        }
        let id = space.as_ref().id();
        let same = |entry: &Option<Recorded<P::Space>>| matches!(entry, Some(known) if known.space.as_ref().id() == id);
        if !self.spaces.get(self.latest).is_some_and(same) {
            self.latest = self.spaces[..self.known].iter().position(same).unwrap_or(self.known);
        }
        // A space beyond those remembered is flushed like the others; only its debt stays on the books.
        match self.spaces.get_mut(self.latest) {
            Some(Some(recorded)) => {
                if !generation.follows(recorded.newest) {
                    recorded.first = generation;
                }
                recorded.newest = generation;
            }
            Some(empty) => {
                *empty = Some(Recorded { space: space.clone(), first: generation, newest: generation });
                self.known += 1;
            }
            None => {}
        }
    }

    fn flush(&mut self) {
        if self.recorded == 0 {
            return;
        }
        let platform = self.engine.platform();
        let broadcast = core::mem::take(&mut self.started);
        let sent = if broadcast {
            self.engine.finish_broadcasts(self.recorded);
            false
        } else {
            self.engine.flush_loaded(&mut self.cpus)
        };
        platform.pinned(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            tally.debts_created.add(self.recorded);
            let settled = match (broadcast, sent) {
                (true, _) => &tally.debts_by_broadcast,
                (false, true) => &tally.debts_by_interrupt,
                (false, false) => &tally.debts_by_local,
            };
            settled.add(self.recorded);
            tally.debt_age_max_ns.at_least(platform.now().saturating_sub(self.since));
        });
        for entry in &mut self.spaces[..self.known] {
            let Some(Recorded { space, first, newest }) = entry.take() else { continue };
            let reached = &space.as_ref().reached;
            if broadcast {
                // Another batch's broadcasts may still be under way: this one answers for its own.
                reached.extend(first, newest);
            } else {
                reached.raise_to(newest);
            }
        }
        (self.known, self.latest, self.recorded, self.writable) = (0, 0, 0, false);
    }
}

impl<P: Platform, T, R: FnMut(T), const N: usize> Drop for Batch<'_, P, T, R, N> {
    fn drop(&mut self) {
        self.settle();
    }
}
