//! Steps in a curve of costs: the sizes from which on a level of a cache no longer holds everything.

/// A point of a curve: a size, and the cost of an access at this size.
pub(super) type Point = (usize, f64);

/// A curve of three levels, such as that of a TLB of two.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steps {
    /// The cost on each level: the median of its points.
    pub(super) levels: [f64; 3],
    /// The costs of the points of each level.
    pub(super) costs: [Vec<f64>; 3],
    /// The last size on the first level and on the second.
    pub(super) last: [usize; 2],
    /// The first size above each of them.
    pub(super) next: [usize; 2],
}

/// The part of a step that a cost may take and still belong to the level below.
const TOLERANCE: f64 = 0.1;

/// The part of the first level's cost by which each step must exceed it.
const LEAST_STEP: f64 = 0.15;

/// From this multiple of a level's size on, it hardly holds anything that is used again.
const FAR: usize = 3;

/// The steps of a curve whose sizes ascend. Each level has at least two points.
///
/// The levels are those with the least sum of relative distances to the points. Then a size belongs to a level if its
/// cost exceeds it by at most a tenth of the step: between two levels a curve may rise gradually, where entries are
/// replaced at random.
///
/// `None` if the curve does not rise twice.
pub(super) fn steps(curve: &[Point]) -> Option<Steps> {
    let costs: Vec<f64> = curve.iter().map(|point| point.1).collect();
    // Steps of equal ratios count alike, however large they are.
    let logarithms: Vec<f64> = costs.iter().map(|cost| cost.max(0.01).ln()).collect();
    let count = costs.len();
    let ends =
        (2..count).flat_map(|first| (first + 2..count.saturating_sub(1)).map(move |second| (first, second)));
    let distance = |part: &[f64]| {
        let level = median(part);
        part.iter().map(|cost| (cost - level).abs()).sum::<f64>()
    };
    let error = |&(first, second): &(usize, usize)| {
        distance(&logarithms[..first])
            + distance(&logarithms[first..second])
            + distance(&logarithms[second..])
    };
    let (first, second) = ends.min_by(|a, b| error(a).total_cmp(&error(b)))?;
    let highest = median(&costs[second..]);
    let levels = [median(&costs[..first]), median(&costs[first..second]), highest];
    let rises = |below: f64, above: f64| above - below > LEAST_STEP * levels[0].abs();
    if !rises(levels[0], levels[1]) || !rises(levels[1], levels[2]) {
        return None;
    }
    // From a point on the level on, the first of two points in a row that exceed it.
    let beyond = |level: usize, from: usize| {
        let bound = levels[level] + TOLERANCE * (levels[level + 1] - levels[level]);
        let place = costs[from..].windows(2).position(|pair| pair.iter().all(|&cost| cost > bound))?;
        Some(from + place).filter(|&place| place > 0)
    };
    let one = beyond(0, 0)?;
    // The second level's middle is on it for certain.
    let two = beyond(1, first + (second - first) / 2).filter(|&two| two > one)?;
    let far = curve.iter().position(|point| point.0 >= FAR * curve[two - 1].0).unwrap_or(second);
    let costs = [&costs[..one], &costs[one..two], &costs[far..]].map(<[f64]>::to_vec);
    Some(Steps {
        levels: [median(&costs[0]), median(&costs[1]), median(&costs[2])],
        costs,
        last: [curve[one - 1].0, curve[two - 1].0],
        next: [curve[one].0, curve[two].0],
    })
}

/// The middle value; 0 if there is none.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Sizes of TLBs that are made: a power of two, times 4, 5, 6 or 7, or 4.5.
pub(super) fn sizes(most: usize) -> Vec<usize> {
    let octaves =
        std::iter::successors(Some(4), |octave| Some(2 * octave)).take_while(|&octave| octave < most);
    let mut sizes: Vec<usize> = octaves
        .flat_map(|octave: usize| [8, 9, 10, 12, 14].map(|eighths| octave * eighths / 8))
        .filter(|&size| size < most)
        .collect();
    sizes.push(most);
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_sizes_are_those_of_real_tlbs() {
        let sizes = sizes(8192);
        for size in [16, 32, 40, 48, 64, 72, 96, 512, 1024, 1280, 1536, 2048, 3072, 8192] {
            assert!(sizes.contains(&size), "{size} in {sizes:?}");
        }
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
    }

    #[test]
    fn a_flat_or_a_single_step_has_no_two_levels() {
        let curve = |cost: fn(usize) -> f64| -> Vec<Point> {
            sizes(8192).into_iter().map(|size| (size, cost(size))).collect()
        };
        assert_eq!(steps(&curve(|_| 3.0)), None);
        assert_eq!(steps(&curve(|size| if size > 64 { 9.0 } else { 3.0 })), None);
        assert_eq!(steps(&[]), None);
        assert_eq!(steps(&[(1, 1.0), (2, 2.0)]), None);
    }

    proptest! {
        #[test]
        fn the_steps_give_back_sizes_and_costs(
            first in 0_usize..7, second in 0_usize..6, is_gradual in any::<bool>(),
            hit in 1.0_f64..3.0, second_hit in 2.0_f64..8.0, walk in 6.0_f64..40.0,
            noise in prop::collection::vec(-0.1_f64..0.1, 60),
        ) {
            let first = [32, 40, 48, 64, 72, 96, 128][first];
            let second = [512, 1024, 1280, 1536, 2048, 3072][second];
            // The part of the accesses that miss a level: all that the level can no longer hold, or at once all.
            let missing = |size: usize, entries: usize| match size {
                _ if size <= entries => 0.0,
                _ if is_gradual => 1.0 - (entries as f64 / size as f64).powi(2),
                _ => 1.0,
            };
            let cost = |size: usize| hit + missing(size, first) * second_hit + missing(size, second) * walk;
            let sizes = sizes(16_384).into_iter();
            let curve: Vec<Point> = sizes.zip(&noise).map(|(size, noise)| (size, cost(size) + noise)).collect();
            let found = steps(&curve).expect("two steps");
            if is_gradual {
                // At most one size too far.
                for (last, entries) in found.last.into_iter().zip([first, second]) {
                    prop_assert!((entries..=entries * 5 / 4).contains(&last), "{found:?} for {first} and {second}");
                }
            } else {
                prop_assert_eq!(found.last, [first, second]);
                prop_assert!((found.levels[1] - hit - second_hit).abs() < 0.2, "{:?}", found);
                prop_assert!((found.levels[2] - hit - second_hit - walk).abs() < 0.2, "{:?}", found);
            }
            prop_assert!(found.next[0] > found.last[0] && found.next[1] > found.last[1]);
        }
    }
}
