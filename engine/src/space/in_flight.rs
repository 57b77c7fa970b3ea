//! Changes in flight: the number of changes of a space's translations that are not flushed yet.

use crate::primitive::{AtomicU64, Ordering};

/// The count of a batch that narrowed translations and has not flushed yet. A gather counts one.
const DOWNGRADE: u64 = 1 << 32;

/// The number of open gathers, in the lower half, and of batches that narrowed translations, in the upper half. They
/// share a word, so a batch reads both with one load for each translation that it records.
///
/// A change is counted before the page-table lock is taken, or under it. So a CPU that finds the translation changed,
/// under the lock, finds the count too. A CPU that finds the count gone acquires the flush.
#[derive(Debug)]
pub(crate) struct InFlight(AtomicU64);

impl InFlight {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn begin_gather(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_gather(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn begin_downgrade(&self) {
        self.0.fetch_add(DOWNGRADE, Ordering::Relaxed);
    }

    pub(crate) fn end_downgrade(&self) {
        self.0.fetch_sub(DOWNGRADE, Ordering::Release);
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Whether there is any besides the downgrade of the caller, if `mine` says that it has one.
    pub(crate) fn any_but(&self, mine: bool) -> bool {
        self.0.load(Ordering::Acquire) != if mine { DOWNGRADE } else { 0 }
    }

    /// Whether another gather besides the caller's own is open.
    pub(crate) fn nested(&self) -> bool {
        self.0.load(Ordering::Acquire) % DOWNGRADE > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_and_downgrades_are_counted_apart() {
        let counts = InFlight::new();
        assert!(!counts.any());
        counts.begin_downgrade();
        assert!(counts.any_but(false) && !counts.any_but(true));
        counts.begin_gather();
        assert!(counts.any() && !counts.nested() && counts.any_but(true));
        counts.begin_gather();
        assert!(counts.nested());
        counts.end_downgrade();
        counts.end_gather();
        assert!(counts.any() && !counts.nested());
        counts.end_gather();
        assert!(!counts.any());
    }
}
