//! The sizes of the TLB's levels, and what their misses cost: loads that depend on each other, one line a page, on ever
//! more pages.
//!
//! As many lines packed into pages of 2 MiB are the control: the difference is that of the translations alone. Pages
//! are brought in at random, so neighbours have no neighbouring frames, which some processors hold in one entry.

use std::io;
use std::thread;
use std::time::Duration;

use super::computer::{pin, Computer};
use super::latency::joined;
use super::mapping::{Mapping, PAGE_WORDS};
use super::quartiles::{quartiles, timed, Effort, Quartiles};
use super::steps::{sizes, steps, Point, Steps};
use super::{Failed, Figure, Notes, Quantity};
use crate::random::Numbers;

/// The most pages of the curve. No TLB is known to have a quarter of it.
const PAGES: usize = 16_384;
/// The words of a cache line.
const LINE: usize = 8;
/// The lines of a page.
const LINES: usize = PAGE_WORDS / LINE;
/// Loads in a round, at least.
const LOADS: usize = 2048;
/// The time of a point of the curve at most.
const TIME: Duration = Duration::from_millis(60);
/// The number of page-table entries in a cache line.
const ENTRIES: usize = 8;
/// Lines of page-table entries of which each round loads one entry. Their tables are few enough for the walker's
/// caches; their pages, over all rounds, are too many for the TLB.
const FAR_LINES: usize = 1024;
/// Lines of page-table entries whose pages the first level holds.
const NEAR_LINES: usize = 16;
/// The size of a page of 2 MiB, in bytes.
const HUGE: usize = 2 << 20;
/// The largest buffer that replaces the lines in the caches, in bytes.
const MOST_EVICTION: usize = 256 << 20;
/// The time of all rounds that replace the lines at most.
const FAR_TIME: Duration = Duration::from_secs(1);

pub(super) fn measure(
    computer: &Computer,
    (rounds, memory): (usize, u64),
    notes: &mut Notes,
) -> Result<(), Failed> {
    const LEVELS: &str = "sizes and costs of the TLB's levels";
    let cpu = computer.cpus().next();
    let effort = Effort { rounds, time: TIME };
    let far_effort = Effort { rounds, time: FAR_TIME };
    let eviction = eviction(computer.cache(), memory);
    let (curve, far) = thread::scope(|scope| {
        joined(scope.spawn(|| {
            // Without it the thread may move, which disturbs few rounds.
            let _ = cpu.map(pin);
            (curve(effort), eviction.map(|bytes| far_step(bytes, far_effort)))
        }))
    });
    match far {
        Some(far) => notes.note(Quantity::WalkMemory, far),
        None => notes.missing.push(Failed::new(
            Quantity::WalkMemory.name(),
            "a buffer that exceeds the caches needs more memory than a sixteenth of what is free",
        )),
    }
    let curve = curve.map_err(|error| Failed::new(LEVELS, error))?;
    let found = steps(&curve).ok_or_else(|| {
        let [first, last] = [curve.first(), curve.last()].map(|point| point.map_or(0.0, |point| point.1));
        Failed::new(LEVELS, format!("from {first:.1} to {last:.1} ns a load, there are no two clear steps"))
    })?;
    note(&found, notes);
    Ok(())
}

/// Notes the sizes and the costs of the levels.
fn note(found: &Steps, notes: &mut Notes) {
    let over = |level: usize| {
        Quartiles::of(found.costs[level].iter().map(|cost| (cost - found.levels[0]).max(0.0)).collect())
    };
    for (level, quantity) in [Quantity::FirstEntries, Quantity::SecondEntries].into_iter().enumerate() {
        let (last, next) = (found.last[level] as f64, found.next[level] as f64);
        let spread =
            Quartiles { median: last, low: last, high: next, rounds: found.costs.iter().map(Vec::len).sum() };
        notes.figures.push(Figure { quantity, spread });
    }
    notes.note(Quantity::SecondHit, Ok(over(1)));
    notes.note(Quantity::Walk, Ok(over(2)));
}

/// The time of a load, in nanoseconds, for each number of pages.
fn curve(effort: Effort) -> io::Result<Vec<Point>> {
    let mut numbers = Numbers::new(0x2545_F491_4F6C_DD1D);
    let mut spaced = Mapping::of_pages(PAGES)?;
    for page in numbers.shuffled(PAGES) {
        spaced.words()[page * PAGE_WORDS] = 1;
    }
    // Linux gives huge pages where a whole one fits, so there is one more than needed.
    let huge = HUGE / size_of::<u64>();
    let mut packed = Mapping::huge((PAGES * LINE).next_multiple_of(huge) * size_of::<u64>() + HUGE)?;
    let packed = packed.words();
    let start = packed.as_ptr().align_offset(HUGE).min(huge);
    let packed = &mut packed[start..start + PAGES * LINE];
    packed.fill(0);
    let mut points = Vec::new();
    let mut first = None;
    for count in sizes(PAGES) {
        let order = numbers.shuffled(count);
        // Each page has another of its lines in use, so that no part of a cache gets more lines than another.
        let of_page = |page: usize| page * PAGE_WORDS + page % LINES * LINE;
        let of_line = |line: usize| line * LINE;
        let Some(pages) = chase(spaced.words(), &order, of_page, effort) else { continue };
        let Some(lines) = chase(packed, &order, of_line, effort) else { continue };
        let first = *first.get_or_insert(lines.median);
        points.push((count, pages.median - lines.median + first));
    }
    Ok(points)
}

/// The time of a load of words each of which says where the next one is, in nanoseconds: the median of the rounds.
fn chase(
    words: &mut [u64],
    order: &[usize],
    place: impl Fn(usize) -> usize,
    effort: Effort,
) -> Option<Quartiles> {
    for (&from, &to) in order.iter().zip(order.iter().cycle().skip(1)) {
        words[place(from)] = place(to) as u64;
    }
    let (words, loads) = (&*words, LOADS.max(order.len()));
    let mut at = place(order[0]) as u64;
    quartiles(effort, || {
        let time = timed(|| {
            for _ in 0..loads {
                at = words[at as usize];
            }
        });
        at = std::hint::black_box(at);
        Some(time / loads as f64)
    })
}

/// The size of a buffer that exceeds the last-level cache twice, in bytes; `None` if a sixteenth of the memory does not
/// hold it.
pub(super) fn eviction(cache: usize, memory: u64) -> Option<usize> {
    let bytes = (2 * cache).min(MOST_EVICTION).next_multiple_of(HUGE);
    (bytes as u64 <= memory / 16).then_some(bytes)
}

/// The time of a walk's last step whose line comes from memory, in nanoseconds: the median of the rounds.
///
/// Before each round, loads from a buffer of `bytes` replace all lines in the caches. Its pages of 2 MiB replace few
/// translations. Linux maps one frame of zeros wherever a program loads from a page without a frame. So the data take
/// one line, and each load brings a line of page-table entries from memory. The place of the next load depends on the
/// loaded zero.
fn far_step(bytes: usize, effort: Effort) -> io::Result<Option<Quartiles>> {
    let mut buffer = Mapping::huge(bytes)?;
    buffer.words().fill(1);
    let buffer = &*buffer.words();
    let mut mapping = Mapping::of_pages(FAR_LINES * ENTRIES)?;
    let words = &*mapping.words();
    let mut zeros = 0;
    // Loads from a page of each of `lines` lines of entries, each once: the period is full below a power of two (Hull
    // and Dobell).
    let mut chase = |lines: usize, entry: usize| {
        let mut line = 0_usize;
        timed(|| {
            for _ in 0..FAR_LINES {
                line = line.wrapping_mul(1_664_525).wrapping_add(1_013_904_223 + zeros as usize);
                zeros = std::hint::black_box(words)[(line % lines * ENTRIES + entry) * PAGE_WORDS];
            }
        }) / FAR_LINES as f64
    };
    for entry in 0..ENTRIES {
        chase(FAR_LINES, entry);
    }
    let near = quartiles(effort, || Some(chase(NEAR_LINES, 0)));
    let mut entries = (0..ENTRIES).cycle();
    let far = quartiles(effort, || {
        let ones: u64 = buffer.iter().step_by(LINE).sum();
        std::hint::black_box(ones);
        // The entries of the other rounds replace these ones in the TLB.
        Some(chase(FAR_LINES, entries.next()?))
    });
    Ok(near.zip(far).map(|(near, far)| far.map(|far| (far - near.median).max(0.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eviction_exceeds_the_cache_or_is_not_made() {
        assert_eq!(eviction(32 << 20, u64::MAX), Some(64 << 20));
        assert_eq!(eviction(1 << 30, u64::MAX), Some(256 << 20));
        assert_eq!(eviction((1 << 20) + 1, u64::MAX), Some(4 << 20));
        assert_eq!(eviction(32 << 20, 1 << 30), Some(64 << 20));
        assert_eq!(eviction(32 << 20, (1 << 30) - 16), None);
    }

    #[test]
    fn a_chase_visits_every_place() {
        let mut words = vec![0; 64];
        let effort = Effort { rounds: 1, time: Duration::ZERO };
        assert!(chase(&mut words, &[3, 1, 2], |place| 8 * place, effort).is_some());
        assert_eq!([words[24], words[8], words[16]], [8, 16, 24]);
    }
}
