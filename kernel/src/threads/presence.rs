//! Whether a CPU takes part. `offline` takes CPUs through these states.

use core::sync::atomic::{AtomicU8, Ordering};

/// It takes part.
pub(super) const HERE: u8 = 0;
/// It is asked to go.
const LEAVING: u8 = 1;
/// It is offline.
pub(super) const AWAY: u8 = 2;
/// It is asked to come back.
pub(super) const RETURNING: u8 = 3;

/// Whether a CPU takes part.
#[derive(Debug)]
pub(crate) struct Presence(AtomicU8);

impl Presence {
    /// It takes part.
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(HERE))
    }

    /// Whether it takes part. It may be asked to go at any moment.
    pub(super) fn is_here(&self) -> bool {
        self.is(HERE)
    }

    /// Whether it takes ticks: it takes part, or is only asked to go.
    pub(crate) fn has_ticks(&self) -> bool {
        self.is_here() || self.is_leaving()
    }

    /// Whether it is asked to go: it runs no further thread.
    pub(super) fn is_leaving(&self) -> bool {
        self.is(LEAVING)
    }

    /// Asks it to go. Returns false if it does not take part, or is asked already.
    pub(super) fn ask_to_go(&self) -> bool {
        self.0.compare_exchange(HERE, LEAVING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(super) fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::SeqCst) == state
    }

    pub(super) fn set(&self, state: u8) {
        self.0.store(state, Ordering::SeqCst);
    }
}
