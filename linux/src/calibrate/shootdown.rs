//! Flushes of one page while other threads of the program run, on other CPUs.
//!
//! The other threads read the clock in a loop. So a thread sees for how long an interrupt took its CPU, and the
//! flushing thread sees that the others ran just before and just after the call: one that was preempted gets no
//! interrupt.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::computer::{pin, Computer};
use super::latency::joined;
use super::mapping::{Mapping, Slot};
use super::quartiles::{clock_cost, quartiles, timed, Effort, Quartiles};
use super::{Failed, Figure, Notes, Quantity};

/// The time of all measurements at most.
const TIME: Duration = Duration::from_secs(6);
/// How long the flushing thread waits for a sign of the others, in readings of their signs.
const PATIENCE: u32 = 2000;

/// The signs of life of a running thread, on a line by itself.
#[repr(align(128))]
#[derive(Default)]
struct Beat {
    /// Grows with each reading of the clock.
    count: AtomicU64,
    /// The longest time between two readings since the flushing thread last cleared it, in nanoseconds.
    longest: AtomicU64,
}

impl Beat {
    /// Reads the clock until `stop`.
    fn run(&self, stop: &AtomicBool) {
        let mut last = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let gap = (now - last).as_nanos() as u64;
            if gap > self.longest.load(Ordering::Relaxed) {
                self.longest.store(gap, Ordering::Relaxed);
            }
            // The flushing thread that sees the count also sees the gap.
            self.count.fetch_add(1, Ordering::Release);
            last = now;
        }
    }

    /// Whether the thread reads the clock twice from now on, before patience ends. Two readings enclose a gap.
    fn goes_on(&self) -> bool {
        let begun = self.count.load(Ordering::Acquire);
        (0..PATIENCE).any(|_| self.count.load(Ordering::Acquire) >= begun + 2)
    }
}

/// The numbers of other threads: none, powers of two, and all.
fn counts(most: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|&count| count < most);
    let mut counts: Vec<usize> = std::iter::once(0).chain(powers).collect();
    if most > 0 {
        counts.push(most);
    }
    counts
}

pub(super) fn measure(computer: &Computer, rounds: usize, notes: &mut Notes) -> Result<(), Failed> {
    let cpus: Vec<u32> = computer.cpus().collect();
    let counts = counts(cpus.len().saturating_sub(1));
    let effort = Effort { rounds, time: TIME / (2 * counts.len()) as u32 };
    for threads in counts {
        let failed = |error| Failed::new(format!("flush of one page beside {threads} threads"), error);
        let found = beside(&cpus, threads, effort).map_err(failed)?;
        let quantities =
            [Quantity::Advise { threads }, Quantity::Unmap { threads }, Quantity::Interruption { threads }];
        for (quantity, spread) in quantities.into_iter().zip(found) {
            notes.figures.extend(spread.map(|spread| Figure { quantity, spread }));
        }
    }
    if cpus.len() < 2 {
        return Err(Failed::new("interrupts between CPUs", "the program may use only one CPU"));
    }
    Ok(())
}

/// The times of madvise(DONTNEED) and of munmap of one page, and the time for which the first of the other threads
/// stands still meanwhile, in nanoseconds: the medians of single calls, less the reading of the clock.
fn beside(cpus: &[u32], threads: usize, effort: Effort) -> io::Result<[Option<Quartiles>; 3]> {
    let beats: Vec<Beat> = (0..threads).map(|_| Beat::default()).collect();
    let (beats, stop) = (&beats[..], &AtomicBool::new(false));
    thread::scope(|scope| {
        let others: Vec<_> = beats
            .iter()
            .zip(&cpus[cpus.len().min(1)..])
            .map(|(beat, &cpu)| {
                scope.spawn(move || {
                    let pinned = pin(cpu);
                    if pinned.is_ok() {
                        beat.run(stop);
                    }
                    pinned
                })
            })
            .collect();
        let flushing = scope.spawn(|| {
            let pinned = cpus.first().map_or(Ok(()), |&cpu| pin(cpu));
            // Alone it may move, which disturbs few rounds.
            let found = if threads > 0 { pinned } else { Ok(()) }.and_then(|()| flushes(beats, effort));
            stop.store(true, Ordering::Relaxed);
            found
        });
        let found = joined(flushing)?;
        others.into_iter().try_for_each(joined)?;
        Ok(found)
    })
}

fn flushes(beats: &[Beat], effort: Effort) -> io::Result<[Option<Quartiles>; 3]> {
    let clock = clock_cost();
    let mut pages = Mapping::of_pages(16)?;
    // The page table stays.
    pages.words().fill(1);
    let mut failed = Ok(());
    let mut gaps = Vec::with_capacity(effort.rounds);
    let advise = quartiles(effort, || {
        pages.words()[0] = 1;
        let (time, gap) = watched(beats, || failed = pages.discard(0, 1))?;
        gaps.extend(gap.map(|gap| (gap - clock).max(0.0)));
        Some((time - clock).max(0.0))
    });
    failed?;
    let mut failed = Ok(());
    let mut slot = Slot::new()?;
    let unmap = quartiles(effort, || {
        failed = slot.fill();
        if failed.is_err() {
            return None;
        }
        let watched = watched(beats, || failed = slot.clear());
        watched.map(|(time, _)| (time - clock).max(0.0))
    });
    failed?;
    Ok([advise, unmap, Quartiles::of(gaps)])
}

/// The time of a call, and the longest time for which the first other thread stood still. Nothing if one of the others
/// did not run just before and just after.
fn watched(beats: &[Beat], call: impl FnOnce()) -> Option<(f64, Option<f64>)> {
    for beat in beats {
        beat.longest.store(0, Ordering::Relaxed);
    }
    let all_ran = beats.iter().all(Beat::goes_on);
    let time = timed(call);
    (all_ran && beats.iter().all(Beat::goes_on)).then(|| {
        let gap = beats.first().map(|beat| beat.longest.load(Ordering::Relaxed) as f64);
        (time, gap)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_threads_are_powers_of_two_and_all() {
        assert_eq!(counts(0), [0]);
        assert_eq!(counts(1), [0, 1]);
        assert_eq!(counts(4), [0, 1, 2, 4]);
        assert_eq!(counts(11), [0, 1, 2, 4, 8, 11]);
    }

    #[test]
    fn a_thread_that_does_not_run_is_noticed() {
        let beats = [Beat::default()];
        let mut called = false;
        assert_eq!(watched(&beats, || called = true), None);
        assert!(called, "the page is given back all the same");
        assert!(watched(&[], || ()).is_some_and(|(_, gap)| gap.is_none()));
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        let effort = Effort { rounds: 1, time: Duration::ZERO };
        assert!(beside(&[0, 1023], 1, effort).is_err());
    }
}
