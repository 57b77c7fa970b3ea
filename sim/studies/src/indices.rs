//! Sobol indices: the part of a figure's variance that comes from each uncertain number.
//!
//! The first-order index of a number is the part that vanishes if this number alone were known. The total index also
//! counts what the number does together with others: a number whose total is near 0 need not be known better. Indices
//! of numbers that act alone sum to 1.
//!
//! They are estimated from [crossed draws](crate::Draws::Crossed), the first-order index as in A. Saltelli et al.,
//! "Variance based sensitivity analysis of model output", Computer Physics Communications 181 (2010), table 2 (b), and
//! the total index as in its row (f), by M. Jansen (1999). The library `SALib` computes the same.

use serde::Serialize;

use crate::study::mixed;

/// The resamples from which the errors are estimated.
const RESAMPLES: u64 = 200;
/// Nine of ten values of a normal distribution lie within so many standard deviations.
const NINE_OF_TEN: f64 = 1.644_853_626_951;

/// The indices of one number for one figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Index {
    /// The first-order index.
    pub first: f64,
    /// The error of `first` from the number of draws: nine of ten estimates lie so near.
    pub first_error: f64,
    /// The total index.
    pub total: f64,
    /// The error of `total`.
    pub total_error: f64,
}

/// The indices of all numbers for one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Indices {
    /// The number of pairs from which they are estimated.
    pub pairs: usize,
    /// That of each number. Empty if there are fewer than two pairs, or if the figure is the same on all machines.
    pub of: Vec<Index>,
}

/// The indices of so many numbers, from the figure on each machine of crossed draws, in their order. A pair one of
/// whose machines has no figure is left out.
pub fn indices(values: &[Option<f64>], numbers: usize) -> Indices {
    let pairs: Vec<Vec<f64>> =
        values.chunks_exact(numbers + 2).filter_map(|pair| pair.iter().copied().collect()).collect();
    let of = if pairs.len() < 2 { None } else { with_errors(&pairs, numbers) };
    Indices { pairs: pairs.len(), of: of.unwrap_or_default() }
}

/// The index of each number, with its errors.
fn with_errors(pairs: &[Vec<f64>], numbers: usize) -> Option<Vec<Index>> {
    let all: Vec<usize> = (0..pairs.len()).collect();
    let values = estimate(pairs, &all, numbers)?;
    let resampled = (0..RESAMPLES).filter_map(|resample| {
        let chosen = |place: usize| (mixed(mixed(resample) ^ place as u64) % pairs.len() as u64) as usize;
        estimate(pairs, &all.iter().map(|place| chosen(*place)).collect::<Vec<_>>(), numbers)
    });
    let resampled: Vec<Vec<[f64; 2]>> = resampled.collect();
    let index = |(number, [first, total]): (usize, [f64; 2])| {
        let error = |which: usize| {
            NINE_OF_TEN * deviation(resampled.iter().map(|estimates| estimates[number][which]))
        };
        Index { first, first_error: error(0), total, total_error: error(1) }
    };
    Some(values.into_iter().enumerate().map(index).collect())
}

/// The first-order and the total index of each number, from the chosen pairs. None if the figure is the same on all.
fn estimate(pairs: &[Vec<f64>], chosen: &[usize], numbers: usize) -> Option<Vec<[f64; 2]>> {
    let pairs = || chosen.iter().map(|pair| &pairs[*pair]);
    let count = chosen.len() as f64;
    // The estimator of the first-order index is least wrong where the mean is 0.
    let mean = pairs().flatten().sum::<f64>() / (count * (numbers as f64 + 2.0));
    let ends = || pairs().flat_map(|pair| [pair[0], pair[numbers + 1]]);
    let middle = ends().sum::<f64>() / (2.0 * count);
    let variance = ends().map(|value| (value - middle).powi(2)).sum::<f64>() / (2.0 * count);
    // The figures of machines that do not differ are equal to the bit.
    if ends().all(|value| value.to_bits() == pairs().next().map_or(0, |pair| pair[0].to_bits())) {
        return None;
    }
    let of = |number: usize| {
        let mean_of = |value: &dyn Fn(f64, f64, f64) -> f64| {
            let values = pairs().map(|pair| value(pair[0], pair[number + 1], pair[numbers + 1]));
            values.sum::<f64>() / count / variance
        };
        let first = mean_of(&|one, changed, other| (other - mean) * (changed - one));
        let total = mean_of(&|one, changed, _| (one - changed).powi(2) / 2.0);
        [first, total]
    };
    Some((0..numbers).map(of).collect())
}

/// The standard deviation of some values; 0 for fewer than two.
fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let squares = values.map(|value| (value - mean).powi(2)).sum::<f64>();
    if count < 2.0 {
        0.0
    } else {
        (squares / (count - 1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::draws::{Draws, Places};

    /// The function of T. Ishigami and T. Homma (1990) with a = 7 and b = 0.1, whose indices are known.
    fn ishigami(place: &[f64]) -> f64 {
        let [one, two, three] = [0, 1, 2].map(|number| 2.0 * PI * place[number] - PI);
        one.sin() + 7.0 * two.sin().powi(2) + 0.1 * three.powi(4) * one.sin()
    }

    fn values(pairs: u64, figure: fn(&[f64]) -> f64) -> Vec<Option<f64>> {
        let places = Places::new(Draws::Crossed(pairs), 3, 1);
        (0..places.count()).map(|number| Some(figure(&places.of(number)))).collect()
    }

    #[test]
    fn the_indices_of_a_known_function_are_found() {
        let found = indices(&values(4096, ishigami), 3).of;
        assert_eq!(found.len(), 3);
        // The exact values, from the integrals.
        for (index, (first, total)) in found.iter().zip([(0.3139, 0.5576), (0.4424, 0.4424), (0.0, 0.2437)]) {
            assert!((index.first - first).abs() < 0.02, "{index:?}, not {first}");
            assert!((index.total - total).abs() < 0.02, "{index:?}, not {total}");
            assert!(index.first_error < 0.06 && index.total_error < 0.06, "{index:?}");
        }
    }

    #[test]
    fn a_number_that_does_nothing_has_an_index_of_0() {
        let found = indices(&values(64, |place| place[1] * 3.0), 3).of;
        assert!(found[0].total == 0.0 && found[2].total == 0.0 && found[0].first == 0.0, "{found:?}");
        assert!((found[1].first - 1.0).abs() < 0.1 && (found[1].total - 1.0).abs() < 0.1, "{found:?}");
        assert_eq!(indices(&values(64, |_| 0.1), 3), Indices { pairs: 64, of: vec![] }, "nothing varies");
    }

    #[test]
    fn a_pair_without_a_figure_is_left_out() {
        let mut with = values(8, ishigami);
        let expected = indices(&with[5..], 3);
        with[3] = None;
        assert_eq!(indices(&with, 3), expected);
        assert_eq!(expected.pairs, 7);
        assert_eq!(indices(&with[..10], 3), Indices { pairs: 1, of: vec![] }, "one pair is left");
    }

    #[test]
    fn the_estimates_are_those_of_salib() {
        // As SALib 1.6 computes them with `calc_second_order=False` from the same figures.
        let expected = [
            (1.198_721_603_583_116_5, 1.023_460_394_604_229),
            (0.631_494_027_392_930_4, 0.458_890_985_754_226_54),
            (-0.054_322_508_396_161_845, 0.044_621_620_264_853_26),
        ];
        let found = indices(&values(8, ishigami), 3).of;
        assert_eq!(found.len(), 3);
        for (index, (first, total)) in found.iter().zip(expected) {
            assert!((index.first - first).abs() < 1e-12 && (index.total - total).abs() < 1e-12, "{index:?}");
        }
    }
}
