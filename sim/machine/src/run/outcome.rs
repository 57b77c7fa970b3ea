//! The outcome of a run.

use ceasefire_memory::shadow::Misuse;

use crate::config::Picoseconds;
use crate::measure::reading::Reading;
use crate::measure::series::Series;
use crate::oracle::rule::Violation;

/// The time of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// The name it was started with.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Time in the program.
    pub user: Picoseconds,
    /// Time in the kernel, including the interrupts that it took.
    pub system: Picoseconds,
    /// The time at which it ended; `None` for kernel threads, which never end.
    pub ended: Option<Picoseconds>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The time at which the last program ended.
    pub elapsed: Picoseconds,
    /// The time of each thread.
    pub threads: Vec<ThreadTime>,
    /// All counts at the end.
    pub reading: Reading,
    /// The counts over time.
    pub series: Series,
    /// The number of translations that CPUs filled by themselves.
    pub speculated: u64,
    /// The number of uses of an entry whose flush was still owed, which the rules allow. 0 with the oracle off.
    pub stale_hits: u64,
    /// The number of broken rules that the oracle reported, and of misuses that the shadow record reported. 0 with
    /// both off.
    pub violations: u64,
    /// The first reports of the oracle.
    pub broken: Vec<Violation>,
    /// The first reports of the shadow record.
    pub misuses: Vec<Misuse>,
}
