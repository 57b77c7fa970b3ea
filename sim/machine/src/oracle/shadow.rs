//! The memory manager's shadow record, and its reports.
//!
//! The machine informs the record as a kernel would: of loaded roots, invalidations, broadcasts, and CPUs that run no
//! program. The record sees neither the simulated TLBs nor the oracle's data, so the two judge a run independently.

use std::cell::RefCell;

use ceasefire_memory::shadow::{Misuse, Shadow};

/// The number of misuses that are stored. Later ones are only counted.
const KEPT: usize = 16;

/// The record, and its reports.
#[derive(Debug)]
pub(crate) struct Watch {
    shadow: RefCell<Shadow>,
    seen: RefCell<(u64, Vec<Misuse>)>,
}

impl Watch {
    pub(crate) fn new(shadow: Shadow) -> Self {
        Self { shadow: RefCell::new(shadow), seen: RefCell::default() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.seen.borrow().0
    }

    pub(crate) fn kept(&self) -> Vec<Misuse> {
        self.seen.borrow().1.clone()
    }

    pub(crate) fn with(&self, body: impl FnOnce(&mut Shadow)) {
        body(&mut self.shadow.borrow_mut());
    }

    pub(crate) fn misused(&self, misuse: Misuse) {
        let mut seen = self.seen.borrow_mut();
        seen.0 += 1;
        if seen.1.len() < KEPT {
            seen.1.push(misuse);
        }
    }
}
