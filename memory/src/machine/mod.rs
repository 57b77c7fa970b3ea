//! What the memory manager asks of a machine beyond the engine's [`Platform`].

use core::fmt::Debug;

use ceasefire::{AddressSpace, CpuId, PageSize, Platform};

use crate::address::{Block, FrameNumber};
use crate::frames::node::NodeId;
use crate::locks::{HeldLocks, Lock, RwLock};
use crate::shadow::{Misuse, Shadow};
use crate::spaces::area::Protection;
use crate::spaces::space::SpaceHandle;
use crate::tables::table::Table;

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

/// Work that takes time, in the units in which a simulator charges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// A fault, from the exception to its return, without what is listed below.
    Fault,
    /// A page looked up in a file.
    CacheFind,
    /// A page put into a file.
    CacheInsert,
    /// A page taken out of a file.
    CacheRemove,
    /// A frame taken from the CPU's own list.
    FrameAllocate,
    /// A frame given back.
    FrameFree,
    /// A frame moved between a CPU's list and the buddy allocator.
    Buddy,
    /// A translation made.
    Map,
    /// A translation cleared.
    Unmap,
    /// A mapping of a page visited through the reverse map.
    ReverseMap,
    /// A page put on a list for the first time.
    LruAdd,
    /// A page that nobody holds taken off a list.
    LruRemove,
    /// A page taken off a list to be looked at.
    LruIsolate,
    /// A page put back.
    LruPutback,
    /// All else that reclaim does for a page that it looks at.
    ReclaimPage,
    /// A page-table page made or freed.
    TableChange,
    /// An address range added, changed or taken away.
    AreaChange,
    /// The rights of a translation changed.
    Protect,
    /// All else that migration does for a page that it moves.
    MigratePage,
}

/// What a checker may want to know.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The frame is free: nobody may reach it through an older translation. One that was [left](Event::Left) while it owed
    /// is freed only now, though it is the allocator's since then; until now its bytes have to stay as they were.
    FrameFreed(FrameNumber),
    /// The frame, freed before, was handed out.
    FrameAllocated(FrameNumber),
    /// The frame went back to the allocator and was a page-table page: no walker may read it any more.
    TableFreed(FrameNumber),
    /// A translation became visible.
    Installed {
        /// Whose.
        space: &'a AddressSpace,
        /// Of which page.
        address: u64,
        /// To which frame; the first of 512 if it is huge.
        frame: FrameNumber,
        /// Of which size.
        size: PageSize,
    },
    /// An operation that took translations or rights away for good is about to return to the program.
    Returned {
        /// In which space.
        space: &'a AddressSpace,
        /// From which address.
        start: u64,
        /// Up to which address, exclusive.
        end: u64,
        /// What translations from before it may still be used for: nothing, or loads.
        allowed: Protection,
    },
    /// The page was declared clean and its write-out begins: no store may land in it unseen.
    WriteOut(FrameNumber),
    /// The frame goes back to the allocator while CPUs may still read it through translations that allowed nothing else, and
    /// with it the page of that block, if it has one: until it is free ([`Event::FrameFreed`]), until the block's
    /// page is found again ([`Event::Settled`]), or until [`Bounds::max_age`](ceasefire::Bounds::max_age) and a tick have
    /// passed.
    Left {
        /// Which.
        frame: FrameNumber,
        /// Where its page belongs.
        block: Option<Block>,
    },
    /// The block's page is about to be found, brought in or changed: no CPU may read an older copy of it any more.
    Settled(Block),
    /// Another frame may hold the newest version of this frame's page from now on (it is about to be copied elsewhere, or
    /// has left its file or the swap device's cache): no CPU may reach the old one any more.
    Superseded(FrameNumber),
}
