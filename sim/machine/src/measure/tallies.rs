//! Counts that the machine itself keeps.

use std::cell::Cell;

use ceasefire_memory::CLASSES;

use crate::config::Picoseconds;
use crate::measure::spent::Ledger;

/// The machine's counts, beside those of the engine and the memory manager.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) accesses: Cell<u64>,
    pub(crate) misses_load: Cell<u64>,
    pub(crate) misses_store: Cell<u64>,
    pub(crate) misses_fetch: Cell<u64>,
    pub(crate) lock_waits: Cell<u64>,
    pub(crate) lock_wait_time: Cell<Picoseconds>,
    /// The part of it at each of [`CLASSES`].
    pub(crate) lock_wait_of: [Cell<Picoseconds>; CLASSES.len()],
    pub(crate) answer_wait_time: Cell<Picoseconds>,
    pub(crate) spent: Ledger,
    pub(crate) switches: Cell<u64>,
}
