//! The work of a scenario, and the least with which a run has tested it.

use core::fmt;

use super::scenario::Scenario;

/// What a scenario has tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// Changes that its operator made.
    pub(super) operations: u64,
    /// Loads and stores of its readers that were checked.
    pub(super) checks: u64,
}

impl Work {
    /// The least checks. One pass of a reader over the smallest region has a few dozen.
    const CHECKS: u64 = 1000;

    /// The least work of a scenario. Its first operation changes a region that no reader has used. The next ones take it
    /// through all of its phases once, and before each of them every reader has used the whole region.
    pub(super) const fn least(scenario: &Scenario) -> Self {
        Self { operations: 1 + scenario.phases.len() as u64, checks: Self::CHECKS }
    }

    /// Whether it falls short of `least` in anything.
    pub(super) const fn is_less_than(self, least: Self) -> bool {
        self.operations < least.operations || self.checks < least.checks
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations, {} checks", self.operations, self.checks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenarios::SCENARIOS;
    use super::*;

    #[test]
    fn every_phase_is_left_once_with_readers_in_it() {
        for scenario in &SCENARIOS {
            let least = Work::least(scenario);
            // Operation n begins phase (n - 1) modulo the phases, so the last one begins the first phase again.
            assert_eq!((least.operations - 1) % scenario.phases.len() as u64, 0, "{}", scenario.name);
            assert!(least.operations > 1, "{}", scenario.name);
        }
    }

    #[test]
    fn work_falls_short_in_operations_or_in_checks() {
        let work = |operations, checks| Work { operations, checks };
        let least = work(2, 10);
        assert!(!work(2, 10).is_less_than(least) && !work(3, 11).is_less_than(least));
        for less in [work(1, 10), work(2, 9), work(0, 0), work(1, 99), work(99, 9)] {
            assert!(less.is_less_than(least), "{less}");
        }
    }
}
