//! Ends a run in which nothing goes on.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::failure::{self, Kind};
use crate::arch::{clock, Frame};
use crate::threads::cpu;

/// How long nothing may go on, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;

/// What went on at the last look, and when that was new.
static SEEN: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);

/// Looks, on one CPU's ticks, whether anything goes on; ends the run if nothing has for too long.
pub(crate) fn watch(frame: &Frame) {
    let seen = cpu::all().iter().map(|cpu| cpu.progress.load(Ordering::Relaxed)).sum();
    let now = clock::now();
    if SEEN.swap(seen, Ordering::Relaxed) != seen || !WATCHING.swap(true, Ordering::Relaxed) {
        SINCE.store(now, Ordering::Relaxed);
    } else if now - SINCE.load(Ordering::Relaxed) > PATIENCE {
        failure::stop(Kind::Hang, frame, format_args!("nothing has gone on for 10 s"));
    }
}
