//! Ends a run that makes no progress.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::arch::{clock, Frame};
use crate::failure::{self, Kind};
use crate::threads::cpu;

/// The longest time without progress, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;

/// The sum of all CPUs' progress at the last look, and since when it is the same.
static SEEN: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);

/// Checks at one CPU's ticks for progress. Ends the run if there was none for too long.
pub(crate) fn watch(frame: &Frame) {
    let seen = cpu::all().iter().map(|cpu| cpu.progress.load(Ordering::Relaxed)).sum();
    let now = clock::now();
    if SEEN.swap(seen, Ordering::Relaxed) != seen || !WATCHING.swap(true, Ordering::Relaxed) {
        SINCE.store(now, Ordering::Relaxed);
    } else if now - SINCE.load(Ordering::Relaxed) > PATIENCE {
        failure::stop(Kind::Hang, frame, format_args!("no progress for 10 s"));
    }
}
