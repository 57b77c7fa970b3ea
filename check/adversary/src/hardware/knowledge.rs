//! What CPUs know of each other's accesses.
//!
//! A frame may be given away only by a CPU that knows of the last access to it: that access has happened before. A CPU
//! knows of an access by what the memory model says: it acquired what the accessing CPU released later. Or an
//! invalidation on all CPUs, or in a device, is done, and the access used an entry that it removes. Accesses by other
//! entries may still be under way then (Arm: the `DSB` after a `TLBI` waits for accesses by the invalidated entries).

use super::frame::{Accessed, Frame};
use super::tlb::Filled;
use super::{Hardware, Landed};

impl Hardware {
    /// An access lands in a frame.
    pub(super) fn touch(&self, entry: &Filled, store: bool) {
        let mut frames = self.frames.borrow_mut();
        let Frame { content, stored, .. } = &mut frames[entry.frame as usize];
        self.count(content, entry);
        if store {
            self.count(stored, entry);
        }
        self.paging.uses(entry, &|used| self.count(used, entry));
    }

    fn count(&self, Accessed(first): &mut Accessed, entry: &Filled) {
        let (thread, mut views) = (self.me(), self.views.borrow_mut());
        let first = *first.get_or_insert_with(|| {
            let first = views.add(0);
            for _ in 1..self.threads() {
                views.add(0);
            }
            first
        });
        let location = first + thread as u32;
        let number = views.touch(thread, location);
        self.landed.borrow_mut().push(Landed { thread, location, number, entry: *entry });
    }

    /// Whether this CPU must know of the last accesses there, and does not.
    pub(crate) fn misses(&self, Accessed(first): Accessed) -> bool {
        let Some(first) = first.filter(|_| self.looks()) else { return false };
        let views = self.views.borrow();
        !(first..first + self.threads()).all(|location| views.knows(self.me(), location))
    }

    fn threads(&self) -> u32 {
        (self.cores.len() + self.devices.len()) as u32
    }

    /// A thread accesses nothing for now: a device that was stopped.
    pub(crate) fn know_idle(&self, thread: usize) {
        self.know(|of, _| of == thread);
    }

    /// This CPU knows of the accesses of which `of` holds, by their threads and entries.
    pub(super) fn know(&self, of: impl Fn(usize, &Filled) -> bool) {
        let mut views = self.views.borrow_mut();
        for landed in self.landed.borrow().iter().filter(|landed| of(landed.thread, &landed.entry)) {
            views.teach(self.me(), landed.location, landed.number);
        }
    }
}
