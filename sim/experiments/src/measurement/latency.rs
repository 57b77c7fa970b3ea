//! The latencies of single operations: their percentiles, which an average would hide.
//!
//! A mechanism that defers flushes makes some later operation pay for them. Each latency goes into a log-linear
//! histogram (`HdrHistogram`). Its buckets grow with the value, so a percentile is as exact for nanoseconds as for
//! seconds, and a further sample takes no memory.

use std::cell::RefCell;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The range of latencies that the histogram distinguishes, in picoseconds: 1 ns to 10 s. Longer ones count as 10 s.
const SHORTEST: u64 = 1_000;
const LONGEST: u64 = 10_000_000_000_000;
/// The number of significant digits of a latency.
const DIGITS: u8 = 3;

/// The latencies of a run's operations, in simulated seconds. They are exact to a thousandth of their value or to 1 ns,
/// whichever is more.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The number of measured operations.
    pub count: u64,
    /// The median: at most half of the operations took longer.
    pub p50_s: f64,
    /// At most one operation of a hundred took longer.
    pub p99_s: f64,
    /// At most one operation of a thousand took longer.
    pub p999_s: f64,
    /// The longest latency.
    pub max_s: f64,
}

/// The allocations that must not wait: their latencies, and the number that failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Atomic {
    /// Their latencies, failed allocations included.
    #[serde(flatten)]
    pub latency: Latency,
    /// The number of allocations that found no frame.
    pub failed: u64,
}

/// Collects latencies.
#[derive(Debug)]
pub(crate) struct Latencies(RefCell<Histogram<u64>>);

impl Latencies {
    /// An empty collection.
    ///
    /// # Panics
    /// Never: the bounds are valid.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS);
        Self(RefCell::new(histogram.expect("bounds a factor of two apart and at most five digits")))
    }

    /// Adds a latency, in picoseconds.
    pub(crate) fn add(&self, time: u64) {
        self.0.borrow_mut().saturating_record(time);
    }

    /// The count and the percentiles, all 0 for an empty collection.
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

    /// Whether `found`, in seconds, equals `exact`, in picoseconds, to within the width of a bucket.
    fn is(found: f64, exact: u64) -> bool {
        let exact = exact as f64;
        (found * 1e12 - exact).abs() <= (exact / 1e3).max(SHORTEST as f64)
    }

    #[test]
    fn an_empty_collection_has_zeros() {
        assert_eq!(of(&[]), Latency { count: 0, p50_s: 0.0, p99_s: 0.0, p999_s: 0.0, max_s: 0.0 });
    }

    #[test]
    fn one_slow_operation_of_a_thousand_sets_the_maximum_and_no_percentile() {
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
    fn a_latency_out_of_range_counts_as_the_nearest_bound() {
        let latency = of(&[u64::MAX]);
        assert_eq!(latency.count, 1);
        // The last bucket ends at a power of two.
        assert!(latency.max_s >= 10.0 && latency.max_s < 20.0, "{}", latency.max_s);
        assert!(of(&[0]).max_s <= 1e-9);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_times(
            // Waiting times spread over all magnitudes.
            mut times in prop::collection::vec((0u32..43, any::<u64>()), 1..3000)
                .prop_map(|times| times.iter().map(|(bits, time)| time >> (63 - bits)).collect::<Vec<_>>()),
        ) {
            let latency = of(&times);
            times.sort_unstable();
            // The shortest time that at least `parts` in a thousand of the times do not exceed.
            let exact = |parts: usize| times[(times.len() * parts).div_ceil(1000) - 1];
            prop_assert_eq!(latency.count, times.len() as u64);
            for (found, parts) in [(latency.p50_s, 500), (latency.p99_s, 990), (latency.p999_s, 999)] {
                prop_assert!(is(found, exact(parts)), "{} for {}", found, exact(parts));
            }
            prop_assert!(is(latency.max_s, exact(1000)), "{} for {}", latency.max_s, exact(1000));
        }
    }
}
