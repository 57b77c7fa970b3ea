//! How long single operations took: not on average, but the slowest of a hundred and of a thousand.
//!
//! A mechanism that puts flushes off makes somebody pay for them later, and an average hides who. Each time goes into a
//! log-linear histogram (`HdrHistogram`): buckets whose width grows with the value, so that a percentile is as exact for
//! nanoseconds as for seconds, and one that takes no memory for another sample.

use std::cell::RefCell;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The times that are told apart, in picoseconds: from a nanosecond to 10 s. Longer ones count as that.
const SHORTEST: u64 = 1_000;
const LONGEST: u64 = 10_000_000_000_000;
/// A time is kept to three digits.
const DIGITS: u8 = 3;

/// How long the operations of a run took, in simulated seconds: exact to a thousandth, or to a nanosecond if that is more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// No more than half of them took longer.
    pub p50_s: f64,
    /// No more than one of a hundred did.
    pub p99_s: f64,
    /// No more than one of a thousand did.
    pub p999_s: f64,
    /// None did.
    pub max_s: f64,
}

/// What became of allocations that must not wait: how long they took, as [`Latency`], and how many got nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Atomic {
    /// How long they took, those that got nothing included.
    #[serde(flatten)]
    pub latency: Latency,
    /// How many found no frame.
    pub failed: u64,
}

/// Collects the times of operations.
#[derive(Debug)]
pub(crate) struct Latencies(RefCell<Histogram<u64>>);

impl Latencies {
    /// None yet.
    ///
    /// # Panics
    /// Never: the bounds are valid.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS);
        Self(RefCell::new(histogram.expect("bounds a factor of two apart and at most five digits")))
    }

    /// Adds one, in picoseconds.
    pub(crate) fn add(&self, time: u64) {
        self.0.borrow_mut().saturating_record(time);
    }

    /// What they come to; all times 0 if there were none.
    pub(crate) fn summary(&self) -> Latency {
        let histogram = self.0.borrow();
        let seconds = |picoseconds: u64| picoseconds as f64 / 1e12;
        let quantile = |part| seconds(histogram.value_at_quantile(part));
        Latency {
            count: histogram.len(),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            p999_s: quantile(0.999),
            max_s: seconds(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u64]) -> Latency {
        let latencies = Latencies::new();
        for &time in times {
            latencies.add(time);
        }
        latencies.summary()
    }

    /// Whether `found`, in seconds, is a time in picoseconds, but for the width of a bucket.
    fn is(found: f64, exact: u64) -> bool {
        let exact = exact as f64;
        (found * 1e12 - exact).abs() <= (exact / 1e3).max(SHORTEST as f64)
    }

    #[test]
    fn of_nothing_is_nothing() {
        assert_eq!(of(&[]), Latency { count: 0, p50_s: 0.0, p99_s: 0.0, p999_s: 0.0, max_s: 0.0 });
    }

    #[test]
    fn one_slow_one_of_a_thousand_is_the_longest_and_no_percentile() {
        let mut times = vec![2_000_000; 999];
        times.push(9_000_000_000);
        let latency = of(&times);
        assert_eq!(latency.count, 1000);
        for percentile in [latency.p50_s, latency.p99_s, latency.p999_s] {
            assert!(is(percentile, 2_000_000), "{percentile}");
        }
        assert!(is(latency.max_s, 9_000_000_000), "{}", latency.max_s);
        times.push(9_000_000_000);
        assert!(is(of(&times).p999_s, 9_000_000_000), "two of 1001 are more than one of a thousand");
    }

    #[test]
    fn what_is_out_of_bounds_counts_as_the_bound() {
        let latency = of(&[u64::MAX]);
        assert_eq!(latency.count, 1);
        // The last bucket ends at a power of two.
        assert!(latency.max_s >= 10.0 && latency.max_s < 20.0, "{}", latency.max_s);
        assert!(of(&[0]).max_s <= 1e-9);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_times(
            // Spread over all magnitudes, as times that are waited for are.
            mut times in prop::collection::vec((0u32..43, any::<u64>()), 1..3000)
                .prop_map(|times| times.iter().map(|(bits, time)| time >> (63 - bits)).collect::<Vec<_>>()),
        ) {
            let latency = of(&times);
            times.sort_unstable();
            // The first time that so many parts in a thousand are no longer than.
            let exact = |parts: usize| times[(times.len() * parts).div_ceil(1000) - 1];
            prop_assert_eq!(latency.count, times.len() as u64);
            for (found, parts) in [(latency.p50_s, 500), (latency.p99_s, 990), (latency.p999_s, 999)] {
                prop_assert!(is(found, exact(parts)), "{} for {}", found, exact(parts));
            }
            prop_assert!(is(latency.max_s, exact(1000)), "{} for {}", latency.max_s, exact(1000));
        }
    }
}
