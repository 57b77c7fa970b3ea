//! Random numbers that are the same everywhere for the same seed.

use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// One multiplication chain per number, good enough to vary starts.
#[derive(Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut random = Random::new(1);
        let seen = (0..1000).fold(0_u64, |seen, _| seen | 1 << random.below(10));
        assert_eq!(seen, 0x3ff);
    }
}
