//! All counts of the machine, the engine and the memory manager at one moment.

use std::array;

use ceasefire::Counters;
use ceasefire_memory::{Statistics, CLASSES};

use crate::config::Picoseconds;
use crate::measure::spent::Spent;
use crate::measure::tallies::Tallies;

/// All counts at one moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The moment, on the clock of the CPU that took the reading; or the time between two readings.
    pub time: Picoseconds,
    /// The engine's counts.
    pub counters: Counters,
    /// The memory manager's counts.
    pub statistics: Statistics,
    /// Loads and stores of programs.
    pub accesses: u64,
    /// Loads that missed both levels of the TLB.
    pub misses_load: u64,
    /// Stores that missed both levels of the TLB, or found the page clean or read-only.
    pub misses_store: u64,
    /// Fetches of instructions that missed both levels of the TLB.
    pub misses_fetch: u64,
    /// Time that CPUs waited for locks.
    pub lock_wait: Picoseconds,
    /// The part of that time at each of [`CLASSES`], the memory manager's classes of locks.
    pub lock_wait_of: [Picoseconds; CLASSES.len()],
    /// The number of waits for locks.
    pub lock_waits: u64,
    /// Time that CPUs waited for other CPUs to answer a flush, or for broadcasts to be done.
    pub answer_wait: Picoseconds,
    /// The time of all CPUs by kind of work.
    pub spent: Spent,
}

impl Reading {
    pub(crate) fn new(
        time: Picoseconds,
        tallies: &Tallies,
        counters: Counters,
        statistics: Statistics,
    ) -> Self {
        Self {
            time,
            counters,
            statistics,
            accesses: tallies.accesses.get(),
            misses_load: tallies.misses_load.get(),
            misses_store: tallies.misses_store.get(),
            misses_fetch: tallies.misses_fetch.get(),
            lock_wait: tallies.lock_wait_time.get(),
            lock_wait_of: array::from_fn(|class| tallies.lock_wait_of[class].get()),
            lock_waits: tallies.lock_waits.get(),
            answer_wait: tallies.answer_wait_time.get(),
            spent: tallies.spent.read(),
        }
    }

    /// The counts since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time.saturating_sub(earlier.time),
            counters: self.counters.since(&earlier.counters),
            statistics: self.statistics.since(&earlier.statistics),
            accesses: self.accesses - earlier.accesses,
            misses_load: self.misses_load - earlier.misses_load,
            misses_store: self.misses_store - earlier.misses_store,
            misses_fetch: self.misses_fetch - earlier.misses_fetch,
            lock_wait: self.lock_wait - earlier.lock_wait,
            lock_wait_of: array::from_fn(|class| self.lock_wait_of[class] - earlier.lock_wait_of[class]),
            lock_waits: self.lock_waits - earlier.lock_waits,
            answer_wait: self.answer_wait - earlier.answer_wait,
            spent: self.spent.since(&earlier.spent),
        }
    }
}
