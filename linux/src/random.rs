//! Numbers at random that are the same in every run.

/// The generator of G. Marsaglia, "Xorshift RNGs", 2003.
#[derive(Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// The numbers that follow from a seed, which is not 0.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// The numbers below `count`, at random (Fisher and Yates).
    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for place in (1..count).rev() {
            order.swap(place, self.below(place + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_at_random_has_every_number_once() {
        let mut order = Numbers::new(7).shuffled(1000);
        assert!(order.windows(2).any(|pair| pair[0] > pair[1]));
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
