//! The spread of a figure over runs that differ in nothing but the seed.

use serde::Serialize;

/// The median of a figure, and its range.
///
/// The range is that of the values themselves. It is no confidence interval: a handful of runs says little about the
/// shape of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
}

impl Interval {
    /// The interval of some values. `None` if there are none, or if one is not a finite number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (below, above) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self {
            // The half of each, since the sum may be too large for a number.
            median: below / 2.0 + above / 2.0,
            least: values[0],
            most: values[values.len() - 1],
        })
    }

    /// Whether all values are the same.
    pub fn is_point(&self) -> bool {
        self.least.to_bits() == self.most.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_ones() {
        let interval = |values: &[f64]| Interval::of(values.iter().copied());
        assert_eq!(interval(&[3.0, 1.0, 2.0]), Some(Interval { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(interval(&[4.0, 1.0]), Some(Interval { median: 2.5, least: 1.0, most: 4.0 }));
        assert!(interval(&[7.0]).is_some_and(|one| one.is_point()));
    }

    #[test]
    fn a_value_that_is_not_a_number_leaves_no_interval() {
        for values in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(Interval::of(values.iter().copied()), None);
        }
    }

    proptest! {
        #[test]
        fn half_of_the_values_lie_on_either_side(values in prop::collection::vec(-1e300..1e300, 1..50)) {
            let interval = Interval::of(values.iter().copied()).expect("finite values");
            let below = values.iter().filter(|value| **value < interval.median).count();
            let above = values.iter().filter(|value| **value > interval.median).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
            prop_assert!(values.iter().all(|value| (interval.least..=interval.most).contains(value)));
        }
    }
}
