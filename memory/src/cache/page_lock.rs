//! The lock of a page: held while a page moves to another frame, is written out or read in, or leaves its file.
//!
//! The lock is a bit of the frame's state, because every page has one and contention is rare. A task may hold it for
//! long, over flushes and devices. So a task that waits for it sleeps and holds no other lock, and a task that holds
//! one only tries to take a second. Readers of a page need no lock, because a reference keeps the page. A task checks
//! the lock only if it is about to make a page writable: while the page is locked, its bytes must not change.
//!
//! The lock and the walk to a page's mappings are a pair of store and load on both sides. One task locks a page, and then
//! finds no table through which a space could map it. The other makes that table, and then finds the page unlocked. At
//! least one must see the other, or a page becomes writable while it is written out. So these four accesses are
//! sequentially consistent. Where the table exists, its lock orders the two.

use core::fmt;

use crate::address::FrameNumber;
use crate::frames::frame::FrameInfo;
use crate::machine::Machine;
use crate::sabotage::Guard;
use crate::Memory;

/// A locked page. Dropping this unlocks it.
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
    /// Locks a page that the caller holds a reference to, if it is not locked.
    pub(crate) fn try_lock_page(&self, frame: FrameNumber) -> Option<PageLock<'_, P>> {
        self.frames.get(frame).try_lock().then(|| PageLock { memory: self, frame })
    }

    /// Locks a page that the caller holds a reference to, after a wait of any length. No lock may be held.
    pub(crate) fn lock_page(&self, frame: FrameNumber) -> PageLock<'_, P> {
        loop {
            if let Some(lock) = self.try_lock_page(frame) {
                return lock;
            }
            self.wait_for_page(frame);
        }
    }

    /// Whether a page is locked, so its bytes must not change. The caller has its table locked, and is about to make an
    /// entry writable.
    pub(crate) fn must_wait(&self, info: &FrameInfo) -> bool {
        self.guarded(Guard::Stable) && info.locked() // R5
    }

    /// Unlocks a page and wakes the tasks that wait for it. A [`PageLock`] does so when it is dropped. A page that was
    /// put into its cache locked, to be read in, has no `PageLock`.
    pub(crate) fn unlock_page(&self, frame: FrameNumber) {
        if self.frames.get(frame).unlock() {
            self.platform().page_ready(frame);
        }
    }

    /// Waits until a page is not locked. No lock may be held. The caller need not hold the page: if the frame is freed
    /// and used again, the wait is pointless but harmless, and the caller looks again.
    pub(crate) fn wait_for_page(&self, frame: FrameNumber) {
        let info = self.frames.get(frame);
        self.platform().wait_for_page(frame, &|| info.want());
    }
}
