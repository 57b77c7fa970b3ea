//! The latency of pairs of CPUs: a cache line is handed to and fro between two threads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::computer::{pin, Computer};
use super::quartiles::{quartiles, timed, Effort, Quartiles};
use super::{Failed, Figure, Notes, Quantity};

/// Round trips in a round: long for the clock, short for the scheduler.
const TRIPS: u32 = 100;
/// Lines that the rounds use in turn. A line's address decides which part of the cache is in charge of it.
const LINES: usize = 16;
/// The time that all pairs together take at most.
const TIME: Duration = Duration::from_secs(8);
/// The least time of a pair.
const LEAST: Duration = Duration::from_millis(2);
/// The most time of a pair.
const MOST: Duration = Duration::from_millis(200);

/// A line by itself. Processors may fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU32);

pub(super) fn measure(computer: &Computer, rounds: usize, notes: &mut Notes) -> Result<(), Failed> {
    let cpus: Vec<u32> = computer.cpus().collect();
    if cpus.len() < 2 {
        return Err(Failed::new("latency between CPUs", "the program may use only one CPU"));
    }
    let mut pairs = pairs(&cpus);
    let all = pairs.len();
    let most = (TIME.as_millis() / LEAST.as_millis()) as usize;
    if all > most {
        pairs = sample(pairs, most);
        let reason = format!("{most} of {all} pairs, spread evenly, for want of time");
        notes.missing.push(Failed::new("latency of every pair", reason));
    }
    let time = (TIME / pairs.len() as u32).clamp(LEAST, MOST);
    for (a, b) in pairs {
        let refused = |error: io::Error| Failed::new(format!("latency of CPUs {a} and {b}"), error);
        if let Some(spread) = pair(a, b, Effort { rounds, time }).map_err(refused)? {
            notes.figures.push(Figure { quantity: Quantity::Latency { a, b }, spread });
        }
    }
    Ok(())
}

/// Every pair of CPUs, the smaller number first.
fn pairs(cpus: &[u32]) -> Vec<(u32, u32)> {
    let with = |place: usize| cpus[place + 1..].iter().map(move |&b| (cpus[place], b));
    (0..cpus.len()).flat_map(with).collect()
}

/// So many of the pairs, spread evenly over all.
fn sample(pairs: Vec<(u32, u32)>, count: usize) -> Vec<(u32, u32)> {
    let all = pairs.len();
    // The steps share no factor with the number of CPUs often enough to stay with one of them.
    (0..count.min(all)).map(|place| pairs[(place * all + all / 2) / count.max(1) % all]).collect()
}

/// Half the round trip of a line between two CPUs, in nanoseconds: the median of the rounds.
fn pair(a: u32, b: u32, effort: Effort) -> io::Result<Option<Quartiles>> {
    let lines: [Line; LINES] = Default::default();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let pinned = pin(b);
            if pinned.is_err() {
                stop.store(true, Ordering::Relaxed);
                return pinned;
            }
            for line in (0..LINES).cycle() {
                for _ in 0..TRIPS {
                    if !answer(&lines[line], &stop) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        let asking = scope.spawn(|| {
            let pinned = pin(a);
            let mut next = (0..LINES).cycle();
            let mut round = || {
                let line = &lines[next.next()?];
                let mut whole = true;
                let time = timed(|| whole = (0..TRIPS).all(|_| ask(line, &stop)));
                whole.then(|| time / f64::from(2 * TRIPS))
            };
            let spread = pinned.map(|()| quartiles(effort, &mut round));
            stop.store(true, Ordering::Relaxed);
            spread
        });
        let spread = joined(asking)?;
        joined(answering)?;
        Ok(spread)
    })
}

/// Makes the line's count odd, and waits until the other thread makes it even again.
fn ask(line: &Line, stop: &AtomicBool) -> bool {
    let count = line.0.load(Ordering::Relaxed);
    line.0.store(count.wrapping_add(1), Ordering::Release);
    while line.0.load(Ordering::Acquire) != count.wrapping_add(2) {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
    }
    true
}

/// Waits until the line's count is odd, and makes it even.
fn answer(line: &Line, stop: &AtomicBool) -> bool {
    loop {
        let count = line.0.load(Ordering::Acquire);
        if count % 2 == 1 {
            line.0.store(count.wrapping_add(1), Ordering::Release);
            return true;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
    }
}

/// The result of a thread that does not panic.
pub(super) fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_pair_comes_once() {
        assert_eq!(pairs(&[0, 2, 5]), [(0, 2), (0, 5), (2, 5)]);
        assert_eq!(pairs(&[7]), []);
    }

    proptest! {
        #[test]
        fn a_sample_has_distinct_pairs_of_nearly_all_cpus(count in 100_u32..300) {
            let cpus: Vec<u32> = (0..count).collect();
            let sample = sample(pairs(&cpus), 4000);
            let mut distinct = sample.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), sample.len());
            let reached = |cpu: &u32| sample.iter().any(|(a, b)| a == cpu || b == cpu);
            prop_assert!(cpus.iter().filter(|cpu| reached(cpu)).count() + 2 >= cpus.len());
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        let effort = Effort { rounds: 1, time: Duration::ZERO };
        assert!(pair(0, 1023, effort).is_err() && pair(1023, 0, effort).is_err());
    }
}
