//! The output of an experiment: a machine about to run, and the outcome of its programs after the run.

use ceasefire_machine::{Outcome, Reading, Simulation};

use super::error::RunError;
use crate::measurement::{Atomic, Latency, PerProcess, Verdict};

/// Evaluates a run after its end.
type Finish = Box<dyn FnOnce(&Outcome) -> Result<Finished, RunError>>;

/// A machine with its programs, about to run.
pub(crate) struct Started {
    pub(crate) simulation: Simulation,
    /// The start time of each program, in picoseconds.
    pub(crate) starts: Vec<u64>,
    /// The fraction of the run that is done, given the number of loads and stores so far.
    pub(crate) progress: Box<dyn Fn(u64) -> f64>,
    /// Evaluates the run once all programs have ended.
    pub(crate) finish: Finish,
}

/// The outcome of a run's programs.
pub(crate) struct Finished {
    /// The number of operations: pages read, pages moved, and so on.
    pub(crate) operations: u64,
    /// The readings at the start and end of the measured time. `None`: the whole run is measured.
    pub(crate) window: Option<(Reading, Reading)>,
    /// The result of comparing loads with the reference.
    pub(crate) verdict: Verdict,
    /// The latencies of single operations, if the experiment measures them.
    pub(crate) latency: Option<Latency>,
    /// The latencies of allocations that must not wait, if the experiment makes any.
    pub(crate) atomic: Option<Atomic>,
    /// The spread of the operations over processes, if there are many of the same kind.
    pub(crate) per_process: Option<PerProcess>,
}

impl Finished {
    /// The outcome of a run that is measured as a whole and has no other figures than these.
    pub(crate) fn new(operations: u64, verdict: Verdict) -> Self {
        Self { operations, window: None, verdict, latency: None, atomic: None, per_process: None }
    }
}
