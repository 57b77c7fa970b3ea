//! The interface to the machine, beyond the engine's [`Platform`].

mod event;
mod work;

use core::fmt::Debug;

use ceasefire::{CpuId, Platform};

use crate::address::{Block, FrameNumber};
use crate::frames::node::NodeId;
use crate::locks::{Lock, Rcu, RwLock};
use crate::shadow::{Misuse, Shadow};
use crate::spaces::space::SpaceHandle;
use crate::tables::table::Table;

pub use event::Event;
pub use work::Work;

/// A machine whose memory can be managed.
///
/// A kernel implements the first group. The second group lets a simulator account for time and check rules. A kernel
/// keeps its default methods, which are empty and cost nothing.
pub trait Machine: Platform<Space = SpaceHandle<Self>> {
    /// The kernel's lock.
    type Lock<T: Debug>: Lock<T, Self> + Debug;
    /// The kernel's reader-writer lock.
    type RwLock<T: Debug>: RwLock<T, Self> + Debug;
    /// The kernel's way to publish a value to readers that take no lock.
    type Rcu<T: Clone + Debug>: Rcu<T, Self> + Debug;

    /// The page-table page in `frame`, through the kernel's own mapping of all memory.
    fn table(&self, frame: FrameNumber) -> &Table;

    /// Copies the kernel's half into a new top-level table, which holds only zeros so far, before any CPU can load it.
    ///
    /// Where one register translates both halves (x86-64), the kernel copies its own
    /// [`KERNEL_ENTRIES`](crate::KERNEL_ENTRIES). The memory manager never reads them, and they are still there when
    /// the table is freed. Where the kernel has tables of its own (Arm), there is nothing to do.
    fn share_kernel(&self, root: &Table) {
        let _ = root;
    }

    /// Translations of the kernel's own were installed in a [`KernelArea`](crate::KernelArea). When the call returns,
    /// walks see them on this CPU, and on each CPU that gets the address from it.
    ///
    /// On Arm this is `DSB ISHST` and `ISB`. On x86-64 there is nothing to do.
    fn publish_kernel(&self) {}

    /// Fills `count` neighbouring frames with zeros.
    fn zero(&self, first: FrameNumber, count: u32);

    /// Copies `count` neighbouring frames to as many others.
    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32);

    /// Copies bytes out of a frame, starting at `offset` in it.
    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]);

    /// Copies bytes into a frame, starting at `offset` in it.
    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]);

    /// Writes pages to their devices and returns when all data is safe. No CPU can store into the frames unseen while
    /// it runs.
    ///
    /// The task may sleep meanwhile. Of the [`locks`](crate::locks) it holds at most one space's, shared or exclusive,
    /// besides the pages'; it holds a space's if its allocation ran out of memory under that lock. None of these locks
    /// spins, nothing is pinned, and interrupts are on.
    fn write_out(&self, pages: &[(Block, FrameNumber)]);

    /// Reads pages from their devices and returns when all have arrived. Each block was written out before, or is of a
    /// file that the device held from the start.
    ///
    /// The task may sleep meanwhile, as in [`Machine::write_out`]. Besides the pages' locks it holds at most one
    /// space's, shared, as a fault does.
    fn read_in(&self, pages: &[(Block, FrameNumber)]);

    /// Waits until `busy` returns false. Each time it returns true, [`Machine::page_ready`] will be called for `frame`
    /// later. The caller holds no lock, so the thread may sleep. Waking too early is allowed.
    fn wait_for_page(&self, frame: FrameNumber, busy: &dyn Fn() -> bool);

    /// Wakes the threads that wait for `frame` in [`Machine::wait_for_page`].
    fn page_ready(&self, frame: FrameNumber);

    /// The node that a CPU belongs to.
    fn node_of(&self, cpu: CpuId) -> NodeId;

    /// A node runs low: its background reclaimer should run [`Memory::reclaim_node`](crate::Memory::reclaim_node). The
    /// call is made once and not repeated until that run has ended, so it must not be lost. It may come from any CPU,
    /// with any locks held.
    fn wake_reclaim(&self, node: NodeId);

    /// Whether the bytes of free frames change: the machine fills them with zeros or a pattern, or makes them
    /// unreachable. Such frames are never released while CPUs may read them.
    fn alters_free_frames(&self) -> bool {
        false
    }

    /// Gives `body` exclusive access to the [shadow record](crate::shadow), if the machine keeps one, for debug builds.
    /// It is called with any locks held and with interrupts on or off, so a kernel guards the record with a spin lock
    /// of its own, held with interrupts off. Of the machine's methods `body` calls only [`Platform::now`]. It may
    /// allocate.
    ///
    /// By default nothing is recorded, and the compiled program contains no trace of the record.
    fn shadow(&self, body: impl FnOnce(&mut Shadow)) {
        let _ = body;
    }

    /// The shadow found that a flush is missing. It may be called from any context, with any locks held.
    ///
    /// # Panics
    /// By default, because any further step would be wrong.
    fn misused(&self, misuse: Misuse) {
        panic!("{misuse}");
    }

    /// A point at which a long operation lets other tasks run, if the machine can. It is also a sign of life.
    ///
    /// The task may sleep here. Of the [`locks`](crate::locks) it holds at most sleeping ones: one space's, and the
    /// mappers' of one file and of one anonymous memory. None spins, nothing is pinned, and interrupts are on. The task
    /// may still owe the flush of an operation that goes on.
    ///
    /// A kernel whose callers hold locks of their own checks [`HeldLocks::may_sleep`](crate::HeldLocks::may_sleep)
    /// here, in [`Machine::read_in`] and in [`Machine::write_out`]. If it returns false, the task must not leave its
    /// CPU.
    fn reschedule(&self) {}

    /// `count` pieces of work are done now. A simulator charges their time.
    fn work(&self, work: Work, count: u32) {
        let _ = (work, count);
    }

    /// Reports an event to a checker.
    fn observe(&self, event: Event<'_>) {
        let _ = event;
    }
}
