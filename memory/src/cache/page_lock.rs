//! The lock of a page: held while a page moves to another frame, is written out or read in, or leaves its file.
//!
//! It is a bit of the frame's state, because there is one for every page and hardly any is ever contended. It may be held
//! for long, over flushes and devices; so whoever waits for it sleeps and holds nothing else. Whoever holds one already
//! only tries for a second. Readers of a page need no lock: a reference keeps it. Only who is
//! about to make a page writable, or to take it for a huge one, asks whether it is locked, because then its bytes must
//! stay as they are.

use core::fmt;

use crate::address::FrameNumber;
use crate::machine::Machine;
use crate::Memory;

/// A locked page; unlocked when this is dropped.
pub(crate) struct PageLock<'m, P: Machine> {
    memory: &'m Memory<P>,
    frame: FrameNumber,
}

impl<P: Machine> PageLock<'_, P> {
    /// The page's frame.
    pub(crate) fn frame(&self) -> FrameNumber {
        self.frame
    }
}

impl<P: Machine> Drop for PageLock<'_, P> {
    fn drop(&mut self) {
        self.memory.unlock_page(self.frame);
    }
}

impl<P: Machine> fmt::Debug for PageLock<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageLock({:?})", self.frame)
    }
}

impl<P: Machine> Memory<P> {
    /// Locks a page that the caller holds a reference to, if nobody else has it locked.
    pub(crate) fn try_lock_page(&self, frame: FrameNumber) -> Option<PageLock<'_, P>> {
        self.frames.get(frame).try_lock().then(|| PageLock { memory: self, frame })
    }

    /// Locks a page that the caller holds a reference to, however long that takes. No lock may be held.
    pub(crate) fn lock_page(&self, frame: FrameNumber) -> PageLock<'_, P> {
        loop {
            if let Some(lock) = self.try_lock_page(frame) {
                return lock;
            }
            self.wait_for_page(frame);
        }
    }

    /// Unlocks a page and wakes those that wait for it. A [`PageLock`] does it by itself; a page that was put into its cache
    /// locked, to be read in, has none.
    pub(crate) fn unlock_page(&self, frame: FrameNumber) {
        if self.frames.get(frame).unlock() {
            self.platform().page_ready(frame);
        }
    }

    /// Waits until a page is not locked. No lock may be held. The page need not be held: if it is freed and used again,
    /// this waits for nothing in particular, and the caller looks again.
    pub(crate) fn wait_for_page(&self, frame: FrameNumber) {
        let info = self.frames.get(frame);
        self.platform().wait_for_page(frame, &|| info.want());
    }
}
