//! Strict unmaps: what a program asked for is done everywhere before the call returns.
//!
//! munmap, madvise, mprotect, exit. The order is always: unhook, flush, free. A [`Gather`] collects cleared
//! translations and what they held, flushes once, and only then lets go of the frames and page-table pages. While
//! it is open the space counts it, so that a second thread which finds translations already gone does not return
//! before they are flushed (Linux: `mm_tlb_flush_nested`).
//!
//! Whatever keeps others from putting new translations into the range (the space's lock held exclusively, or the
//! page-table lock) must be held until the flush is done: see [`Gather::flush`].

use super::settled::Settled;
use crate::entry::{Cleared, ClearedTable, Debt, Narrowed};
use crate::flush::{Flush, PageSize};
use crate::platform::Platform;
use crate::primitive::Ordering;
use crate::sabotage::Guard;
use crate::space::AddressSpace;
use crate::Engine;

/// How many things a [`Gather`] holds before it flushes on its own, unless told otherwise.
pub const GATHER: usize = 64;

/// Translations cleared or narrowed on a program's behalf and not flushed yet, with what they held.
///
/// `release` gets each thing held, once no CPU can reach it. Dropping a gather finishes it.
///
/// What it holds cannot be used before, and a finished gather takes nothing more:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Cleared, Gather, Platform, Settled};
/// # fn early<P: Platform, R: FnMut(Box<u8>), L>(
/// #     gather: &mut Gather<'_, P, Box<u8>, R>, proof: &Settled<'_, L>, cleared: Cleared, page: Box<u8>,
/// # ) {
///     gather.unmap(proof, cleared, Some(page));
///     drop(page);
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # use ceasefire::{Cleared, Gather, Platform, Settled};
/// # fn late<P: Platform, R: FnMut(u32), L>(mut gather: Gather<'_, P, u32, R>, proof: &Settled<'_, L>, cleared: Cleared) {
///     gather.finish();
///     gather.unmap(proof, cleared, None);
/// # }
/// ```
///
/// It takes no translation from an operation that has not [settled](Engine::settle) first, under the lock:
///
/// ```compile_fail,E0308
/// # use ceasefire::{Cleared, Gather, Platform};
/// # fn unsettled<P: Platform, R: FnMut(u32), L>(gather: &mut Gather<'_, P, u32, R>, lock: &L, cleared: Cleared) {
///     gather.unmap(lock, cleared, None);
/// # }
/// ```
#[must_use = "holding cleared translations without finishing keeps every other unmap of the space waiting"]
#[derive(Debug)]
pub struct Gather<'e, P: Platform, T, R: FnMut(T), const N: usize = GATHER> {
    engine: &'e Engine<P>,
    space: &'e AddressSpace,
    release: R,
    /// The addresses cleared since the last flush, and the smallest translation among them.
    start: u64,
    end: u64,
    size: PageSize,
    /// There are larger ones among them.
    mixed: bool,
    tables: bool,
    held: [Option<T>; N],
    count: usize,
}

impl<'e, P: Platform, T, R: FnMut(T), const N: usize> Gather<'e, P, T, R, N> {
    /// A constant, so that the array is filled where it lies.
    const NOTHING: Option<T> = None;

    /// Opens a gather in `space`.
    pub fn new(engine: &'e Engine<P>, space: &'e AddressSpace, release: R) -> Self {
        space.gathers.fetch_add(1, Ordering::SeqCst);
        Self {
            engine,
            space,
            release,
            start: u64::MAX,
            end: 0,
            size: PageSize::Huge,
            mixed: false,
            tables: false,
            held: [Self::NOTHING; N],
            count: 0,
        }
    }

    /// Takes a translation that was cleared under the lock of `proof`, and what must not be reused while CPUs may
    /// still reach it.
    pub fn unmap<G>(&mut self, proof: &Settled<'_, G>, cleared: Cleared, held: Option<T>) {
        self.owe(proof, cleared.debt);
        if let Some(held) = held {
            self.hold(held);
        }
    }

    /// Takes a translation that was narrowed under the lock of `proof`.
    pub fn narrow<G>(&mut self, proof: &Settled<'_, G>, narrowed: Narrowed) {
        self.owe(proof, narrowed.debt);
    }

    /// Takes an unlinked page-table page.
    pub fn table(&mut self, cleared: ClearedTable, held: T) {
        // A flush of small pages takes what walkers cached on the way to any of them; one of huge ones need not take
        // the entry that pointed to the table.
        self.cover(cleared.address, PageSize::Small);
        self.tables = true;
        self.hold(held);
    }

    /// Flushes what was cleared so far and releases what it held.
    ///
    /// Called before a lock is dropped that keeps new translations out of the range, and by itself when the gather
    /// is full. Interrupts must be on.
    pub fn flush(&mut self) {
        if self.start < self.end {
            let (tables, mixed) = (self.tables, self.mixed);
            self.pay(Flush { tables, mixed, ..Flush::range(self.start, self.end, self.size) });
        }
        for held in &mut self.held[..self.count] {
            if let Some(held) = held.take() {
                (self.release)(held);
            }
        }
        self.count = 0;
    }

    /// Flushes, releases and closes.
    pub fn finish(self) {}

    fn pay(&mut self, flush: Flush) {
        (self.start, self.end, self.size) = (u64::MAX, 0, PageSize::Huge);
        (self.mixed, self.tables) = (false, false);
        if self.engine.guarded(Guard::GatherFlush) {
            self.engine.flush(self.space, flush);
        }
    }

    fn owe<G>(&mut self, proof: &Settled<'_, G>, debt: Debt) {
        debug_assert!(
            proof.space().id() == self.space.id(),
            "{:?} was settled, and what was cleared belongs to {:?}",
            proof.space().id(),
            self.space.id()
        );
        if debt.entry.accessible {
            self.cover(debt.address, debt.size);
        }
    }

    fn cover(&mut self, address: u64, size: PageSize) {
        self.mixed |= self.start < self.end && size != self.size;
        self.start = self.start.min(address);
        self.end = self.end.max(address.saturating_add(size.bytes()));
        self.size = self.size.min(size);
    }

    fn hold(&mut self, held: T) {
        if self.count == N {
            self.flush();
        }
        self.held[self.count] = Some(held);
        self.count += 1;
    }
}

impl<P: Platform, T, R: FnMut(T), const N: usize> Drop for Gather<'_, P, T, R, N> {
    fn drop(&mut self) {
        if self.space.nested() {
            // Another thread cleared translations that this one found gone, and may not have flushed them yet.
            self.pay(Flush::ALL);
        }
        self.flush();
        // After the flush: the count says that flushes are outstanding.
        self.space.gathers.fetch_sub(1, Ordering::SeqCst);
    }
}
