//! The memory of this computer, shared out to runs at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::available_memory::available_memory;
use super::plan::Plan;

/// The computer on which runs happen, several at a time.
#[derive(Debug)]
pub struct Host {
    memory: Budget,
    alone: Mutex<()>,
}

/// The right of a run to go on, given back when it is dropped.
#[derive(Debug)]
#[must_use = "the run may go on only as long as this is there"]
pub struct Admitted<'a> {
    _memory: Share<'a>,
    _alone: Option<MutexGuard<'a, ()>>,
}

impl Host {
    /// This computer, with the memory that it has available now.
    pub fn new() -> Self {
        Self { memory: Budget::new(available_memory()), alone: Mutex::new(()) }
    }

    /// Waits until the run fits beside those that are admitted: their memory is there, and there is no second one
    /// that [runs alone](Plan::runs_alone).
    pub fn admit(&self, plan: &Plan) -> Admitted<'_> {
        // The lock guards no data, so a panic of its last owner does not matter.
        let alone = plan.runs_alone().then(|| self.alone.lock().unwrap_or_else(PoisonError::into_inner));
        Admitted { _memory: self.memory.take(plan.host_bytes()), _alone: alone }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

/// Memory from which runs take their share, and wait if there is not enough.
#[derive(Debug)]
struct Budget {
    all: u64,
    left: Mutex<u64>,
    returned: Condvar,
}

impl Budget {
    fn new(all: u64) -> Self {
        Self { all, left: Mutex::new(all), returned: Condvar::new() }
    }

    /// Waits until there is so much, or until there is all for a run that takes more, and takes it.
    fn take(&self, bytes: u64) -> Share<'_> {
        let bytes = bytes.min(self.all);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left =
            self.returned.wait_while(left, |left| *left < bytes).unwrap_or_else(PoisonError::into_inner);
        *left -= bytes;
        Share { budget: self, bytes }
    }
}

/// A run's share, given back when it is dropped.
#[derive(Debug)]
struct Share<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.left.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn shares_never_exceed_the_budget_and_every_run_gets_one() {
        let (budget, taken, most) = (Budget::new(10), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for bytes in [3, 4, 10, 5, 25, 1, 7, 10] {
                let (budget, taken, most) = (&budget, &taken, &most);
                scope.spawn(move || {
                    let share = budget.take(bytes);
                    most.fetch_max(
                        taken.fetch_add(share.bytes, Ordering::SeqCst) + share.bytes,
                        Ordering::SeqCst,
                    );
                    taken.fetch_sub(share.bytes, Ordering::SeqCst);
                });
            }
        });
        assert!(most.into_inner() <= 10);
        assert_eq!(*budget.left.lock().expect("no panic"), 10);
    }
}
