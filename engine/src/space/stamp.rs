//! Stamps: the time until which lazy debts stand.
//!
//! A stamp is the number of an epoch in the ledger of lazy debts. A frame, a page's slot and a range of addresses each
//! keep one while they owe. A comparison with the newest settled epoch shows whether the debt still stands.

/// The time until which CPUs may reach what a lazy unmap took away: the number of an epoch of debts.
///
/// Later debts have larger stamps. Debts are settled in order, so all stamps before a settled one are settled. The
/// number rises when an epoch ends, at most once for each operation that owes. At a million a second, 64 bits last for
/// 584 000 years, so stamps do not wrap.
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

    /// The stamp that was stored as the number of [`Stamp::get`].
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
