//! Sums over windows, scaled to the time between them.
//!
//! What a window saw stands for the requests from the end of the one before to its own, which the TLB row counts. So the
//! sums have as many requests as the row, however long each window was.

use crate::shootdowns::Totals;
use crate::spread::{Drawings, Spread};

/// A time in which events were on, with the gap before it, for which it stands.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// The shootdowns that ended in it.
    pub totals: Totals,
    /// The requests that were answered in it.
    pub answered: u64,
    /// Its length, in nanoseconds.
    pub watched_ns: u64,
    /// Its length with that of the gap.
    pub whole_ns: u64,
    /// The change of the TLB row in it.
    pub row: u64,
    /// The change with that of the gap.
    pub whole_row: u64,
}

/// The windows of an interval whose events were not on all the time.
#[derive(Debug, Clone)]
pub struct Windows {
    /// The windows, scaled: the sums of all together are those of the interval.
    pub parts: Vec<Totals>,
    /// The requests for which each stands.
    requests: Vec<u64>,
    /// The requests of the interval.
    total: u64,
    drawings: Drawings,
}

impl Windows {
    /// The windows of an interval over which the TLB row changed by `row`. Each stands for the requests from the end of the
    /// one before to its own, so the more there are, the more a window counts. The sums then have `row` requests.
    pub(super) fn new(windows: &[Window], row: u64) -> Self {
        let seen = windows.iter().filter(|window| window.totals.all.requests > 0);
        let known: u64 = seen.map(|window| window.whole_row).sum();
        // The end of the interval, and windows without requests, are like the rest.
        let rest = if known > 0 { row as f64 / known as f64 } else { 1.0 };
        let scale = |window: &Window| match window.totals.all.requests {
            0 => window.whole_ns as f64 / window.watched_ns.max(1) as f64,
            requests => rest * window.whole_row as f64 / requests as f64,
        };
        let parts: Vec<Totals> = windows.iter().map(|window| window.totals.times(scale(window))).collect();
        let requests = parts.iter().map(|part| part.all.requests).collect();
        Self { parts, requests, total: row, drawings: Drawings::new(windows.len()) }
    }

    /// The range of a sum over the interval, which has these values in the windows; none if it has no meaning.
    pub fn spread(&self, values: &[u64]) -> Option<Spread> {
        let Spread { low, high } = self.drawings.of_ratio(values, &self.requests)?;
        Some(Spread { low: low * self.total as f64, high: high * self.total as f64 })
    }

    /// The range of the ratio of two sums.
    pub fn spread_of_ratio(&self, above: &[u64], below: &[u64]) -> Option<Spread> {
        self.drawings.of_ratio(above, below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shootdowns::{Cause, CpuSum, Sum};

    /// A window in which two causes have so many requests, and which stands for so many.
    fn window(munmap: u64, madvise: u64, whole_row: u64) -> Window {
        let sum =
            |requests| Sum { flushes: 2 * requests, requests, sender_ns: 1000 * requests, ..Sum::default() };
        let mut totals = Totals { all: sum(munmap + madvise), ..Totals::default() };
        for (cause, requests) in [(Cause::Munmap, munmap), (Cause::Madvise, madvise)] {
            totals.causes.insert(cause, sum(requests));
            totals.processes.insert((7, cause), sum(requests));
        }
        totals.victims.insert(9, (munmap + madvise, 50));
        totals.pairs.insert((0, 1), munmap + madvise);
        totals.cpus.insert(1, CpuSum { received: munmap + madvise, slowest_ns: 77, ..CpuSum::default() });
        Window { totals, watched_ns: 10, whole_ns: 100, row: munmap + madvise, whole_row, answered: 0 }
    }

    /// The sums of all windows.
    fn sums(windows: &Windows) -> Totals {
        let mut totals = Totals::default();
        for part in &windows.parts {
            totals.add(part);
        }
        totals
    }

    #[test]
    fn scaled_requests_are_those_of_the_row() {
        let mut numbers = crate::random::Numbers::new(5);
        for _ in 0..200 {
            let mut windows = Vec::new();
            let mut row = 0;
            for _ in 0..=numbers.below(12) {
                let [munmap, madvise] = [numbers.below(300) as u64, numbers.below(20) as u64];
                let whole_row = munmap + madvise + numbers.below(5000) as u64;
                row += whole_row;
                windows.push(window(munmap, madvise, whole_row));
            }
            // After the last window.
            row += numbers.below(500) as u64;
            let known = windows.iter().any(|window| window.totals.all.requests > 0);
            let all = sums(&Windows::new(&windows, row));
            // Each window is rounded.
            let is_near = |sum: u64| sum.abs_diff(if known { row } else { 0 }) <= 2 * windows.len() as u64;
            assert!(is_near(all.all.requests), "{} of {row}", all.all.requests);
            assert!(is_near(all.causes.values().map(|sum| sum.requests).sum()));
            assert!(is_near(all.processes.values().map(|sum| sum.requests).sum()));
            assert!(
                is_near(all.cpus[&1].received) && is_near(all.victims[&9].0) && is_near(all.pairs[&(0, 1)])
            );
            assert_eq!(all.cpus[&1].slowest_ns, 77);
        }
    }

    #[test]
    fn a_window_counts_by_the_requests_for_which_it_stands_not_by_those_it_saw() {
        // The second was short, since there was much.
        let windows = [window(1000, 0, 1000), window(0, 100, 9000)];
        let all = sums(&Windows::new(&windows, 10_000));
        let requests = |cause| all.causes[&cause].requests;
        assert_eq!((requests(Cause::Munmap), requests(Cause::Madvise)), (1000, 9000));
        assert_eq!(all.causes[&Cause::Madvise].flushes, 18_000);
    }

    #[test]
    fn without_requests_the_time_scales() {
        let mut idle = window(0, 0, 3);
        idle.totals.all.flushes = 5;
        assert_eq!(sums(&Windows::new(&[idle], 3)).all.flushes, 50);
    }

    #[test]
    fn the_range_is_of_what_differs_between_windows() {
        let alike: Vec<Window> = (0..10).map(|_| window(60, 40, 1000)).collect();
        let different: Vec<Window> = (0..10)
            .map(|part| if part % 2 == 0 { window(90, 10, 1000) } else { window(30, 70, 1000) })
            .collect();
        for (windows, is_wide) in [(alike, false), (different, true)] {
            let windows = Windows::new(&windows, 10_000);
            let values = |of: fn(&Totals) -> u64| windows.parts.iter().map(of).collect::<Vec<u64>>();
            let all = windows.spread(&values(|part| part.all.requests)).expect("a range");
            assert_eq!((all.low, all.high), (10_000.0, 10_000.0), "the row is known");
            let part = windows.spread(&values(|part| part.causes[&Cause::Munmap].requests)).expect("a range");
            assert!(part.low <= 6000.0 && part.high >= 6000.0, "{part:?}");
            assert_eq!(part.high > part.low, is_wide, "{part:?}");
        }
    }
}
