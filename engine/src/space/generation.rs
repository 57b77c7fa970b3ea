//! Generations: the age of the entries that a CPU may hold.
//!
//! Every flush requested of a space raises the space's generation by one. A CPU records the generation up to which it
//! has done every flush. A comparison of the two shows whether the CPU is behind, and by how much. At one flush a
//! nanosecond, 64 bits last for 584 years, so generations do not wrap.

use crate::primitive::{AtomicU64, Ordering};

/// A point in the sequence of flushes of one address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Generation(u64);

impl Generation {
    /// Before any flush. A space starts at [`Generation::FIRST`], so no space has this generation.
    pub const NONE: Self = Self(0);
    /// The first generation of a space.
    pub const FIRST: Self = Self(1);

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether `self` is the very next after `earlier`, so a CPU can have missed no flush in between.
    pub(crate) const fn follows(self, earlier: Self) -> bool {
        self.0 == earlier.0 + 1
    }

    /// Whether a CPU that has reached `reached` has nothing left to do for a request of this generation. A request of no
    /// generation is for the newest.
    pub(crate) fn is_covered_by(self, reached: Self) -> bool {
        self != Self::NONE && self <= reached
    }

    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// A generation that several CPUs read and raise.
#[derive(Debug)]
pub(crate) struct AtomicGeneration(AtomicU64);

impl AtomicGeneration {
    pub(crate) const fn new(at: Generation) -> Self {
        Self(AtomicU64::new(at.0))
    }

    /// Requests one more flush, and returns its generation.
    ///
    /// Sequentially consistent: page-table stores come before it, and the read of the CPUs that run the space comes
    /// after it. A CPU that starts to run the space in between reads the new generation.
    pub(crate) fn raise(&self) -> Generation {
        Generation(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(crate) fn load(&self) -> Generation {
        Generation(self.0.load(Ordering::SeqCst))
    }

    /// The generation that the next [`AtomicGeneration::raise`] returns, if no other comes before.
    pub(crate) fn next(&self) -> Generation {
        Generation(self.load().0 + 1)
    }

    /// Raises the generation to at least `to`. The exchange releases what the caller did, and what others released by
    /// theirs stays released. A caller that finds the value there has nothing to say.
    pub(crate) fn raise_to(&self, to: Generation) {
        // Mostly the value is there already, and a load is cheaper than a failed exchange.
        let mut at = self.0.load(Ordering::Relaxed);
        while at < to.0 {
            match self.0.compare_exchange_weak(at, to.0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => at = newer,
            }
        }
    }

    /// Raises `self` to `last` if no flush before `first` is missing. The flushes from `first` to `last` are done, and
    /// `self` says that all up to it are. If one is missing, `self` stays, which claims too little and never too much.
    pub(crate) fn extend(&self, first: Generation, last: Generation) {
        let mut at = self.0.load(Ordering::Relaxed);
        while at < last.0 && at + 1 >= first.0 {
            match self.0.compare_exchange_weak(at, last.0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => at = newer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(raw: u64) -> Generation {
        Generation::from_raw(raw)
    }

    #[test]
    fn the_next_generation_is_the_one_that_is_raised() {
        let at = AtomicGeneration::new(generation(4));
        assert_eq!((at.next(), at.raise(), at.load()), (generation(5), generation(5), generation(5)));
        at.raise_to(generation(3));
        assert_eq!(at.load(), generation(5), "it never falls");
    }

    #[test]
    fn a_cpu_covers_requests_up_to_its_generation_and_none_for_the_newest() {
        let covered = |request: u64| generation(request).is_covered_by(generation(5));
        assert!(covered(5) && covered(1) && !covered(6));
        assert!(!Generation::NONE.is_covered_by(generation(5)));
    }

    #[test]
    fn extending_never_skips_a_missing_flush() {
        let reached = AtomicGeneration::new(generation(4));
        for (first, last, then) in [(6, 7, 4), (5, 6, 6), (3, 5, 6), (2, 9, 9)] {
            reached.extend(generation(first), generation(last));
            assert_eq!(reached.load(), generation(then), "{first} to {last}");
        }
    }
}
