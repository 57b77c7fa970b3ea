//! The timer's ticks.
//!
//! Every CPU that runs threads takes a tick each period. The CPUs' ticks are spread evenly over it (Linux: `skew_tick`), so
//! that they do not meet at the same lock. A CPU without a thread takes none (`NO_HZ_IDLE`) and goes on at its next multiple
//! once it has one. Like any interrupt a tick waits while interrupts are off; of those that came meanwhile only one is left.
//!
//! A tick is no event of its own: it costs nothing, its cost being part of all others', so it must not move anything either.
//! A CPU that runs looks at its clock wherever it takes interrupts; one that waits takes the tick before anything happens
//! anywhere that is later than it. Since the ticks of all CPUs come in a fixed order, one clock hand finds who is next.

use std::cell::Cell;

use crate::config::Picoseconds;
use crate::world::timeline::NEVER;

/// When ticks come.
#[derive(Debug)]
pub(crate) struct Timer {
    /// 0 for no ticks at all.
    period: Picoseconds,
    cpus: u64,
    /// How many of all CPUs' ticks are in the past.
    past: Cell<u64>,
    /// When the first of the others comes.
    next: Cell<Picoseconds>,
}

impl Timer {
    pub(crate) fn new(period: Picoseconds, cpus: usize) -> Self {
        let next = Cell::new(if period == 0 { NEVER } else { 0 });
        Self { period, cpus: cpus as u64, past: Cell::new(0), next }
    }

    /// How much later than the first CPU's a CPU's ticks are.
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

    /// When the next tick of all comes.
    pub(crate) fn next(&self) -> Picoseconds {
        self.next.get()
    }

    /// Goes on to the tick after the next; whose that one was, and when.
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
    fn ticks_are_spread_over_the_period_and_come_after_a_moment() {
        let timer = Timer::new(4 * MS, 4);
        let after = |index, now| timer.after(index, now * MS) / MS;
        assert_eq!([after(0, 0), after(1, 0), after(3, 0)], [4, 1, 3]);
        assert_eq!([after(1, 1), after(1, 4), after(1, 5), after(3, 100)], [5, 5, 9, 103]);
        assert_eq!(Timer::new(0, 4).after(1, MS), NEVER);
        assert_eq!(Timer::new(0, 4).next(), NEVER);
    }

    #[test]
    fn the_hand_goes_round_all_cpus() {
        let timer = Timer::new(4 * MS, 4);
        let seen: Vec<_> = (0..6).map(|_| timer.advance()).collect();
        assert_eq!(timer.next(), 6 * MS);
        assert_eq!(seen, [(0, 0), (1, MS), (2, 2 * MS), (3, 3 * MS), (0, 4 * MS), (1, 5 * MS)]);
    }
}
