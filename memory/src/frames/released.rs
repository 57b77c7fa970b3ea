//! Pages that are given up one after the other, and leave the lists together.
//!
//! A page without holders comes off its node's list before it is free, and that takes the lock of the lists. So an unmap
//! collects such pages, and takes the lock once for many (Linux: `folios_put_refs`).

use crate::address::FrameNumber;
use crate::frames::lru::{Isolated, LruBatch};
use crate::machine::Machine;
use crate::Memory;

/// Pages that were given up. They are freed, or listed, when there are many, and when this is dropped.
pub(crate) struct Released<'m, P: Machine> {
    pub(crate) memory: &'m Memory<P>,
    /// Pages without holders that are on a list.
    dead: LruBatch,
    /// Pages to be listed.
    isolated: LruBatch,
}

impl<'m, P: Machine> Released<'m, P> {
    pub(crate) fn new(memory: &'m Memory<P>) -> Self {
        Self { memory, dead: LruBatch::default(), isolated: LruBatch::default() }
    }

    /// Drops a counted reference, and frees the frame if it was the last.
    pub(crate) fn put(&mut self, page: FrameNumber) {
        if self.memory.put_unlisted(page) {
            if let Some(full) = self.dead.add(page) {
                self.memory.free_listed(&full);
            }
        }
    }

    /// Puts a page back on its list.
    pub(crate) fn put_back(&mut self, page: Isolated) {
        if let Some(full) = self.isolated.add(page.into_number()) {
            self.memory.put_back_batch(&full);
        }
    }
}

impl<P: Machine> Released<'_, P> {
    /// Lists the pages that were put back.
    pub(crate) fn list(&mut self) {
        self.memory.put_back_batch(&core::mem::take(&mut self.isolated));
    }
}

impl<P: Machine> Drop for Released<'_, P> {
    fn drop(&mut self) {
        self.memory.free_listed(&self.dead);
        self.list();
    }
}
