//! Stamps: until when lazy debts stand.

/// Until when CPUs may reach what a lazy unmap took away: the number of an epoch of debts.
///
/// Later debts have larger stamps, and debts are settled in order: what settles a stamp settles all before it. 64 bits,
/// one each time that an epoch ends, which is at most once per operation that owes: at a million a second they last
/// 584 000 years, so there is no wrap to reason about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    /// Nothing is owed.
    pub const SETTLED: Self = Self(0);

    pub(crate) const fn new(epoch: u64) -> Self {
        Self(epoch)
    }

    /// The number, to be stored; 0 exactly for [`Stamp::SETTLED`].
    pub const fn get(self) -> u64 {
        self.0
    }

    /// A stamp that was stored as the number that [`Stamp::get`] gave.
    pub const fn stored(number: u64) -> Self {
        Self(number)
    }

    /// The stamp of two things that became one: settled when both are.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        if self.0 < other.0 {
            other
        } else {
            self
        }
    }
}
