//! The counts that all threads of a run share, and its measured part.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire_machine::{Program, Reading};
use ceasefire_memory::FaultError;

use crate::measurement::{Latencies, Reference, Verdict};

/// The state that all threads of a run share.
#[derive(Debug)]
pub(super) struct Tally {
    /// The beginning and the end of the measured time. `None`: the whole run is measured.
    window: Option<(u64, u64)>,
    /// The planned number of operations, if every phase that counts has one.
    pub(super) planned: Cell<Option<u64>>,
    pub(super) operations: Cell<u64>,
    /// The reading and the number of operations when the first thread reached the beginning and the end of the measured
    /// time.
    first: Cell<Option<(Reading, u64)>>,
    last: Cell<Option<(Reading, u64)>>,
    done: Cell<f64>,
    /// The number of failed threads, and the error of the first.
    pub(super) failed: Cell<Option<(u16, FaultError)>>,
    /// The number of threads of each group that have not ended.
    pub(super) running: Vec<Cell<u64>>,
    pub(super) latencies: Latencies,
    /// The result of comparing loads from files that no program stores to.
    pub(super) streams: Rc<Cell<Verdict>>,
    /// The expected contents of all other memory.
    pub(super) references: RefCell<Vec<Reference>>,
}

impl Tally {
    pub(super) fn new(window: Option<(u64, u64)>, running: Vec<Cell<u64>>) -> Self {
        Self {
            window,
            planned: Cell::new(None),
            operations: Cell::new(0),
            first: Cell::new(None),
            last: Cell::new(None),
            done: Cell::new(0.0),
            failed: Cell::new(None),
            running,
            latencies: Latencies::new(),
            streams: Rc::default(),
            references: RefCell::default(),
        }
    }

    /// Counts the operations of a round that has just ended. Returns whether the measured time is over.
    pub(super) fn count(&self, program: &Program, operations: u64) -> bool {
        self.operations.set(self.operations.get() + operations);
        let Some((begin, end)) = self.window else {
            if let Some(planned) = self.planned.get() {
                self.done.set(self.operations.get() as f64 / planned as f64);
            }
            return false;
        };
        let now = program.now();
        self.done.set(now as f64 / end as f64);
        if now >= begin && self.first.get().is_none() {
            self.first.set(Some((program.reading(), self.operations.get())));
        }
        if now >= end && self.last.get().is_none() {
            self.last.set(Some((program.reading(), self.operations.get())));
        }
        now >= end
    }

    /// Whether the run is being measured.
    pub(super) fn is_measuring(&self) -> bool {
        self.window.is_none() || (self.first.get().is_some() && self.last.get().is_none())
    }

    /// The readings at the beginning and the end of the measured time, and the operations between them.
    pub(super) fn window(&self) -> Option<((Reading, Reading), u64)> {
        let ((before, first), (after, last)) = self.first.get().zip(self.last.get())?;
        Some(((before, after), last - first))
    }

    pub(super) fn is_windowed(&self) -> bool {
        self.window.is_some()
    }

    /// The fraction of the run that is done.
    pub(super) fn done(&self) -> f64 {
        self.done.get()
    }

    pub(super) fn fail(&self, error: FaultError) {
        let (others, first) = self.failed.get().unwrap_or((0, error));
        self.failed.set(Some((others.saturating_add(1), first)));
    }

    /// The result of comparing loads.
    pub(super) fn verdict(&self) -> Verdict {
        self.references.borrow().iter().fold(self.streams.get(), |sum, range| sum + range.verdict())
    }
}
