//! Deferrable unmaps: what the kernel does on its own account is flushed once for many pages.
//!
//! Reclaim and migration clear translations that no program asked to lose, so nothing is promised to anyone until
//! the page itself is touched. A [`Batch`] records each cleared translation in its space (raising the space's
//! generation, so that CPUs which start to run it flush by themselves) and remembers which CPUs may hold it. One
//! flush then settles everything, and what was held comes out. (Linux: `tlbflush_unmap_batch`.)
//!
//! Three things are stricter than there. Pages stay where they are, cached and held, until the flush: so nobody
//! reads a second copy of a page while another CPU still reads the first. A permit to write a page out takes the
//! page and flushes writable entries first: so no store lands in a page that is being written. And the flush is
//! remembered in the spaces it covered, so the next munmap does not pay for it again.

use crate::cpu_set::CpuSet;
use crate::flush::{Cleared, Extent, Flush};
use crate::generation::Generation;
use crate::platform::Platform;
use crate::Engine;

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
    /// The spaces recorded in, with the newest generation recorded in each; the first `known` are set.
    spaces: [Option<(P::Space, Generation)>; SPACES],
    known: usize,
    /// Where in `spaces` the last record went.
    latest: usize,
    /// Translations recorded since the last flush, and when the first of them was.
    recorded: u64,
    since: u64,
    /// A recorded translation may be cached as dirty: stores through it would not fault.
    writable: bool,
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
    /// An empty batch.
    pub fn new(engine: &'e Engine<P>, schedule: Schedule, settled: R) -> Self {
        Self {
            engine,
            schedule,
            settled,
            held: core::array::from_fn(|_| None),
            count: 0,
            cpus: CpuSet::new(),
            spaces: core::array::from_fn(|_| None),
            known: 0,
            latest: 0,
            recorded: 0,
            since: 0,
            writable: false,
        }
    }

    /// Takes a cleared translation of `space`.
    ///
    /// Call it under the page-table lock under which the translation was cleared: whoever takes that lock next
    /// must find the debt recorded (see [`Engine::settle`]). It is paid at once where deferring would save nothing
    /// (no other CPU may hold it) or is not safe (the platform does not promise that stores through clean entries
    /// walk again).
    pub fn record(&mut self, space: &P::Space, cleared: Cleared) {
        if !cleared.entry.accessible {
            return;
        }
        let owner = space.as_ref();
        // First the generation, then the CPUs: one that joins after the set was read sees the new generation.
        let generation = owner.generation.raise();
        let deferred = match self.spaces.get_mut(self.latest) {
            // The batch flushes for this space anyway: what is added may wait, whoever runs it by now.
            Some(Some((known, newest))) if known.as_ref().id() == owner.id() => {
                *newest = generation;
                self.cpus.unite(owner.cpus());
                true
            }
            _ => self.defer(space, generation),
        };
        if !deferred {
            let extent = Extent::Pages { start: cleared.address, count: 1, size: cleared.size };
            self.engine.flush_to(generation, owner, Flush { extent, tables: false });
            return;
        }
        owner.deferred.raise_to(generation);
        self.writable |= cleared.entry.dirty;
        self.recorded += 1;
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

    /// Takes note of a clearing in a space other than the last, if its debt may wait and it is worth it.
    fn defer(&mut self, space: &P::Space, generation: Generation) -> bool {
        let platform = self.engine.platform();
        if self.schedule != Schedule::Batched
            || !platform.capabilities().clean_stores_walk
            || !self.cpus.unite_beside(platform.this_cpu(), space.as_ref().cpus())
        {
            return false;
        }
        if self.recorded == 0 {
            self.since = platform.now();
        }
        let id = space.as_ref().id();
        let same = |entry: &Option<(P::Space, Generation)>| matches!(entry, Some((known, _)) if known.as_ref().id() == id);
        let index = self.spaces[..self.known].iter().position(same).unwrap_or(self.known);
        // A space beyond those remembered is flushed like the others; only its debt stays on the books.
        if let Some(entry) = self.spaces.get_mut(index) {
            *entry = Some((space.clone(), generation));
            self.latest = index;
            self.known = self.known.max(index + 1);
        }
        true
    }

    fn flush(&mut self) {
        if self.recorded == 0 {
            return;
        }
        let platform = self.engine.platform();
        let sent = self.engine.flush_loaded(&mut self.cpus);
        platform.pinned(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            tally.debts_created.add(self.recorded);
            let settled = if sent { &tally.debts_by_interrupt } else { &tally.debts_by_local };
            settled.add(self.recorded);
            tally.debt_age_max_ns.at_least(platform.now().saturating_sub(self.since));
        });
        for entry in &mut self.spaces[..self.known] {
            if let Some((space, generation)) = entry.take() {
                space.as_ref().reached.raise_to(generation);
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
