//! The TLB-coherence layer of an operating-system kernel.
//!
//! Clearing or tightening a translation leaves a *debt*: CPUs may still hold the old entry. This crate keeps
//! those debts and pays them, and its types make it impossible to forget one:
//!
//! - a cleared translation is a [`Cleared`], one with fewer rights a [`Narrowed`]; only a [`Gather`] (pay before
//!   the call returns) or a [`Batch`] (pay once for many pages) takes them;
//! - what the translation endangers goes in by value and comes out only after the flush;
//! - a permit to write a page out ([`WritePermit`]) comes only from a flush of the writable entries;
//! - an operation that promises something to a program settles what batches owe in its space first, each time that
//!   it takes the page-table lock ([`Settled`]);
//! - what comes out of a batch before its debt is paid is an [`Owed`], under [`Schedule::Lazy`] alone: its stamp goes with
//!   it, and timer ticks ([`Engine::tick`]) settle it within [`Bounds`], mostly for nothing.
//!
//! The kernel implements [`Platform`] and embeds an [`AddressSpace`] in its own and a [`Cpu`] in its per-CPU
//! data. The crate has no dependency, allocates nothing and takes no lock; only who wants an ASID while another CPU
//! flushes all of them waits for it.
//!
//! Two transports carry a flush to other CPUs. Interrupts: the protocol that Linux arrived at for x86 (generations,
//! per-CPU ASID slots, lazy CPUs, interrupts with acknowledgement). Broadcasts, where the processor has them
//! ([`Capabilities::broadcast`]): an ASID that means the same on every CPU, an invalidation that the hardware carries,
//! and a wait; for every space (Arm), or for those that many CPUs run while the others use interrupts (x86). Two things differ from Linux in both: completed flushes are remembered per space, so that the check for
//! owed flushes is exact, and pages are removed from caches only after their batch was flushed. Devices that walk a
//! space's tables hear of every flush too ([`AddressSpace::attach_device`]).
#![no_std]
#![warn(unreachable_pub)]

mod counters;
mod cpu;
mod cpu_set;
mod debt;
mod entry;
mod flush;
mod kernel_ranges;
mod lazy;
mod limits;
mod platform;
mod primitive;
#[cfg(ceasefire_sabotage)]
pub mod sabotage;
#[cfg(not(ceasefire_sabotage))]
mod sabotage;
mod space;
mod this_cpu;
mod transport;

pub use counters::Counters;
pub use cpu::Cpu;
pub use cpu_set::{AtomicCpuSet, CpuId, CpuOutOfRange, CpuSet};
pub use debt::{
    Batch, Changes, Gather, RangeGuard, Schedule, Settled, TableGuard, Unmapping, WritePermit, BATCH,
};
pub use entry::{Access, Entry, Translation};
pub use flush::{Extent, Flush, PageSize, SINGLE_PAGE_CEILING};
pub use kernel_ranges::KernelGather;
pub use lazy::{Bounds, BoundsError, Condition, Owed, Settle, DEFAULT_AGE, LONGEST_AGE};
pub use limits::{MAX_ASIDS, MAX_CPUS};
pub use platform::{
    Broadcast, BroadcastError, Capabilities, FlushEvent, Holders, InterruptsOff, Look, Pinned, Platform,
    Reason, Remote, LOOK_EVERY, PATIENCE, WIDE,
};
pub use space::{AddressSpace, Asid, Generation, Root, SpaceId, Stamp, DYNAMIC_ASIDS};
pub use this_cpu::Previous;
pub use transport::{Pending, StillLoaded};

use kernel_ranges::KernelRanges;
use lazy::Ledger;
use primitive::{AtomicU64, Ordering};
use sabotage::Removed;
use transport::GlobalAsids;

/// The coherence layer of one machine: all flushes and switches go through it.
///
/// Shared by all CPUs; every method takes `&self`. It holds the kernel's [`Platform`] and nothing else that
/// grows: state lives in the [`Cpu`]s and [`AddressSpace`]s that the kernel embeds. It is 50 KiB large unless the kernel
/// states smaller bounds ([`MAX_CPUS`], [`MAX_ASIDS`]), for the ASIDs that broadcasts may use and the debts of lazy
/// unmaps, so a kernel keeps it in a `static`.
#[derive(Debug)]
pub struct Engine<P> {
    platform: P,
    next_space: AtomicU64,
    ceiling: u32,
    bounds: Bounds,
    asids: GlobalAsids,
    ledger: Ledger,
    kernel: KernelRanges,
    removed: Removed,
}

impl<P: Platform> Engine<P> {
    /// An engine on `platform`, with the flush ceiling that Linux uses ([`SINGLE_PAGE_CEILING`]).
    pub const fn new(platform: P) -> Self {
        Self::with_ceiling(platform, SINGLE_PAGE_CEILING)
    }

    /// An engine that invalidates up to `ceiling` pages one by one and a larger range as a whole; 0 always
    /// flushes everything.
    pub const fn with_ceiling(platform: P, ceiling: u32) -> Self {
        Self {
            platform,
            next_space: AtomicU64::new(SpaceId::FIRST),
            ceiling,
            bounds: Bounds::STRICT,
            asids: GlobalAsids::new(),
            ledger: Ledger::new(),
            kernel: KernelRanges::new(),
            removed: Removed::new(),
        }
    }

    /// The same engine, in which batches of [`Schedule::Lazy`] may leave debts within `bounds`. Without this, and with
    /// [`Bounds::STRICT`], they pay at their end, as those of [`Schedule::Batched`].
    #[must_use]
    pub const fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// The kernel's side of the interface.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// A new address space whose page tables start at `root`. Its identity is never used again, so an ASID slot
    /// that outlives it can match no other space.
    ///
    /// Where every space has a global ASID ([`Holders::Every`]) it gets one too, to be given back with [`Engine::retire`].
    /// That may have to flush or to wait for another CPU that does: not from an interrupt, and interrupts must be on.
    pub fn new_space(&self, root: Root) -> AddressSpace {
        let id = SpaceId::new(self.next_space.fetch_add(1, Ordering::Relaxed));
        AddressSpace::new(id, root, self.first_asid())
    }

    /// The counters of all `cpus` added up. Reads them while they move: exact once the machine is quiet.
    pub fn counters(&self, cpus: impl IntoIterator<Item = CpuId>) -> Counters {
        let mut sum = Counters::default();
        for cpu in cpus {
            sum.add(&self.platform.cpu(cpu).counters());
        }
        sum
    }
}
