//! TLB flushes, by the engine of the crate `ceasefire`.
//!
//! The interface is that of ostd's own file of this name, so its callers stay as they are. A [`TlbFlusher`] collects
//! changes that were made to page tables, and frames that they led to. [`TlbFlusher::dispatch_tlb_flush`] begins a
//! flush of all of them, and [`TlbFlusher::sync_tlb_flush`] waits for its end. Only then are the frames dropped.
//!
//! - `machine` is the engine's platform: what this kernel does for the engine.
//! - `changed` adds up changes to one flush.
//! - `space` is what a `VmSpace` has for the engine, in the place of a set of CPUs.
//! - `frames` keeps frames until they can be dropped.
//! - `evict` takes pages away without a flush.
//! - `kernel` is for ranges of the kernel's own addresses.
//!
//! Flushes use no queue. A CPU posts one request for all its targets, and waits until each has reached the generation
//! of the flush. It allocates nothing for that, and takes no lock of another CPU.

mod changed;
mod evict;
mod frames;
mod kernel;
mod machine;
mod processor;
mod space;

use core::{mem, ops::Range};

use ceasefire::Pending;

#[cfg(ceasefire_sabotage)]
pub use self::machine::remove_guard;
pub(crate) use self::machine::{answer, online, start};
pub use self::space::Space;
use self::{
    changed::Changed,
    frames::Frames,
    machine::{ENGINE, Machine, is_up},
};
pub(in crate::mm) use self::{
    evict::{Evicting, Taken, settle},
    kernel::retire,
    space::Loaded,
};
use super::{
    PAGE_SIZE, Vaddr,
    frame::{Frame, meta::AnyFrameMeta},
};
use crate::{
    cpu::{AtomicCpuSet, PinCurrentCpu},
    sync::RcuDrop,
};

/// A frame of any use: a page or a page table.
type AnyFrame = Frame<dyn AnyFrameMeta>;

/// The translations that a flusher changes.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Those of programs in one address space.
    Space(&'a Space),
    /// Those of the kernel's own addresses, which every CPU may hold.
    Kernel,
}

impl PartialEq for Target<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Space(one), Self::Space(other)) => one.id() == other.id(),
            (Self::Kernel, Self::Kernel) => true,
            _ => false,
        }
    }
}

impl<'a> From<&'a Space> for Target<'a> {
    fn from(space: &'a Space) -> Self {
        Self::Space(space)
    }
}

/// A flush of a set of CPUs is one of kernel addresses: programs have a [`Space`]. It reaches every CPU that is online.
impl<'a> From<&'a AtomicCpuSet> for Target<'a> {
    fn from(_: &'a AtomicCpuSet) -> Self {
        Self::Kernel
    }
}

/// Changes of translations that are not flushed yet, with the frames that they led to.
///
/// Dropping it flushes what is left, and waits.
#[derive(Debug)]
pub struct TlbFlusher<'a, G: PinCurrentCpu> {
    target: Target<'a>,
    changed: Changed,
    /// The flush that was begun last.
    pending: Option<Pending<'a, Machine>>,
    /// The frames of the changes and of the pending flush. They are dropped after a flush of all of them.
    frames: Frames,
    /// Another flusher takes the changes.
    deferred: bool,
    _pin_current: G,
}

impl<'a, G: PinCurrentCpu> TlbFlusher<'a, G> {
    /// A flusher for the translations of `target`, on the CPU to which the guard pins the caller.
    pub fn new(target: impl Into<Target<'a>>, pin_current_guard: G) -> Self {
        Self {
            target: target.into(),
            changed: Changed::Nothing,
            pending: None,
            frames: Frames::new(),
            deferred: false,
            _pin_current: pin_current_guard,
        }
    }

    /// Adds a change that was made. The next [`Self::dispatch_tlb_flush`] flushes it.
    pub fn issue_tlb_flush(&mut self, op: TlbFlushOp) {
        self.changed.add(&op);
    }

    /// Adds a change that was made, with the frame that the old translation led to. The frame is dropped after the
    /// flush and after an RCU grace period, since readers of the page table may still have a reference to it.
    pub fn issue_tlb_flush_with(&mut self, op: TlbFlushOp, drop_after_flush: RcuDrop<AnyFrame>) {
        self.changed.add(&op);
        self.frames.add(drop_after_flush);
    }

    /// Leaves the flush of all changes to [`Self::hand_over`]: [`Self::dispatch_tlb_flush`] does nothing until then.
    ///
    /// It is for a call that changes many mappings, each under a cursor of its own. One round of interrupts then serves
    /// all of them. The caller keeps new mappings out of the ranges until the flush, as a lock of the whole space does.
    pub fn defer(&mut self) {
        self.deferred = true;
    }

    /// Gives all changes and frames that were not flushed to another flusher of the same space.
    ///
    /// # Panics
    ///
    /// If the other flusher is for another space.
    pub fn hand_over<H: PinCurrentCpu>(&mut self, other: &mut TlbFlusher<'a, H>) {
        assert!(self.target == other.target, "changes of one space are flushed in it");
        let changed = mem::replace(&mut self.changed, Changed::Nothing);
        other.changed.add(&TlbFlushOp(changed));
        other.frames.take_from(&mut self.frames);
        self.deferred = false;
    }

    /// Begins a flush of all changes that were added, and does this CPU's part. The other CPUs may not be done when the
    /// call returns.
    pub fn dispatch_tlb_flush(&mut self) {
        if self.deferred {
            return;
        }
        let changed = mem::replace(&mut self.changed, Changed::Nothing);
        let Some(flush) = changed.flush() else { return };
        if !is_up() {
            // The other CPUs flush everything when they come online.
            changed.perform_on_current();
            return;
        }
        match self.target {
            Target::Space(space) => {
                let next = ENGINE.begin_flush(space, flush);
                // The engine began the next one after the CPUs had answered the one before.
                if let Some(before) = self.pending.replace(next) {
                    before.wait();
                }
            }
            Target::Kernel => ENGINE.flush_kernel(flush),
        }
    }

    /// Waits for the end of the flush that was begun last: no CPU has a translation from before it. Then the frames
    /// are dropped, unless changes were added since.
    ///
    /// # Panics
    ///
    /// With interrupts off. Two CPUs that wait in this way for each other would answer each other, since the engine
    /// does so while it waits. But a third that waits for a lock of the caller's with interrupts off would not.
    pub fn sync_tlb_flush(&mut self) {
        assert!(
            !is_up() || crate::arch::irq::is_local_enabled(),
            "a wait for a TLB flush with interrupts off"
        );
        self.wait();
    }

    fn wait(&mut self) {
        if let Some(pending) = self.pending.take() {
            pending.wait();
        }
        if matches!(self.changed, Changed::Nothing) {
            self.frames.release();
        }
    }
}

impl<G: PinCurrentCpu> Drop for TlbFlusher<'_, G> {
    fn drop(&mut self) {
        self.deferred = false;
        self.dispatch_tlb_flush();
        self.wait();
    }
}

/// A change of translations.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlbFlushOp(Changed);

impl TlbFlushOp {
    /// All translations but the global ones.
    pub const fn for_all() -> Self {
        Self(Changed::Everything)
    }

    /// The translation of the page at an address.
    pub const fn for_single(addr: Vaddr) -> Self {
        let start = addr & !(PAGE_SIZE - 1);
        Self(Changed::Pages { start, end: start + PAGE_SIZE, tables: false })
    }

    /// The translations of a range, and the page tables below it. The engine flushes everything if the range is long.
    ///
    /// # Panics
    ///
    /// If the range is empty or does not consist of whole pages.
    pub const fn for_range(range: Range<Vaddr>) -> Self {
        assert!(range.start.is_multiple_of(PAGE_SIZE), "the range must start at a page");
        assert!(range.end.is_multiple_of(PAGE_SIZE), "the range must end at a page");
        assert!(range.start < range.end, "the range must not be empty");
        Self(Changed::Pages { start: range.start, end: range.end, tables: true })
    }

    /// Flushes on this CPU alone.
    pub fn perform_on_current(&self) {
        self.0.perform_on_current();
    }
}
