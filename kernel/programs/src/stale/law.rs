//! The law of a scenario: how a stored word may change.

use super::state::State;

/// The effect of a scenario's operations on contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Law {
    /// They are kept, under any change of translations and frames.
    Kept,
    /// They may become zeros at any time after the call, until they are stored again.
    MayBeZero,
    /// They are zeros when the call has returned.
    Zero,
}

/// The last store to a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    /// The value.
    pub(super) value: u64,
    /// The state before the store.
    pub(super) from: State,
    /// The state when the store was certainly done.
    pub(super) to: State,
}

impl Stored {
    /// No store: the word is zero.
    pub(super) const NOTHING: Self = Self { value: 0, from: State::NONE, to: State::NONE };
}

/// The values that a load may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// This value alone.
    Exactly(u64),
    /// This value, or zero.
    OrZero(u64),
}

impl Expected {
    pub(super) fn allows(self, found: u64) -> bool {
        match self {
            Self::Exactly(value) => found == value,
            Self::OrZero(value) => found == value || found == 0,
        }
    }

    pub(super) fn value(self) -> u64 {
        let (Self::Exactly(value) | Self::OrZero(value)) = self;
        value
    }
}

impl Law {
    /// The values that a load may show after the store `stored`, if the states before and after the load were these.
    pub(super) fn expected(self, stored: Stored, before: State, after: State) -> Expected {
        let Stored { value, from, to } = stored;
        if self == Self::Kept {
            return Expected::Exactly(value);
        }
        if before != after || !before.is_stable() {
            return Expected::OrZero(value);
        }
        if from == before {
            return Expected::Exactly(value);
        }
        match self {
            // A store during the call may come before the call's effect or after it.
            Self::Zero if to.is_before_change_to(before) => Expected::Exactly(0),
            _ => Expected::OrZero(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that a load in the states `load` may show of a store in the states `store`.
    fn expected(law: Law, store: [u64; 2], load: [u64; 2]) -> Expected {
        let ([from, to], [before, after]) = (store.map(State::from_number), load.map(State::from_number));
        law.expected(Stored { value: 7, from, to }, before, after)
    }

    #[test]
    fn kept_contents_are_there_at_any_time() {
        for (store, load) in [([2, 2], [2, 2]), ([2, 2], [3, 4]), ([3, 4], [10, 10]), ([2, 3], [5, 5])] {
            assert_eq!(expected(Law::Kept, store, load), Expected::Exactly(7));
        }
    }

    #[test]
    fn discarded_contents_are_gone_when_the_call_has_returned() {
        let expected = |store, load| expected(Law::Zero, store, load);
        assert_eq!(expected([4, 4], [4, 4]), Expected::Exactly(7), "stored since");
        assert_eq!(expected([2, 2], [4, 4]), Expected::Exactly(0), "stored before the call began");
        for during in [[2, 3], [3, 3], [3, 4], [2, 4]] {
            assert_eq!(expected(during, [4, 4]), Expected::OrZero(7), "stored before the call or after it");
            assert_eq!(expected(during, [6, 6]), Expected::Exactly(0), "and another call came later");
        }
        assert_eq!(expected([2, 2], [2, 3]), Expected::OrZero(7), "a call began meanwhile");
        assert_eq!(expected([2, 2], [3, 3]), Expected::OrZero(7), "a call is being done");
    }

    #[test]
    fn freed_contents_stay_or_go_until_they_are_stored_again() {
        let expected = |store, load| expected(Law::MayBeZero, store, load);
        assert_eq!(expected([4, 4], [4, 4]), Expected::Exactly(7));
        for (store, load) in
            [([2, 2], [4, 4]), ([3, 3], [4, 4]), ([3, 4], [4, 4]), ([3, 3], [6, 6]), ([2, 2], [3, 3])]
        {
            assert_eq!(expected(store, load), Expected::OrZero(7));
        }
    }

    #[test]
    fn zero_is_allowed_only_where_expected() {
        assert!(
            Expected::OrZero(7).allows(0) && Expected::OrZero(7).allows(7) && !Expected::OrZero(7).allows(8)
        );
        assert!(Expected::Exactly(7).allows(7) && !Expected::Exactly(7).allows(0));
    }
}
