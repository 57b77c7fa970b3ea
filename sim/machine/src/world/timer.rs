//! The timer's ticks.
//!
//! Every CPU that runs threads takes a tick each period. The ticks of all CPUs are spread evenly over the period
//! (Linux: `skew_tick`), to avoid contention for the same lock. A CPU without a thread takes no ticks (`NO_HZ_IDLE`),
//! and continues at its next multiple once it has one. Like any interrupt, a tick waits while interrupts are off. If
//! several ticks come meanwhile, only one is taken.
//!
//! A tick is not an event of its own. It costs nothing, since its cost is part of all others, so it must not move
//! anything either. A CPU that runs checks for a tick where it takes interrupts. A CPU that waits takes its tick
//! before any later event on any CPU. The ticks of all CPUs come in a fixed order, so one clock hand finds the next.

use std::cell::Cell;

use crate::config::Picoseconds;
use crate::world::timeline::NEVER;

/// The times of the ticks.
#[derive(Debug)]
pub(crate) struct Timer {
    /// 0 for no ticks.
    period: Picoseconds,
    cpus: u64,
    /// The number of past ticks of all CPUs.
    past: Cell<u64>,
    /// The time of the next tick.
    next: Cell<Picoseconds>,
}

impl Timer {
    pub(crate) fn new(period: Picoseconds, cpus: usize) -> Self {
        let next = Cell::new(if period == 0 { NEVER } else { 0 });
        Self { period, cpus: cpus as u64, past: Cell::new(0), next }
    }

    /// The delay of a CPU's ticks after those of the first CPU.
    fn skew(&self, index: usize) -> Picoseconds {
        (u128::from(self.period) * index as u128 / u128::from(self.cpus)) as Picoseconds
    }

    /// The first tick of a CPU that comes after `now`.
    pub(crate) fn after(&self, index: usize, now: Picoseconds) -> Picoseconds {
        if self.period == 0 {
            return NEVER;
        }
        let skew = self.skew(index);
        match now.checked_sub(skew) {
            None => skew,
            Some(since) => skew + (since / self.period + 1) * self.period,
        }
    }

    /// The time of the next tick of any CPU.
    pub(crate) fn next(&self) -> Picoseconds {
        self.next.get()
    }

    /// Advances to the next tick, and returns the CPU and the time of the current one.
    pub(crate) fn advance(&self) -> (usize, Picoseconds) {
        let index = (self.past.replace(self.past.get() + 1) % self.cpus) as usize;
        let (round, other) = (self.past.get() / self.cpus, (self.past.get() % self.cpus) as usize);
        (index, self.next.replace(round * self.period + self.skew(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::US;

    const MS: Picoseconds = 1000 * US;

    #[test]
    fn ticks_are_spread_over_the_period() {
        let timer = Timer::new(4 * MS, 4);
        let after = |index, now| timer.after(index, now * MS) / MS;
        assert_eq!([after(0, 0), after(1, 0), after(3, 0)], [4, 1, 3]);
        assert_eq!([after(1, 1), after(1, 4), after(1, 5), after(3, 100)], [5, 5, 9, 103]);
        assert_eq!(Timer::new(0, 4).after(1, MS), NEVER);
        assert_eq!(Timer::new(0, 4).next(), NEVER);
    }

    #[test]
    fn the_clock_hand_visits_all_cpus_in_turn() {
        let timer = Timer::new(4 * MS, 4);
        let seen: Vec<_> = (0..6).map(|_| timer.advance()).collect();
        assert_eq!(timer.next(), 6 * MS);
        assert_eq!(seen, [(0, 0), (1, MS), (2, 2 * MS), (3, 3 * MS), (0, 4 * MS), (1, 5 * MS)]);
    }
}
