//! The locks of page-table pages.

use alloc::boxed::Box;

use crate::address::FrameNumber;
use crate::locks;
use crate::locks::Lock;
use crate::machine::Machine;

/// The locks of all page-table pages; many tables share one lock.
#[derive(Debug)]
pub(crate) struct TableLocks<P: Machine> {
    stripes: Box<[P::Lock<()>]>,
}

impl<P: Machine> TableLocks<P> {
    pub(crate) fn new(cpus: usize) -> Self {
        // With so many locks, two CPUs with different tables rarely meet on one.
        let count = (cpus * 64).next_power_of_two();
        Self { stripes: (0..count).map(|_| P::Lock::new(&locks::TABLE, ())).collect() }
    }

    pub(super) fn of(&self, table: FrameNumber) -> &P::Lock<()> {
        // Fibonacci hashing spreads neighbours; the number of stripes is a power of two.
        let hash = table.get().wrapping_mul(0x9e37_79b9) >> 8;
        &self.stripes[hash as usize & (self.stripes.len() - 1)]
    }
}
