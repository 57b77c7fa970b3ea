//! The state of a region, which its operator publishes.

/// The states of a region, counted: an odd one is a change, an even one is stable. No state comes twice. A thread that
/// finds the same state before and after an access therefore knows that it held all the time between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State(u64);

impl State {
    /// The region is not mapped yet.
    pub(super) const NONE: Self = Self(0);
    /// The first stable state.
    pub(super) const FIRST: Self = Self(2);

    pub(super) const fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(super) const fn number(self) -> u64 {
        self.0
    }

    /// Whether no change is under way.
    pub(super) const fn is_stable(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// The state after the next change has begun; the same if a change is under way.
    pub(super) const fn change(self) -> Self {
        Self(self.0 | 1)
    }

    /// The state after the change has ended.
    pub(super) const fn settle(self) -> Self {
        Self((self.0 | 1) + 1)
    }

    /// The phase of this state, or before the change of this state. The first stable state is phase 0.
    pub(super) const fn phase(self, phases: usize) -> usize {
        ((self.0 >> 1).saturating_sub(1) % phases as u64) as usize
    }

    /// Whether this state ended before the change to `stable` began.
    pub(super) const fn is_before_change_to(self, stable: Self) -> bool {
        self.0 + 1 < stable.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_belongs_to_the_phase_before_it() {
        let mut state = State::NONE;
        let mut phases = Vec::new();
        for _ in 0..4 {
            state = state.change();
            assert!(!state.is_stable() && state.change() == state);
            phases.push(state.phase(3));
            state = state.settle();
            assert!(state.is_stable());
            phases.push(state.phase(3));
        }
        assert_eq!(phases, [0, 0, 0, 1, 1, 2, 2, 0]);
        assert_eq!(State::NONE.settle(), State::FIRST);
    }

    #[test]
    fn a_state_is_before_the_changes_that_come_after_it() {
        let [first, change, second] = [2, 3, 4].map(State::from_number);
        assert!(first.is_before_change_to(second));
        assert!(!change.is_before_change_to(second) && !second.is_before_change_to(second));
        assert!(change.is_before_change_to(second.settle()) && second.is_before_change_to(second.settle()));
    }
}
