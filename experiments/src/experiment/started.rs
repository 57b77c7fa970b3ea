//! What an experiment gives: a machine about to run, and later what its programs did.

use ceasefire_machine::{Outcome, Reading, Simulation};

use super::error::RunError;
use crate::measurement::{Atomic, Latency, PerProcess, Verdict};

/// Says what came of a run.
type Finish = Box<dyn FnOnce(&Outcome) -> Result<Finished, RunError>>;

/// A machine with its programs, about to run.
pub(crate) struct Started {
    pub(crate) simulation: Simulation,
    /// When each program starts.
    pub(crate) starts: Vec<u64>,
    /// How much of it is done, given the loads and stores made so far.
    pub(crate) progress: Box<dyn Fn(u64) -> f64>,
    /// What came of it, once all programs have ended.
    pub(crate) finish: Finish,
}

/// What the programs of a run did.
pub(crate) struct Finished {
    /// Pages read, moved, and so on.
    pub(crate) operations: u64,
    /// The readings between which the experiment measures; the whole run if there are none.
    pub(crate) window: Option<(Reading, Reading)>,
    /// What came of comparing loads with the reference.
    pub(crate) verdict: Verdict,
    /// How long single operations took, if the experiment measures that.
    pub(crate) latency: Option<Latency>,
    /// What became of allocations that must not wait, if it makes some.
    pub(crate) atomic: Option<Atomic>,
    /// How the operations are spread over processes, if there are many of the same kind.
    pub(crate) per_process: Option<PerProcess>,
}

impl Finished {
    /// Operations and compared loads of a run that measures nothing else, and measures all of it.
    pub(crate) fn new(operations: u64, verdict: Verdict) -> Self {
        Self { operations, window: None, verdict, latency: None, atomic: None, per_process: None }
    }
}
