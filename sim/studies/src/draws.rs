//! The machines that are drawn to learn how sure a result is, and what it depends on.
//!
//! A draw is a place in the unit cube, with one coordinate for each uncertain number. It is computed from its number
//! alone.

use crate::study::{Method, Sample};

/// How many machines are drawn, and how they hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// So many machines, each with numbers of its own.
    Independent(u64),
    /// So many pairs of machines, and for each pair and each uncertain number a further machine: the first of the pair
    /// with this number from the second. [`indices`](crate::indices()) are computed from them.
    Crossed(u64),
}

/// The places of all draws.
#[derive(Debug)]
pub(crate) struct Places {
    draws: Draws,
    sample: Sample,
    numbers: usize,
}

impl Draws {
    /// The number of machines, if so many numbers are uncertain.
    pub fn machines(self, numbers: usize) -> u64 {
        match self {
            Self::Independent(count) => count,
            Self::Crossed(pairs) => pairs * (numbers as u64 + 2),
        }
    }
}

impl Places {
    pub(crate) fn new(draws: Draws, numbers: usize, seed: u64) -> Self {
        let (dimensions, count) = match draws {
            Draws::Independent(count) => (numbers, count),
            Draws::Crossed(pairs) => (2 * numbers, pairs),
        };
        Self { draws, sample: Sample::new(Method::Sobol, dimensions, count, seed), numbers }
    }

    pub(crate) fn count(&self) -> u64 {
        self.draws.machines(self.numbers)
    }

    /// The place of a draw. The machines of a pair follow each other: the first, then those that differ from it in one
    /// number, then the second.
    pub(crate) fn of(&self, number: u64) -> Vec<f64> {
        if let Draws::Independent(_) = self.draws {
            return self.sample.draw(number);
        }
        let of_pair = self.numbers + 2;
        let (pair, place) = (number / of_pair as u64, (number % of_pair as u64) as usize);
        let mut first = self.sample.draw(pair);
        let second = first.split_off(self.numbers);
        if place == self.numbers + 1 {
            return second;
        }
        if let Some(changed) = place.checked_sub(1) {
            first[changed] = second[changed];
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_between_a_pair_differ_from_its_first_in_one_number() {
        let places = Places::new(Draws::Crossed(4), 3, 7);
        assert_eq!(places.count(), 20);
        for pair in 0..4 {
            let of_pair: Vec<Vec<f64>> = (0..5).map(|place| places.of(pair * 5 + place)).collect();
            let (first, second) = (&of_pair[0], &of_pair[4]);
            for (changed, machine) in of_pair[1..4].iter().enumerate() {
                for number in 0..3 {
                    let expected = if number == changed { second } else { first };
                    assert_eq!(machine[number].to_bits(), expected[number].to_bits());
                }
            }
            assert!(first.iter().zip(second).all(|(one, other)| (one - other).abs() > 1e-9));
        }
    }

    #[test]
    fn independent_draws_do_not_depend_on_their_count() {
        let of = |count| Places::new(Draws::Independent(count), 5, 1).of(3);
        assert_eq!(of(4), of(400));
    }
}
