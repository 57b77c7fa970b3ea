//! Frames on their way out: they wait for a flush, and then for readers of the page table.
//!
//! A flusher keeps frames in a list that its CPU lends. After the flush they go to the list of all frames that wait for
//! an RCU grace period. Both lists keep their memory, so that nothing is allocated once they are long enough.

use alloc::{boxed::Box, vec::Vec};
use core::{
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::AnyFrame;
use crate::{
    cpu::CpuId,
    cpu_local,
    sync::{LocalIrqDisabled, RcuDrop, SpinLock},
};

type List = Vec<AnyFrame>;

cpu_local! {
    /// The lists that this CPU lends: one for a flusher, and one for another that collects from flushers.
    static SPARES: [AtomicPtr<List>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
}

/// Frames that wait for a flush.
#[derive(Debug, Default)]
pub(super) struct Frames(Option<Box<List>>);

impl Frames {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Takes a frame that must be dropped after a grace period: by [`Self::add`] or [`Self::drop_later`].
    pub(super) fn keep(frame: RcuDrop<AnyFrame>) -> AnyFrame {
        // SAFETY: this module's callers pass it on to a list, whose frames are dropped by `Waited`, after a grace
        // period.
        let (frame, panic_guard) = unsafe { RcuDrop::into_inner(frame) };
        panic_guard.forget();
        frame
    }

    /// Adds a frame. Like all frames here, it is dropped after a grace period.
    pub(super) fn add(&mut self, frame: RcuDrop<AnyFrame>) {
        self.list().push(Self::keep(frame));
    }

    /// Drops a frame after a grace period. No CPU has a translation to it.
    pub(super) fn drop_later(frame: Option<AnyFrame>) {
        LIMBO.lock().enter(frame);
    }

    /// Adds all frames of another list.
    pub(super) fn take_from(&mut self, other: &mut Self) {
        if let Some(others) = &mut other.0 {
            self.list().append(others);
        }
    }

    fn list(&mut self) -> &mut List {
        self.0.get_or_insert_with(|| {
            let spares = SPARES.get_on_cpu(CpuId::current_racy());
            let taken = spares.iter().map(|spare| spare.swap(ptr::null_mut(), Ordering::Relaxed));
            let Some(list) = taken.into_iter().find(|list| !list.is_null()) else { return Box::default() };
            // SAFETY: `give_back` made the pointer from a box, and the exchange took it from there.
            unsafe { Box::from_raw(list) }
        })
    }

    /// Drops all frames after a grace period. No CPU has a translation to them.
    pub(super) fn release(&mut self) {
        if let Some(frames) = self.0.as_mut().filter(|frames| !frames.is_empty()) {
            LIMBO.lock().enter(frames.drain(..));
        }
    }

    /// Gives the list, which is empty, back to this CPU.
    fn give_back(&mut self) {
        let Some(list) = self.0.take() else { return };
        debug_assert!(list.is_empty());
        let list = Box::into_raw(list);
        let is_kept = SPARES.get_on_cpu(CpuId::current_racy()).iter().any(|spare| {
            spare.compare_exchange(ptr::null_mut(), list, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if !is_kept {
            // SAFETY: the pointer is that of the box above, and was not stored.
            drop(unsafe { Box::from_raw(list) });
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.release();
        self.give_back();
    }
}

/// The frames that wait for a grace period.
static LIMBO: SpinLock<Limbo, LocalIrqDisabled> =
    SpinLock::new(Limbo { next: Vec::new(), now: Vec::new(), is_waiting: false });

struct Limbo {
    /// Those that wait for the next period.
    next: List,
    /// Those that wait for the present one.
    now: List,
    /// A period runs for them.
    is_waiting: bool,
}

impl Limbo {
    fn enter(&mut self, frames: impl IntoIterator<Item = AnyFrame>) {
        self.next.extend(frames);
        if !self.is_waiting {
            self.wait();
        }
    }

    fn wait(&mut self) {
        self.is_waiting = !self.next.is_empty();
        if self.is_waiting {
            mem::swap(&mut self.next, &mut self.now);
            drop(RcuDrop::new(Waited));
        }
    }
}

/// It is dropped after a grace period, and has no bytes, so that RCU allocates nothing for it.
struct Waited;

impl Drop for Waited {
    fn drop(&mut self) {
        let mut waited = mem::take(&mut LIMBO.lock().now);
        // Outside the lock: a frame that is dropped may drop others.
        waited.clear();
        let mut limbo = LIMBO.lock();
        limbo.now = waited;
        limbo.wait();
    }
}
