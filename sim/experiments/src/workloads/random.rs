//! Random numbers that depend on nothing but the seed.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// The numbers of one thread or of one start: one multiplication chain per number, good enough for workloads.
#[derive(Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// The generator of one thread of a run.
    pub(crate) fn of_thread(seed: u64, number: usize) -> Self {
        Self::new(seed.wrapping_mul(0x1_0000).wrapping_add(number as u64))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// The source of randomness for distributions of other crates.
    pub(crate) fn generator(&mut self) -> &mut SplitMix64 {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SplitMix64` as published (Steele, Lea and Flood, OOPSLA 2014). All published results of the simulator, and the
    /// kernel's runs beside them, were computed with these numbers.
    #[test]
    fn numbers_are_those_of_the_publication() {
        for seed in [0, 1, 7, 1_234_567, 1 << 63, u64::MAX] {
            let (mut random, mut state) = (Random::new(seed), seed);
            for _ in 0..1000 {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut number = state;
                number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                assert_eq!(random.next(), number ^ (number >> 31), "seed {seed}");
            }
        }
    }
}
