//! What came of a run.

use ceasefire_memory::shadow::Misuse;

use crate::config::Picoseconds;
use crate::measure::reading::Reading;
use crate::measure::series::Series;
use crate::oracle::rule::Violation;

/// What a thread took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// The name it was started with.
    pub name: String,
    /// It runs in the kernel alone.
    pub kernel: bool,
    /// Time in the program.
    pub user: Picoseconds,
    /// Time in the kernel, interrupts that it was interrupted for included.
    pub system: Picoseconds,
    /// When it ended; `None` for the kernel's own, which never do.
    pub ended: Option<Picoseconds>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// When the last program ended.
    pub elapsed: Picoseconds,
    /// What each thread took.
    pub threads: Vec<ThreadTime>,
    /// What was counted in all.
    pub reading: Reading,
    /// How that came about over time.
    pub series: Series,
    /// Uses of an entry whose flush was still owed, which the rules allow. 0 with the oracle off.
    pub stale_hits: u64,
    /// How often the oracle saw a rule broken, and the shadow record a flush missing. 0 with both off.
    pub violations: u64,
    /// The first few of the oracle's.
    pub broken: Vec<Violation>,
    /// The first few of the shadow record's.
    pub misuses: Vec<Misuse>,
}
