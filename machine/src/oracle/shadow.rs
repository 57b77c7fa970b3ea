//! What this machine tells the shadow record of the memory manager.
//!
//! The same that a kernel would tell it: roots that are loaded, invalidations, broadcasts, and which CPUs run no program. The
//! record sees nothing of the simulated TLBs, nor of the oracle's books; so the two judge the same run by different means.

use std::cell::RefCell;

use ceasefire_memory::shadow::{Misuse, Shadow};

/// Misuses kept; beyond these only the count goes on.
const KEPT: usize = 16;

/// The record, and what it saw.
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
