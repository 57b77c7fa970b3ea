//! How many changes of a space's translations are between the change and its flush.

use crate::primitive::{AtomicU64, Ordering};

/// A batch that narrowed translations and has not flushed yet counts this; a gather counts one.
const DOWNGRADE: u64 = 1 << 32;

/// Gathers that are open, in the lower half, and batches that narrowed translations, in the upper half. One word, so that
/// a batch asks for both with one load for each translation that it records.
#[derive(Debug)]
pub(crate) struct InFlight(AtomicU64);

impl InFlight {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn begin_gather(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end_gather(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn begin_downgrade(&self) {
        self.0.fetch_add(DOWNGRADE, Ordering::SeqCst);
    }

    pub(crate) fn end_downgrade(&self) {
        self.0.fetch_sub(DOWNGRADE, Ordering::SeqCst);
    }

    /// Whether there is any.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// Whether there is any beside the downgrade of the caller, if it is `mine`.
    pub(crate) fn any_but(&self, mine: bool) -> bool {
        self.0.load(Ordering::SeqCst) != if mine { DOWNGRADE } else { 0 }
    }

    /// Whether another gather than the caller's own is open.
    pub(crate) fn nested(&self) -> bool {
        self.0.load(Ordering::SeqCst) % DOWNGRADE > 1
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
