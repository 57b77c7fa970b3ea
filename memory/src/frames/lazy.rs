//! What lazy unmap flushes may cost: how long debts stand, how many frames owe, and how many never do.
//!
//! A frame that reclaim or migration took away lazily is free before the CPUs that had it have flushed, and owes until
//! then. Three bounds keep that harmless. No debt is older than an age, and there is a tick that keeps it. No more than so
//! many frames of a node owe at a time: beyond that, batches pay at their end, as if they were not lazy. And the last so
//! many frames that owe nothing are a reserve: an allocation that may wait leaves them to those that may not, and waits.

use ceasefire::{Settle, DEFAULT_AGE};

use crate::frames::node::Watermarks;

/// The bounds of lazy unmap flushes, for [`Schedule::Lazy`](ceasefire::Schedule::Lazy); other schedules leave no debts, whatever these say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lazy {
    /// How old a debt may become, in nanoseconds; 0 for none at all. [`DEFAULT_AGE`] unless told otherwise.
    pub max_age: u64,
    /// How often each CPU calls [`Memory::tick`](crate::Memory::tick), in nanoseconds. 4 ms unless told otherwise (Linux:
    /// `CONFIG_HZ=250`).
    pub tick: u64,
    /// What settles debts.
    pub settle: Settle,
    /// How many free frames of a node may owe. `None` for an eighth of its frames, but 64 at least if it has as many.
    pub max_owed: Option<u32>,
    /// How many frames of a node that owe nothing are kept while others of it owe. `None` for its minimum watermark.
    pub reserve: Option<u32>,
}

impl Default for Lazy {
    fn default() -> Self {
        Self { max_age: DEFAULT_AGE, tick: 4_000_000, settle: Settle::Free, max_owed: None, reserve: None }
    }
}

/// The part of a node's frames that may owe, by default.
const OWED_SHARE: u32 = 8;
/// The least that may owe by default: two batches of reclaim.
const OWED_LEAST: u32 = 64;

/// The bounds as they are for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) max_owed: u32,
    pub(crate) reserve: u32,
}

impl Limits {
    /// For a node of `frames`.
    pub(crate) fn new(lazy: &Lazy, frames: u32, watermarks: Watermarks) -> Self {
        let max_owed = lazy.max_owed.unwrap_or((frames / OWED_SHARE).max(OWED_LEAST).min(frames));
        Self { max_owed, reserve: lazy.reserve.unwrap_or(watermarks.min) }
    }
}
