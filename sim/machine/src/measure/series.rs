//! The growth of the counts: readings at equal steps of simulated time.
//!
//! The length of a run is not known when it begins, so the step starts small. When the readings reach their greatest
//! number, every second one is dropped and the step doubles. So there are always between half the greatest number and
//! the greatest number, each at a multiple of the step. A reading shows the moment before the first event at or after
//! its time, so it depends on the run alone.

use crate::config::Picoseconds;
use crate::measure::reading::Reading;

/// The greatest number of readings.
const MOST: usize = 128;
/// The first step: 1 us.
const FIRST_STEP: Picoseconds = 1_000_000;

/// Readings at equal steps of simulated time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    step: Picoseconds,
    readings: Vec<Reading>,
}

impl Series {
    pub(crate) fn new() -> Self {
        Self { step: FIRST_STEP, readings: Vec::with_capacity(MOST) }
    }

    /// The time between two readings, and between the start and the first.
    pub fn step(&self) -> Picoseconds {
        self.step
    }

    /// The readings, in order: the counts up to one step, two steps, and so on. Counts after the last whole step are
    /// in none.
    pub fn readings(&self) -> &[Reading] {
        &self.readings
    }

    /// The time at which the next reading is due.
    pub(crate) fn due(&self) -> Picoseconds {
        self.step * (self.readings.len() as Picoseconds + 1)
    }

    /// Takes all readings that are due by `now`. `reading` holds the counts after the last event before `now`.
    pub(crate) fn take(&mut self, now: Picoseconds, reading: &Reading) {
        while self.due() <= now {
            self.readings.push(Reading { time: self.due(), ..*reading });
            if self.readings.len() == MOST {
                let mut place = 0;
                self.readings.retain(|_| {
                    place += 1;
                    place % 2 == 0
                });
                self.step *= 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn readings_are_at_multiples_of_the_step_and_bounded(
            gaps in prop::collection::vec(0..400 * FIRST_STEP, 1..600),
        ) {
            let mut series = Series::new();
            let mut now = 0;
            let mut events = vec![0];
            for gap in gaps {
                now += gap;
                // As in a run: the counts before this event.
                if series.due() <= now {
                    series.take(now, &Reading { accesses: events.len() as u64, ..Reading::default() });
                }
                events.push(now);
            }
            prop_assert!(series.readings().len() < MOST);
            prop_assert!(series.step() == FIRST_STEP || series.readings().len() >= MOST / 2 - 1);
            prop_assert!(series.due() > now);
            for (reading, number) in series.readings().iter().zip(1..) {
                prop_assert_eq!(reading.time, number * series.step());
                let counted = events.iter().filter(|&&event| event < reading.time).count() as u64;
                prop_assert_eq!(reading.accesses, counted.max(1));
            }
        }
    }
}
