//! How much a figure of a recording varies.
//!
//! A recording is one run, so its figures have no repeats. Its time is divided into parts instead, and a figure is
//! computed again from parts that are drawn at random (a block bootstrap). Parts are long against a shootdown, and so
//! nearly independent of each other.

use crate::random::Numbers;

/// The same recording always gives the same range.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of drawings.
const DRAWINGS: usize = 1000;

/// The fewest parts with a value, of both recordings together, for which it is not by chance that all of them are in one:
/// five of 40 are with a chance of one in 21 (`2 * C(20, 5) / C(40, 5)`).
const LEAST: usize = 5;

/// The part of the drawings that the interval leaves out at each end: it holds nine of ten.
const OUTSIDE: f64 = 0.05;

/// A range in which a figure lies with nine chances of ten, as far as the parts tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Drawings of parts, which several figures of the same parts share.
#[derive(Debug, Clone)]
pub struct Drawings {
    parts: usize,
    /// The parts of all drawings, one after the other.
    drawn: Vec<usize>,
}

impl Drawings {
    /// Drawings of so many parts.
    pub fn new(parts: usize) -> Self {
        let mut numbers = Numbers::new(SEED);
        let drawn = if parts < 2 { 0 } else { DRAWINGS * parts };
        Self { parts, drawn: (0..drawn).map(|_| numbers.below(parts)).collect() }
    }

    /// The spread of the ratio of two sums over the parts; none if it has no meaning.
    pub fn of_ratio(&self, above: &[u64], below: &[u64]) -> Option<Spread> {
        let pairs: Vec<(f64, f64)> =
            above.iter().zip(below).map(|(above, below)| (*above as f64, *below as f64)).collect();
        if pairs.len() < self.parts || self.drawn.is_empty() || pairs.iter().all(|(_, below)| *below == 0.0) {
            return None;
        }
        let ratios = self.drawn.chunks_exact(self.parts).filter_map(|drawn| {
            let add = |sum: (f64, f64), pair: (f64, f64)| (sum.0 + pair.0, sum.1 + pair.1);
            let (above, below) = drawn.iter().map(|part| pairs[*part]).fold((0.0, 0.0), add);
            (below > 0.0).then_some(above / below)
        });
        middle(ratios.collect())
    }
}

/// The spread of the ratio of two sums over the same parts; none if it has no meaning.
pub fn of_ratio(above: &[u64], below: &[u64]) -> Option<Spread> {
    Drawings::new(above.len().min(below.len())).of_ratio(above, below)
}

/// The spread of the ratio of two sums over parts of different recordings, which are drawn separately; none if it has no
/// meaning, or too few parts have a value.
pub fn of_independent(above: &[u64], below: &[u64]) -> Option<Spread> {
    let values = above.iter().chain(below).filter(|value| **value > 0).count();
    if above.len() < 2 || below.len() < 2 || values < LEAST || below.iter().all(|value| *value == 0) {
        return None;
    }
    let mut numbers = Numbers::new(SEED);
    let mut drawn =
        |from: &[u64]| (0..from.len()).map(|_| from[numbers.below(from.len())] as f64).sum::<f64>();
    let ratios = (0..DRAWINGS).filter_map(|_| {
        let (above, below) = (drawn(above), drawn(below));
        (below > 0.0).then_some(above / below)
    });
    middle(ratios.collect())
}

/// The range of the middle nine of ten values.
fn middle(mut values: Vec<f64>) -> Option<Spread> {
    let last = values.len().checked_sub(1)?;
    let mut at = |part: f64| {
        let place = (part * last as f64).round() as usize;
        *values.select_nth_unstable_by(place, f64::total_cmp).1
    };
    Some(Spread { low: at(OUTSIDE), high: at(1.0 - OUTSIDE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_is_the_same_in_every_part_has_no_spread() {
        let below = [10, 500, 3, 77];
        let above = below.map(|value| value * 3);
        assert_eq!(of_ratio(&above, &below), Some(Spread { low: 3.0, high: 3.0 }));
    }

    #[test]
    fn the_spread_holds_the_ratio_and_grows_with_the_differences() {
        let below = [100; 20];
        let width = |step: u64| {
            let above: Vec<u64> = (0..20).map(|part| 100 + step * (part % 2)).collect();
            let ratio = above.iter().sum::<u64>() as f64 / 2000.0;
            let spread = of_ratio(&above, &below).expect("a spread");
            assert!(spread.low <= ratio && ratio <= spread.high, "{spread:?} {ratio}");
            spread.high - spread.low
        };
        assert!(width(10) < width(50));
    }

    #[test]
    fn what_is_in_few_parts_tells_nothing_of_another_recording() {
        let in_parts = |parts| {
            let below: Vec<u64> = (0..20).map(|part| if part < parts { 7 } else { 0 }).collect();
            of_independent(&[0; 20], &below)
        };
        assert_eq!(in_parts(LEAST - 1), None);
        assert_eq!(in_parts(LEAST), Some(Spread { low: 0.0, high: 0.0 }));
    }

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(of_independent(&[1, 2], &[0, 0]), None);
        assert_eq!(of_ratio(&[], &[]), None);
        assert_eq!(of_ratio(&[1, 2], &[0, 0]), None);
    }
}
