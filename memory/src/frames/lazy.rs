//! Bounds of lazy unmap flushes: the age of debts, the number of owing frames, and a reserve of debt-free ones.
//!
//! A frame that reclaim or migration took away lazily is free before its CPUs have flushed, and owes until then. Three
//! bounds keep that harmless. No debt is older than a given age, which each CPU's tick enforces. Only a given number of
//! a node's frames owe at a time; beyond it, batches pay at their end, as if they were not lazy. The last debt-free
//! frames of a node are a reserve for allocations that must not wait; an allocation that may wait leaves them and
//! waits.

use ceasefire::{Payment, DEFAULT_AGE};

use crate::frames::node::Watermarks;

/// The bounds of lazy unmap flushes, for [`Schedule::Lazy`](ceasefire::Schedule::Lazy). Other schedules leave no debts,
/// so they ignore the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lazy {
    /// The greatest age of a debt in nanoseconds; 0 allows no debts. Default: [`DEFAULT_AGE`].
    pub max_age: u64,
    /// The interval at which each CPU calls [`Memory::tick`](crate::Memory::tick), in nanoseconds. Default: 4 ms
    /// (Linux: `CONFIG_HZ=250`).
    pub tick: u64,
    /// The flushes that settle debts.
    pub payment: Payment,
    /// The most free frames of a node that may owe. `None` for an eighth of its frames, but at least 64 if it has as
    /// many.
    pub max_owed: Option<u32>,
    /// The number of debt-free frames of a node that are kept while others of it owe. `None` for its minimum watermark.
    pub reserve: Option<u32>,
}

impl Default for Lazy {
    fn default() -> Self {
        Self { max_age: DEFAULT_AGE, tick: 4_000_000, payment: Payment::Free, max_owed: None, reserve: None }
    }
}

/// By default, one of so many frames of a node may owe.
const OWED_SHARE: u32 = 8;
/// The least default: two batches of reclaim.
const OWED_LEAST: u32 = 64;

/// The bounds of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_owed: u32,
    pub(crate) reserve: u32,
}

impl Limits {
    /// The bounds of a node with `frames` frames.
    pub(crate) fn new(lazy: &Lazy, frames: u32, watermarks: Watermarks) -> Self {
        let max_owed = lazy.max_owed.unwrap_or((frames / OWED_SHARE).max(OWED_LEAST).min(frames));
        Self { max_owed, reserve: lazy.reserve.unwrap_or(watermarks.min) }
    }
}
