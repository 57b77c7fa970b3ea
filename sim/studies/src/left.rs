//! The points of a study that a data set does not have.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::point::Point;
use crate::study::Study;

/// The points of a study that a data set does not have. Several threads may ask for them.
#[derive(Debug)]
pub struct Left<S> {
    study: S,
    known: HashSet<String>,
    /// The number of points that were asked for, and of those of them that the data set has.
    asked: AtomicU64,
    passed: AtomicU64,
}

impl<S: Deref<Target = Study>> Left<S> {
    /// The points of the study without those that are `known` by their names.
    pub fn new(study: S, known: HashSet<String>) -> Self {
        Self { study, known, asked: AtomicU64::new(0), passed: AtomicU64::new(0) }
    }

    /// The point with this number, unless the data set has it. Each is asked for once.
    ///
    /// # Panics
    /// If there are not so many points.
    pub fn point(&self, number: u64) -> Option<Point<'_>> {
        let point = self.study.point(number);
        let is_known = self.known.contains(&point.id());
        // Only counts, which order nothing else, so relaxed accesses do.
        self.passed.fetch_add(is_known.into(), Ordering::Relaxed);
        self.asked.fetch_add(1, Ordering::Relaxed);
        (!is_known).then_some(point)
    }

    /// The number of points asked for so far that the data set has.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// The number of the study's points that the data set has. Until all are asked for, all of the data set's count, as
    /// far as the study has so many.
    pub fn before(&self) -> u64 {
        let all = self.study.len();
        let passed = self.passed();
        if self.asked.load(Ordering::Relaxed) < all {
            passed.max((self.known.len() as u64).min(all))
        } else {
            passed
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn points_of_the_data_set_are_left_out_and_counted() {
        let text = "experiments = [\"migrate\"]\nmachines = [\"2-socket-intel\"]\nmechanisms = [\"batched\"]\nseeds = 4";
        let study = Study::from_text("study.toml", text, Path::new("")).expect("a valid study");
        let others = (0..9).map(|number| format!("point {number} of another study"));
        for (known, before) in [(2, 2), (11, 4)] {
            let own = [0, 2].map(|number| study.point(number).id());
            let left = Left::new(&study, own.into_iter().chain(others.clone()).take(known).collect());
            assert_eq!((left.passed(), left.before()), (0, before));
            let found: Vec<bool> = (0..study.len()).map(|number| left.point(number).is_some()).collect();
            assert_eq!(found, [false, true, false, true]);
            assert_eq!((left.passed(), left.before()), (2, 2));
        }
    }
}
