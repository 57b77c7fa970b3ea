//! The median and the quartiles of many short rounds.
//!
//! A round is so short that few rounds hold a preemption or an interrupt of a device. Such a round takes much longer,
//! but counts once. So the median is that of an idle computer, as long as most rounds are undisturbed.

use std::time::{Duration, Instant};

/// The median and the quartiles of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quartiles {
    /// The value that half of the rounds reach.
    pub median: f64,
    /// The first quartile.
    pub low: f64,
    /// The third quartile.
    pub high: f64,
    /// The number of rounds.
    pub rounds: usize,
}

impl Quartiles {
    /// The quartiles of some values; `None` if there is no value or one is not finite.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * (values.len() - 1) as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { median: at(0.5), low: at(0.25), high: at(0.75), rounds: values.len() })
    }

    /// The same with `change` applied to the three values. It must keep their order.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { median: change(self.median), low: change(self.low), high: change(self.high), ..self }
    }
}

/// How many rounds a measurement has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// The number of rounds, if there is time for them.
    pub(super) rounds: usize,
    /// The time after which no round begins, except the first.
    pub(super) time: Duration,
}

/// The quartiles of rounds. A round without a value was disturbed and does not count.
pub(super) fn quartiles(effort: Effort, mut round: impl FnMut() -> Option<f64>) -> Option<Quartiles> {
    let begun = Instant::now();
    let mut values = Vec::with_capacity(effort.rounds);
    loop {
        values.extend(round());
        if values.len() >= effort.rounds || begun.elapsed() >= effort.time {
            return Quartiles::of(values);
        }
    }
}

/// The time of `work` in nanoseconds.
pub(super) fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64
}

/// The time that a pair of readings of the clock takes, in nanoseconds: the least of many, since every disturbance
/// makes it longer.
pub(super) fn clock_cost() -> f64 {
    (0..1000).map(|_| timed(|| ())).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quartiles_lie_between_the_values() {
        let spread = Quartiles::of(vec![4.0, 1.0, 3.0, 2.0]).expect("values");
        assert_eq!((spread.low, spread.median, spread.high, spread.rounds), (1.75, 2.5, 3.25, 4));
        assert_eq!(Quartiles::of(Vec::new()), None);
        assert_eq!(Quartiles::of(vec![1.0, f64::NAN]), None);
        let twice = spread.map(|value| 2.0 * value);
        assert_eq!((twice.low, twice.median, twice.rounds), (3.5, 5.0, 4));
    }

    #[test]
    fn disturbed_rounds_do_not_count() {
        let mut round = 0;
        let effort = Effort { rounds: 3, time: Duration::MAX };
        let spread = quartiles(effort, || {
            round += 1;
            (round % 2 == 0).then_some(f64::from(round))
        });
        assert_eq!((round, spread.map(|spread| spread.median)), (6, Some(4.0)));
    }

    #[test]
    fn the_first_round_is_measured_even_without_time() {
        assert!(quartiles(Effort { rounds: 9, time: Duration::ZERO }, || Some(1.0)).is_some());
        assert_eq!(quartiles(Effort { rounds: 9, time: Duration::ZERO }, || None), None);
    }

    proptest! {
        #[test]
        fn a_minority_of_long_rounds_hardly_moves_the_median(
            quiet in prop::collection::vec(90.0_f64..110.0, 101..200),
            disturbed in prop::collection::vec(1e3_f64..1e9, 0..20),
        ) {
            let spread = Quartiles::of([quiet, disturbed].concat()).expect("values");
            prop_assert!(spread.low <= spread.median && spread.median <= spread.high);
            prop_assert!((90.0..110.0).contains(&spread.high), "{spread:?}");
        }
    }
}
