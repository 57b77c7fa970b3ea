//! Locks that are held as long as they exist, for tests on one thread.

use ceasefire::{Platform, RangeGuard, TableGuard};

/// A page-table lock of a space, held.
#[derive(Debug)]
pub struct TableLock<S>(pub S);

// SAFETY: the test runs on one thread, and no other code changes translations meanwhile. It names one space.
unsafe impl<P: Platform> TableGuard<P> for TableLock<P::Space> {
    fn space(&self) -> &P::Space {
        &self.0
    }
}

/// A space's lock, held exclusively.
#[derive(Debug)]
pub struct SpaceLock<S>(pub S);

// SAFETY: the test runs on one thread, and creates no translation meanwhile. It names one space.
unsafe impl<P: Platform> RangeGuard<P> for SpaceLock<P::Space> {
    fn space(&self) -> &P::Space {
        &self.0
    }
}
