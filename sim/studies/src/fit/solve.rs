//! Solving for values with which figures meet their targets, in few evaluations.
//!
//! The method is Newton's, with elasticities in place of derivatives: values and figures are taken in logarithms. The
//! elasticities come from one step of each value, and each later evaluation corrects them. A whole number cannot meet
//! its target exactly, so the others meet theirs with each whole number that is tried.

use super::sensitivity::{Sensitivity, GREATEST_CONDITION};

/// The step of a value with which elasticities are measured, as a factor.
const STEP: f64 = 1.2;
/// The most by which a value changes at once, in logarithms: a factor of 3.
const LONGEST: f64 = 1.1;
/// Figures jump a little, so shorter steps than this, in logarithms, say nothing of elasticities.
const SHORTEST: f64 = 0.01;
/// The greatest difference with which a search that gets no nearer has a result.
const ACCEPTED: f64 = 0.02;
/// The most steps.
const MOST_STEPS: usize = 12;
/// The steps after which a search ends that gets no nearer.
const IN_VAIN: usize = 2;
/// The digits of a value. The evaluated values are those of the result.
const DIGITS: usize = 5;

/// A value that is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unknown {
    /// The value with which the search begins.
    pub(super) start: f64,
    /// The least allowed value, above 0.
    pub(super) least: f64,
    /// The greatest allowed value.
    pub(super) most: f64,
    /// Whether only whole numbers are allowed.
    pub(super) is_whole: bool,
}

impl Unknown {
    /// The allowed value that is nearest.
    fn nearest(&self, value: f64) -> f64 {
        let value = if self.is_whole { value.round() } else { rounded(value) };
        value.clamp(self.least, self.most)
    }

    /// A value beside another one, for elasticities; none if only one is allowed.
    fn beside(&self, value: f64) -> Option<f64> {
        let beside = if self.is_whole {
            [value + 1.0, value - 1.0]
        } else {
            [rounded(value * STEP), rounded(value / STEP)]
        };
        beside.into_iter().find(|beside| (self.least..=self.most).contains(beside))
    }
}

/// The value with [`DIGITS`] digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// A result.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) values: Vec<f64>,
    pub(super) figures: Vec<f64>,
    /// The elasticities that were measured last, or those that were given.
    pub(super) sensitivity: Sensitivity,
}

/// The reason for which there is no result.
#[derive(Debug, PartialEq)]
pub(super) enum Stuck<E> {
    /// A figure could not be evaluated.
    Evaluation(E),
    /// Two figures determine their values alike.
    Alike,
    /// A value stands at its bound.
    Bound { value: usize, at: f64, figures: Vec<f64> },
    /// The search ended far from a target.
    Far { value: usize, figures: Vec<f64> },
}

impl<E> From<E> for Stuck<E> {
    fn from(error: E) -> Self {
        Self::Evaluation(error)
    }
}

/// A function from values to figures, as many, above 0. It gets all points of a step at once.
pub(super) type Evaluate<'a, E> = &'a dyn Fn(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E>;

/// A point that was evaluated.
#[derive(Debug, Clone)]
struct Tried {
    values: Vec<f64>,
    figures: Vec<f64>,
}

/// Looks for the values with which the figures are the `targets`, and ends when each is as near as `aim`. With `known`
/// elasticities the first steps need no measurement of them. A value that moves no figure stays as it is, and its
/// figure too.
///
/// # Errors
/// [`Stuck`].
pub(super) fn solve<E>(
    unknowns: &[Unknown],
    targets: &[f64],
    aim: f64,
    known: Option<&Sensitivity>,
    evaluate: Evaluate<'_, E>,
) -> Result<Found, Stuck<E>> {
    let mut search = Search { unknowns, targets, aim, determined: Vec::new(), evaluate };
    let start: Vec<f64> = unknowns.iter().map(|unknown| unknown.start).collect();
    let (mut best, mut sensitivity) = match known {
        Some(known) => (search.tried(start)?, known.clone()),
        None => search.measured(start, None)?,
    };
    let mut is_measured = known.is_none();
    let mut elasticities = sensitivity.clone();
    search.determined = sensitivity.determined();
    let (mut visited, mut vain) = (vec![best.values.clone()], 0);
    for _ in 0..MOST_STEPS {
        let next = search.next(&best, &elasticities)?;
        if search.is_met(&best, &next) || visited.contains(&next) {
            break;
        }
        let tried = search.tried(next)?;
        visited.push(tried.values.clone());
        let by = differences(&tried.values, &best.values);
        if by.iter().any(|by| by.abs() >= SHORTEST) {
            elasticities.learn(&by, &differences(&tried.figures, &best.figures));
        }
        if search.is_nearer(&tried, &best) {
            (best, vain) = (tried, 0);
            continue;
        }
        vain += 1;
        if vain == IN_VAIN && !is_measured {
            (best, sensitivity) = search.measured(best.values.clone(), Some(best.figures))?;
            elasticities = sensitivity.clone();
            search.determined = sensitivity.determined();
            (is_measured, vain) = (true, 0);
        } else if vain == IN_VAIN {
            break;
        }
    }
    search.check(&best, &elasticities)?;
    Ok(Found { values: best.values, figures: best.figures, sensitivity })
}

/// The figures where a search would begin, and their elasticities.
///
/// # Errors
/// Those of `evaluate`.
pub(super) fn elasticities<E>(
    unknowns: &[Unknown],
    evaluate: Evaluate<'_, E>,
) -> Result<(Vec<f64>, Sensitivity), E> {
    let start = unknowns.iter().map(|unknown| unknown.start).collect();
    let (at, sensitivity) = Search { unknowns, targets: &[], aim: 0.0, determined: Vec::new(), evaluate }
        .measured(start, None)?;
    Ok((at.figures, sensitivity))
}

struct Search<'a, E> {
    unknowns: &'a [Unknown],
    targets: &'a [f64],
    /// The difference from a target, in logarithms, at which the search ends.
    aim: f64,
    /// The values that the figures determine.
    determined: Vec<usize>,
    evaluate: Evaluate<'a, E>,
}

impl<E> Search<'_, E> {
    fn tried(&self, values: Vec<f64>) -> Result<Tried, E> {
        let figures = (self.evaluate)(std::slice::from_ref(&values))?.concat();
        Ok(Tried { values, figures })
    }

    /// The elasticities at a point, and the point, which is evaluated too unless its figures are known.
    fn measured(&self, values: Vec<f64>, figures: Option<Vec<f64>>) -> Result<(Tried, Sensitivity), E> {
        let beside: Vec<Option<f64>> =
            self.unknowns.iter().zip(&values).map(|(unknown, value)| unknown.beside(*value)).collect();
        let changed = |(place, beside): (usize, &Option<f64>)| {
            let mut point = values.clone();
            point[place] = (*beside)?;
            Some(point)
        };
        let mut points: Vec<Vec<f64>> = beside.iter().enumerate().filter_map(changed).collect();
        if figures.is_none() {
            points.push(values.clone());
        }
        let mut all = (self.evaluate)(&points)?;
        let figures = figures.or_else(|| all.pop()).unwrap_or_default();
        let mut moved = all.into_iter().map(|beside| differences(&beside, &figures));
        let mut rows = vec![vec![0.0; values.len()]; values.len()];
        for (place, beside) in beside.iter().enumerate() {
            let Some((beside, moved)) = beside.and_then(|beside| Some((beside, moved.next()?))) else {
                continue;
            };
            for (row, moved) in rows.iter_mut().zip(moved) {
                row[place] = moved / (beside / values[place]).ln();
            }
        }
        Ok((Tried { values, figures }, Sensitivity::new(&rows)))
    }

    /// The step to the targets, in logarithms, of the values that are determined.
    fn step(&self, from: &Tried, elasticities: &Sensitivity) -> Result<Vec<f64>, Stuck<E>> {
        let is_apart = elasticities
            .condition_of(&self.determined)
            .is_none_or(|condition| condition <= GREATEST_CONDITION);
        let missing = self.missing(from);
        let by: Vec<f64> = self.determined.iter().map(|&place| missing[place]).collect();
        let solved = elasticities.solve(&self.determined, &by).filter(|_| is_apart).ok_or(Stuck::Alike)?;
        let mut step = vec![0.0; missing.len()];
        for (&place, by) in self.determined.iter().zip(solved) {
            step[place] = by;
        }
        Ok(step)
    }

    /// The next point. Whole numbers are rounded, and the others take the rounding up.
    fn next(&self, from: &Tried, elasticities: &Sensitivity) -> Result<Vec<f64>, Stuck<E>> {
        let mut step = limited(self.step(from, elasticities)?);
        let to = |place: usize, step: f64| self.unknowns[place].nearest(from.values[place] * step.exp());
        let (whole, others) = self.whole_and_others();
        if !whole.is_empty() && !others.is_empty() {
            let mut rounding = vec![0.0; step.len()];
            for place in whole {
                step[place] = (to(place, step[place]) / from.values[place]).ln();
                rounding[place] = step[place];
            }
            let (missing, moved) = (self.missing(from), elasticities.moved(&rounding));
            let by: Vec<f64> = others.iter().map(|&place| missing[place] - moved[place]).collect();
            let solved = elasticities.solve(&others, &by).ok_or(Stuck::Alike)?;
            for (&place, by) in others.iter().zip(limited(solved)) {
                step[place] = by;
            }
        }
        let values = from.values.iter().zip(step).enumerate();
        Ok(values.map(|(place, (&value, by))| if by == 0.0 { value } else { to(place, by) }).collect())
    }

    /// Whether the figures that can be met are, and no other whole number is nearer.
    fn is_met(&self, at: &Tried, next: &[f64]) -> bool {
        let (whole, others) = self.whole_and_others();
        let missing = self.missing(at);
        whole.iter().all(|&place| next[place].total_cmp(&at.values[place]).is_eq())
            && others.iter().all(|&place| missing[place].abs() <= self.aim)
    }

    /// Whether a point is nearer to the targets than another one. With the same whole numbers the other values decide.
    fn is_nearer(&self, one: &Tried, other: &Tried) -> bool {
        let (whole, others) = self.whole_and_others();
        let is_same = whole.iter().all(|&place| one.values[place].total_cmp(&other.values[place]).is_eq());
        let of = if is_same { &others } else { &self.determined };
        let distance = |at: &Tried| -> f64 {
            let missing = self.missing(at);
            of.iter().map(|&place| missing[place].powi(2)).sum()
        };
        distance(one) < distance(other)
    }

    /// The values that are determined: the whole numbers, and the others.
    fn whole_and_others(&self) -> (Vec<usize>, Vec<usize>) {
        self.determined.iter().partition(|&&place| self.unknowns[place].is_whole)
    }

    /// By how much the figures must change to meet their targets, in logarithms.
    fn missing(&self, at: &Tried) -> Vec<f64> {
        differences(self.targets, &at.figures)
    }

    /// Whether a point is a result.
    fn check(&self, at: &Tried, elasticities: &Sensitivity) -> Result<(), Stuck<E>> {
        let step = self.step(at, elasticities)?;
        let missing = self.missing(at);
        for &place in &self.determined {
            if missing[place].abs() <= ACCEPTED {
                continue;
            }
            let (unknown, value) = (self.unknowns[place], at.values[place]);
            let is_beyond =
                (value <= unknown.least && step[place] < 0.0) || (value >= unknown.most && step[place] > 0.0);
            let figures = at.figures.clone();
            // A whole number is rounded by less than half of one.
            let rounds = unknown.is_whole && (value * step[place].exp() - value).abs() <= 0.5;
            if is_beyond && !rounds {
                return Err(Stuck::Bound { value: place, at: value, figures });
            }
            if !unknown.is_whole {
                return Err(Stuck::Far { value: place, figures });
            }
        }
        Ok(())
    }
}

/// The differences of the logarithms.
fn differences(of: &[f64], from: &[f64]) -> Vec<f64> {
    of.iter().zip(from).map(|(of, from)| (of / from).ln()).collect()
}

/// The step, shortened if one of its parts is longer than [`LONGEST`].
fn limited(step: Vec<f64>) -> Vec<f64> {
    let longest = step.iter().fold(LONGEST, |longest, by| by.abs().max(longest));
    step.into_iter().map(|by| by * LONGEST / longest).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const AIM: f64 = 1e-3;

    fn number(start: f64) -> Unknown {
        Unknown { start, least: start / 10.0, most: start * 10.0, is_whole: false }
    }

    fn count(start: f64) -> Unknown {
        Unknown { least: 1.0, is_whole: true, ..number(start) }
    }

    /// Solves, and gives the number of evaluations too.
    fn solved(
        unknowns: &[Unknown],
        targets: &[f64],
        known: Option<&Sensitivity>,
        function: impl Fn(&[f64]) -> Vec<f64>,
    ) -> (Result<Found, Stuck<Infallible>>, usize) {
        let evaluations = Cell::new(0);
        let evaluate = |points: &[Vec<f64>]| {
            evaluations.set(evaluations.get() + points.len());
            Ok(points.iter().map(|point| function(point)).collect())
        };
        (solve(unknowns, targets, AIM, known, &evaluate), evaluations.get())
    }

    /// Times as a run has them: a part that does not depend on the values, and a product of both.
    fn times(values: &[f64]) -> Vec<f64> {
        let [a, b] = values else { panic!("two values") };
        vec![20.0 + 3.0 * a + 0.2 * b, 5.0 + 0.1 * a * b + 2.0 * b]
    }

    #[test]
    fn figures_that_depend_on_both_values_are_met_in_few_evaluations() {
        let targets = times(&[4.0, 7.0]);
        let (found, evaluations) = solved(&[number(2.0), number(10.0)], &targets, None, times);
        let found = found.expect("a solution");
        assert!((found.values[0] / 4.0 - 1.0).abs() < 0.003, "{found:?}");
        assert!((found.values[1] / 7.0 - 1.0).abs() < 0.003, "{found:?}");
        assert!(evaluations <= 8, "{evaluations}");
    }

    #[test]
    fn known_elasticities_save_their_measurement() {
        let targets = times(&[4.0, 7.0]);
        let (nominal, _) = solved(&[number(4.0), number(7.0)], &targets, None, times);
        let known = nominal.expect("a solution").sensitivity;
        // Another machine, 5% slower.
        let slower = |values: &[f64]| times(values).iter().map(|time| time * 1.05).collect();
        let (found, evaluations) = solved(&[number(4.0), number(7.0)], &targets, Some(&known), slower);
        let found = found.expect("a solution");
        assert!(evaluations <= 3, "{evaluations}");
        assert!(differences(&found.figures, &targets).iter().all(|off| off.abs() <= AIM), "{found:?}");
    }

    #[test]
    fn elasticities_that_mislead_are_measured_anew() {
        let targets = times(&[4.0, 7.0]);
        let wrong = Sensitivity::new(&[vec![-0.5, 0.1], vec![0.1, -0.5]]);
        let (found, _) = solved(&[number(2.0), number(10.0)], &targets, Some(&wrong), times);
        let found = found.expect("a solution");
        assert!(differences(&found.figures, &targets).iter().all(|off| off.abs() <= AIM), "{found:?}");
    }

    #[test]
    fn a_whole_number_is_the_nearest_and_the_other_value_meets_its_figure() {
        // Loops a second of all threads, whose lock fetches lines, and of one thread, which finds no lock taken.
        let loops = |values: &[f64]| {
            let [lines, fault] = values else { panic!("two values") };
            vec![1e9 / (400.0 + 250.0 * lines + 0.1 * fault), 1e9 / (2000.0 + fault)]
        };
        for (lines, expected) in [(6.2, 6.0), (6.8, 7.0), (2.9, 3.0)] {
            let targets = loops(&[lines, 945.0]);
            let (found, _) = solved(&[count(4.0), number(700.0)], &targets, None, loops);
            let found = found.expect("a solution");
            assert_eq!(found.values[0].to_bits(), f64::to_bits(expected), "{lines}");
            assert!(differences(&found.figures, &targets)[1].abs() <= AIM, "{found:?}");
        }
    }

    #[test]
    fn a_value_that_moves_no_figure_stays_and_is_told() {
        let function = |values: &[f64]| vec![values[0], values[0] + 0.001 * values[1]];
        let (found, _) = solved(&[number(3.0), number(5.0)], &[4.0, 9.0], None, function);
        let found = found.expect("a solution");
        assert_eq!(found.values[1].to_bits(), f64::to_bits(5.0));
        assert!(!found.sensitivity.is_determined(1) && found.sensitivity.is_determined(0));
        assert!((found.values[0] / 4.0 - 1.0).abs() <= AIM);
    }

    #[test]
    fn a_target_out_of_reach_is_refused_with_the_bound() {
        let (found, _) = solved(&[number(3.0)], &[100.0], None, |values| vec![1.0 + values[0]]);
        assert_eq!(
            found.expect_err("out of reach"),
            Stuck::Bound { value: 0, at: 30.0, figures: vec![31.0] }
        );
        let (found, _) = solved(&[count(3.0)], &[0.1], None, |values| vec![1.0 + values[0]]);
        assert_eq!(found.expect_err("out of reach"), Stuck::Bound { value: 0, at: 1.0, figures: vec![2.0] });
        let peak = |values: &[f64]| vec![10.0 - (values[0] - 3.2).powi(2)];
        let (found, _) = solved(&[number(3.0)], &[12.0], None, peak);
        assert!(found.is_err(), "{found:?}");
    }

    #[test]
    fn figures_that_say_the_same_are_refused() {
        let sum = |values: &[f64]| vec![values[0] + values[1], 2.0 * (values[0] + values[1])];
        let (found, _) = solved(&[number(3.0), number(5.0)], &[9.0, 18.0], None, sum);
        assert_eq!(found.expect_err("alike"), Stuck::Alike);
    }

    proptest! {
        #[test]
        fn sums_of_costs_are_met(
            costs in prop::array::uniform4(0.2..1.0f64),
            fixed in prop::array::uniform2(0.0..3.0f64),
            wanted in prop::array::uniform2(0.3..3.0f64),
        ) {
            // Each figure depends more on its own value than on the other.
            let sums = |values: &[f64]| vec![
                fixed[0] + 2.0 * costs[0] * values[0] + 0.3 * costs[0] * costs[1] * values[1],
                fixed[1] + 0.3 * costs[2] * costs[3] * values[0] + 2.0 * costs[3] * values[1],
            ];
            let targets = sums(&wanted);
            let (found, evaluations) = solved(&[number(1.0), number(1.0)], &targets, None, sums);
            let found = found.expect("a solution");
            prop_assert!(differences(&found.figures, &targets).iter().all(|off| off.abs() <= AIM), "{:?}", found);
            prop_assert!(evaluations <= 12, "{}", evaluations);
        }
    }
}
