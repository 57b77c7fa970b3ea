//! Waits that a CPU gives up. Each is counted in the work of the waiting CPU: its ticks while it halts, its running time
//! while it spins. The clock alone cannot tell a hang: on a busy host a CPU may rest for longer than any wait lasts, and
//! the clock goes on. While the host lets the waiting CPU run, it lets the other CPUs run too.

use core::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "none")]
use crate::arch::clock;

/// The most ticks that a CPU waits: ten seconds where no tick is late.
pub(crate) const TICKS: u64 = 1000;
/// The longest running time that a CPU spins, in nanoseconds.
#[cfg(target_os = "none")]
const SPIN: u64 = 10_000_000_000;
/// The same for the other CPUs' stop, without which a report goes on.
#[cfg(target_os = "none")]
const SHORT_SPIN: u64 = 1_000_000_000;
/// How many times a CPU tries before it reads the clock: less than [`STEP`] if the host lets it run.
const TRIES: u32 = 256;
/// The most nanoseconds of running time from one reading of the clock to the next. In a longer time the CPU rested.
const STEP: u64 = 1_000_000;

/// Spins until `done`. Returns false if that takes too long.
#[cfg(target_os = "none")]
pub(crate) fn spin(done: impl FnMut() -> bool) -> bool {
    spin_for(SPIN, clock::now, done)
}

/// Spins until `done`, for a wait that need not succeed. Returns false if that takes too long.
#[cfg(target_os = "none")]
pub(crate) fn spin_shortly(done: impl FnMut() -> bool) -> bool {
    spin_for(SHORT_SPIN, clock::now, done)
}

/// Spins until `done`. Returns false after that much running time.
fn spin_for(most: u64, mut now: impl FnMut() -> u64, mut done: impl FnMut() -> bool) -> bool {
    let (mut ran, mut last) = (0, None);
    while ran < most {
        for _ in 0..TRIES {
            if done() {
                return true;
            }
            core::hint::spin_loop();
        }
        let now = now();
        ran += now.saturating_sub(last.unwrap_or(now)).min(STEP);
        last = Some(now);
    }
    false
}

/// A count that a CPU looks at in each of its ticks. Only that CPU changes it, and others may read it.
#[derive(Debug)]
pub(crate) struct Watched {
    count: AtomicU64,
    unchanged: AtomicU64,
}

impl Watched {
    pub(crate) const fn new() -> Self {
        Self { count: AtomicU64::new(0), unchanged: AtomicU64::new(0) }
    }

    /// Looks at the present count. Returns for how many ticks it has been the same.
    pub(crate) fn look(&self, count: u64) -> u64 {
        let before = self.count.swap(count, Ordering::Relaxed);
        let unchanged = if before == count { self.unchanged() + 1 } else { 0 };
        self.unchanged.store(unchanged, Ordering::Relaxed);
        unchanged
    }

    /// Forgets for how many ticks the count has been the same.
    pub(crate) fn restart(&self) {
        self.unchanged.store(0, Ordering::Relaxed);
    }

    /// For how many ticks the count has been the same.
    pub(crate) fn unchanged(&self) -> u64 {
        self.unchanged.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many readings a spin of ten steps makes of a clock that goes on by `step` from one reading to the next.
    fn readings(step: u64) -> u64 {
        let mut readings = 0;
        let clock = || {
            readings += 1;
            readings * step
        };
        assert!(!spin_for(10 * STEP, clock, || false));
        readings
    }

    #[test]
    fn a_spin_lasts_for_a_running_time() {
        assert_eq!(readings(STEP), 11);
        assert_eq!(readings(STEP / 4), 41);
        // The host lets the CPU rest between any two readings.
        assert_eq!(readings(1000 * STEP), 11);
    }

    #[test]
    fn a_spin_ends_with_its_condition() {
        let mut tries = 0;
        let done = || {
            tries += 1;
            tries == 3
        };
        assert!(spin_for(1, || unreachable!("no time has passed"), done));
    }

    #[test]
    fn only_ticks_with_the_same_count_are_counted() {
        let watched = Watched::new();
        assert_eq!([7, 7, 7, 8, 8, 7].map(|count| watched.look(count)), [0, 1, 2, 0, 1, 0]);
        assert_eq!([watched.look(7), watched.unchanged()], [1, 1]);
        watched.restart();
        assert_eq!([watched.unchanged(), watched.look(7)], [0, 1]);
    }
}
