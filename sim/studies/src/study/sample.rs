//! Draws from the unit cube: one number in [0, 1) for each dimension.
//!
//! A draw is computed from its number alone, so that a study can go on anywhere, and two computers agree. The Sobol
//! sequence can be extended: its first draws do not depend on how many follow. A Latin hypercube cannot.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use serde::Serialize;
use sobol::params::JoeKuoD6;
use sobol::Sobol;

/// The most dimensions, those of the table of direction numbers (S. Joe and F. Kuo, 2008).
pub(super) const MOST_DIMENSIONS: usize = 1000;
/// The most draws: the coordinates of the Sobol sequence have so many values.
pub(super) const MOST_DRAWS: u64 = 1 << 32;

/// The way in which draws fill the cube.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A Sobol sequence, each coordinate of which is shifted at random by exclusive or.
    Sobol,
    /// Each coordinate has one draw in each of as many equal intervals as there are draws.
    LatinHypercube,
    /// Independent draws.
    Random,
}

impl Method {
    /// Their names.
    pub(super) const ALL: [(&'static str, Self); 3] =
        [("sobol", Self::Sobol), ("latin-hypercube", Self::LatinHypercube), ("random", Self::Random)];
}

/// A number of draws.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    method: Method,
    count: u64,
    seed: u64,
    /// For each dimension of a Sobol sequence, its direction numbers.
    directions: Vec<Vec<u64>>,
    dimensions: usize,
}

impl Sample {
    /// `count` draws, at most [`MOST_DRAWS`], in at most [`MOST_DIMENSIONS`].
    pub(crate) fn new(method: Method, dimensions: usize, count: u64, seed: u64) -> Self {
        let directions = match method {
            Method::Sobol => {
                Sobol::<f64>::init_direction_vals::<u32>(dimensions, BITS, &JoeKuoD6::standard())
            }
            _ => Vec::new(),
        };
        Self { method, count, seed, directions, dimensions }
    }

    /// The number of draws.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The coordinates of a draw.
    pub(crate) fn draw(&self, number: u64) -> Vec<f64> {
        (0..self.dimensions).map(|dimension| self.coordinate(number, dimension)).collect()
    }

    fn coordinate(&self, number: u64, dimension: usize) -> f64 {
        let key = mixed(self.seed ^ mixed(dimension as u64));
        match self.method {
            Method::Random => unit(mixed(key ^ mixed(number))),
            Method::LatinHypercube => {
                let interval = permuted(number, self.count, key);
                let within = unit(mixed(!key ^ mixed(number)));
                // Rounding must not lead out of the cube.
                ((interval as f64 + within) / self.count as f64).min(1.0 - f64::EPSILON)
            }
            Method::Sobol => {
                let gray = number ^ (number >> 1);
                let bits = (0..BITS).filter(|bit| gray >> bit & 1 == 1);
                let point = bits.fold(0, |point, bit| point ^ self.directions[dimension][bit]);
                // The sequence as published has no shift: seed 0.
                let shift = if self.seed == 0 { 0 } else { key };
                unit(point ^ shift)
            }
        }
    }
}

/// The number of bits of a draw's number.
const BITS: usize = 32;

/// The number in [0, 1) whose first binary digits these are.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A number in which every bit depends on every bit of the given one: the first that it gives as a seed. A draw is a
/// function of its number, so no generator can run through the draws.
pub(crate) fn mixed(number: u64) -> u64 {
    SplitMix64::seed_from_u64(number).next_u64()
}

/// The place of a number in a random permutation of the numbers below `count`, which it is below itself: a Feistel
/// network over the next power of four, walked until it leads back below `count`.
fn permuted(number: u64, count: u64, key: u64) -> u64 {
    let half = count.next_power_of_two().ilog2().div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut number = number;
    loop {
        let (mut left, mut right) = (number >> half, number & mask);
        for round in 0..6 {
            (left, right) = (right, left ^ (mixed(right ^ mixed(key ^ round)) & mask));
        }
        number = left << half | right;
        if number < count {
            return number;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCIPY: [(u64, [f64; 5]); 5] = [
        (1, [0.5; 5]),
        (2, [0.75, 0.25, 0.25, 0.75, 0.25]),
        (3, [0.25, 0.75, 0.75, 0.25, 0.75]),
        (7, [0.125, 0.625, 0.375, 0.125, 0.125]),
        (11, [0.4375, 0.5625, 0.1875, 0.8125, 0.3125]),
    ];

    #[test]
    fn a_number_is_mixed_as_in_the_data_sets_written_so_far() {
        assert_eq!(
            [0, 1, 1_234_567, u64::MAX].map(mixed),
            [0xe220_a839_7b1d_cdaf, 0x910a_2dec_8902_5cc1, 0x599e_d017_fb08_fc85, 0xe4d9_7177_1b65_2c20]
        );
    }

    #[test]
    fn the_sobol_sequence_is_that_of_joe_and_kuo() {
        let sample = Sample::new(Method::Sobol, 40, 16, 0);
        // As scipy 1.17 computes it: scipy.stats.qmc.Sobol(d=40, scramble=False).
        for (number, expected) in SCIPY {
            let draw = sample.draw(number);
            let bits = [0, 1, 2, 4, 39].map(|dimension| draw[dimension].to_bits());
            assert_eq!(bits, expected.map(f64::to_bits), "draw {number}");
        }
    }

    #[test]
    fn a_shifted_sobol_sequence_fills_every_interval_once() {
        let sample = Sample::new(Method::Sobol, 3, 64, 7);
        for dimension in 0..3 {
            let mut cells: Vec<u64> =
                (0..64).map(|number| (sample.draw(number)[dimension] * 64.0) as u64).collect();
            cells.sort_unstable();
            assert_eq!(cells, (0..64).collect::<Vec<_>>());
        }
        assert_ne!(sample.draw(0), Sample::new(Method::Sobol, 3, 64, 8).draw(0));
    }

    proptest! {
        #[test]
        fn a_latin_hypercube_has_one_draw_in_each_interval(count in 1u64..300, seed in any::<u64>()) {
            let sample = Sample::new(Method::LatinHypercube, 2, count, seed);
            for dimension in 0..2 {
                let cell = |number| (sample.draw(number)[dimension] * count as f64) as u64;
                let mut cells: Vec<u64> = (0..count).map(cell).collect();
                cells.sort_unstable();
                prop_assert_eq!(cells, (0..count).collect::<Vec<_>>());
            }
        }

        #[test]
        fn every_draw_is_in_the_cube(number in 0..MOST_DRAWS, seed in any::<u64>()) {
            for (_, method) in Method::ALL {
                let draw = Sample::new(method, 4, MOST_DRAWS, seed).draw(number);
                prop_assert!(draw.iter().all(|one| (0.0..1.0).contains(one)), "{draw:?}");
            }
        }

        #[test]
        fn a_sobol_sequence_does_not_depend_on_its_length(number in 0u64..1000, count in 1000u64..5000) {
            let draw = |count| Sample::new(Method::Sobol, 3, count, 5).draw(number);
            prop_assert_eq!(draw(count), draw(1000));
        }
    }
}
