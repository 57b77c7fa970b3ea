//! Work on threads of this computer, several pieces at a time.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// Does the pieces of work 0 to `all` - 1 on `jobs` threads; by default, one for each processor. Each thread takes the
/// next piece when its last one has ended. After a break no thread takes another.
///
/// # Panics
/// With the panic of a piece, once all threads have ended.
pub fn share(all: u64, jobs: Option<u16>, work: impl Fn(u64) -> ControlFlow<()> + Sync) {
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    // Neither orders other accesses, so relaxed ones do.
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < all);
    let work_on = || {
        while !is_over.load(Ordering::Relaxed) {
            let Some(number) = take() else { break };
            if work(number).is_break() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..all.min(threads(jobs))).map(|_| scope.spawn(work_on)).collect();
        // All are joined before a panic goes on.
        let panics: Vec<_> =
            threads.into_iter().map(ScopedJoinHandle::join).filter_map(Result::err).collect();
        if let Some(panic) = panics.into_iter().next() {
            resume_unwind(panic);
        }
    });
}

/// Does the same, and gives the results in the order of the pieces. A piece without a result is a break.
///
/// # Panics
/// As [`share`].
pub fn collect<T: Send>(all: u64, jobs: Option<u16>, work: impl Fn(u64) -> Option<T> + Sync) -> Vec<T> {
    let results = Mutex::new(Vec::new());
    share(all, jobs, |number| {
        let Some(result) = work(number) else { return ControlFlow::Break(()) };
        results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        ControlFlow::Continue(())
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn threads(jobs: Option<u16>) -> u64 {
    jobs.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get) as u64, u64::from)
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    use super::*;

    #[test]
    fn every_piece_is_done_once_and_results_are_in_order() {
        for jobs in [Some(1), Some(3), Some(200), None] {
            assert_eq!(collect(100, jobs, Some), (0..100).collect::<Vec<_>>(), "{jobs:?}");
            assert!(collect(0, jobs, Some).is_empty(), "{jobs:?}");
        }
    }

    #[test]
    fn after_a_break_no_piece_is_taken() {
        let done = collect(100, Some(1), |number| Some(number).filter(|&number| number < 7));
        assert_eq!(done, (0..7).collect::<Vec<_>>());
        // Each thread may have one more piece under way.
        let begun = AtomicU64::new(0);
        share(u64::MAX, Some(3), |number| {
            begun.fetch_add(1, Ordering::Relaxed);
            if number >= 50 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!((51..=53).contains(&begun.into_inner()));
    }

    #[test]
    fn a_panic_goes_on_when_the_other_pieces_have_ended() {
        for jobs in [2, 3] {
            let ended = AtomicU64::new(0);
            let shared = catch_unwind(AssertUnwindSafe(|| {
                share(10, Some(jobs), |number| {
                    assert_ne!(number, 3, "the third piece");
                    ended.fetch_add(1, Ordering::Relaxed);
                    ControlFlow::Continue(())
                });
            }));
            let panic = shared.expect_err("a panic");
            assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("the third piece")));
            assert_eq!(ended.into_inner(), 9);
        }
    }
}
