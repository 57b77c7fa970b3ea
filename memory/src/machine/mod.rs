//! What the memory manager asks of a machine beyond the engine's [`Platform`].

mod event;
mod work;

use core::fmt::Debug;

use ceasefire::{CpuId, Platform};

use crate::address::{Block, FrameNumber};
use crate::frames::node::NodeId;
use crate::locks::{HeldLocks, Lock, RwLock};
use crate::shadow::{Misuse, Shadow};
use crate::spaces::space::SpaceHandle;
use crate::tables::table::Table;

pub use event::Event;
pub use work::Work;

/// A machine whose memory can be managed.
///
/// A kernel implements the first group; the second lets a simulator account for time and check rules, and a kernel
/// leaves it as it is: empty functions that cost nothing.
pub trait Machine: Platform<Space = SpaceHandle<Self>> {
    /// The kernel's lock.
    type Lock<T: Debug>: Lock<T, Self> + Debug;
    /// The kernel's reader-writer lock.
    type RwLock<T: Debug>: RwLock<T, Self> + Debug;

    /// The locks that the running task holds: for the debug check of their order, and for the kernel to know whether the
    /// task may sleep.
    fn held_locks(&self) -> &HeldLocks;

    /// A page-table page by its frame, through the kernel's own mapping of all memory.
    fn table(&self, frame: FrameNumber) -> &Table;

    /// Puts the kernel's half into a new top-level table, all zeros so far, before anybody can load it: where one register
    /// translates both halves (x86-64), the kernel copies its own [`KERNEL_ENTRIES`](crate::KERNEL_ENTRIES). The memory
    /// manager never looks at them; they are still there when the table is freed. Where the kernel has tables of its own
    /// (Arm), nothing is to be done.
    fn share_kernel(&self, root: &Table) {
        let _ = root;
    }

    /// Fills `count` neighbouring frames with zeros.
    fn zero(&self, first: FrameNumber, count: u32);

    /// Copies `count` neighbouring frames to as many others.
    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32);

    /// Copies bytes out of a frame, from `offset` in it on.
    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]);

    /// Copies bytes into a frame, from `offset` in it on.
    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]);

    /// Writes pages to their devices; returns when all the data is safe. Nothing can store into the frames unseen while
    /// it runs.
    ///
    /// The task may sleep meanwhile. Of [`locks`](crate::locks) it holds at most one space's, shared or exclusive (that of
    /// whoever ran out of memory under it), besides the pages'. None of them spins, nothing is pinned, and interrupts are on.
    fn write_out(&self, pages: &[(Block, FrameNumber)]);

    /// Reads pages from their devices; returns when all are there. Each block was written out before, or
    /// is of a file that the device held from the start.
    ///
    /// The task may sleep meanwhile, as in [`Machine::write_out`]. It holds at most one space's lock, shared (that of a
    /// fault), besides the pages'.
    fn read_in(&self, pages: &[(Block, FrameNumber)]);

    /// Waits until `busy` says no; each time it says yes, [`Machine::page_ready`] will be called for `frame` later. The
    /// caller holds no lock, so the thread may sleep; waking too early is allowed.
    fn wait_for_page(&self, frame: FrameNumber, busy: &dyn Fn() -> bool);

    /// What some wait for in [`Machine::wait_for_page`] has happened to `frame`.
    fn page_ready(&self, frame: FrameNumber);

    /// The node that a CPU belongs to.
    fn node_of(&self, cpu: CpuId) -> NodeId;

    /// A node runs low: its background reclaimer should run [`Memory::reclaim_node`](crate::Memory::reclaim_node).
    /// Called once until that has run to its end, so a call that is lost is not made again; from any CPU, with any locks held.
    fn wake_reclaim(&self, node: NodeId);

    /// Whether the bytes of frames change while they are free: filled with zeros or a pattern, or out of reach. Such frames
    /// are never let go of while CPUs may read them.
    fn alters_free_frames(&self) -> bool {
        false
    }

    /// Lets `body` have the [shadow record](crate::shadow), alone, if the machine keeps one: for debug builds. It is called
    /// with any locks held and with interrupts on or off, so a kernel guards it with a spin lock of its own, held with
    /// interrupts off. `body` calls nothing of the machine's but [`Platform::now`], and may allocate.
    ///
    /// Without it nothing is recorded, and nothing is left of it in the program.
    fn shadow(&self, body: impl FnOnce(&mut Shadow)) {
        let _ = body;
    }

    /// The shadow saw a flush missing. From any context, with any locks held.
    ///
    /// # Panics
    /// Unless the machine says otherwise: whatever happens next is wrong.
    fn misused(&self, misuse: Misuse) {
        panic!("{misuse}");
    }

    /// A place where a long operation lets others run, if the machine can. It is a sign of life too.
    ///
    /// The task may sleep here. Of [`locks`](crate::locks) it holds at most those that sleep: one space's, and of the mappers
    /// those of one file and of one anonymous memory. None spins, nothing is pinned, and interrupts are on. It may still owe
    /// the flush of an operation that goes on.
    ///
    /// A kernel whose callers hold locks of their own asks [`HeldLocks::may_sleep`] here, in
    /// [`Machine::read_in`] and in [`Machine::write_out`]: if it says no, the task must not leave its CPU.
    fn reschedule(&self) {}

    /// `count` pieces of work are done now; a simulator charges their time.
    fn work(&self, work: Work, count: u32) {
        let _ = (work, count);
    }

    /// Something happened that a checker may want to know.
    fn observe(&self, event: Event<'_>) {
        let _ = event;
    }
}
