//! What CPUs know of each other's accesses.
//!
//! A frame may be given away only by a CPU that knows of the last access to it: that access has happened before. A CPU
//! knows of an access by what the memory model says: it acquired what the accessing CPU released later. Or an
//! invalidation on all CPUs, or in a device, is done, and the access used an entry that it removes. Accesses by other
//! entries may still be under way then (Arm: the `DSB` after a `TLBI` waits for accesses by the invalidated entries).

use super::{Frame, Hardware};
use crate::tlb::{Filled, Invalidation};

/// A place whose accesses are counted: the content of a frame, what is stored there, or a mapping. Each thread has a
/// location there, and each of its accesses is a store to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accessed(u32);

/// An access, as a store to its thread's location.
#[derive(Debug)]
pub(super) struct Landed {
    thread: usize,
    location: u32,
    number: u32,
    entry: Filled,
}

impl Hardware {
    /// A place that no thread has accessed yet.
    pub(crate) fn add_accessed(&self) -> Accessed {
        let first = self.views.borrow_mut().add(0);
        for _ in 1..self.cores.len() + self.devices.len() {
            self.views.borrow_mut().add(0);
        }
        Accessed(first)
    }

    /// An access lands in a frame.
    pub(super) fn touch(&self, entry: &Filled, store: bool) {
        let Frame { content, stored, .. } = self.frames.borrow()[entry.frame as usize];
        let places = [Some(content), self.paging.used(entry), store.then_some(stored)];
        let thread = self.me();
        for Accessed(first) in places.into_iter().flatten() {
            let location = first + thread as u32;
            let number = self.views.borrow_mut().touch(thread, location);
            self.landed.borrow_mut().push(Landed { thread, location, number, entry: *entry });
        }
    }

    /// Whether this CPU must know of the last accesses there, and does not.
    pub(crate) fn misses(&self, Accessed(first): Accessed) -> bool {
        let threads = (self.cores.len() + self.devices.len()) as u32;
        let views = self.views.borrow();
        self.looks() && !(first..first + threads).all(|location| views.knows(self.me(), location))
    }

    /// An invalidation is done on all CPUs.
    pub(crate) fn know_done(&self, what: &Invalidation) {
        self.know(|_, entry| what.removes(entry));
    }

    /// A thread accesses nothing for now: a device that was stopped, a CPU that a hypervisor does not run.
    pub(crate) fn know_idle(&self, thread: usize) {
        self.know(|of, _| of == thread);
    }

    /// This CPU knows of the accesses that a thread made by an entry.
    pub(super) fn know(&self, of: impl Fn(usize, &Filled) -> bool) {
        let mut views = self.views.borrow_mut();
        for landed in self.landed.borrow().iter().filter(|landed| of(landed.thread, &landed.entry)) {
            views.teach(self.me(), landed.location, landed.number);
        }
    }
}
