//! The TLB-coherence layer of an operating-system kernel.
//!
//! A kernel that clears or narrows a translation leaves a *debt*: CPUs may still hold the old entry in their TLBs. This
//! crate records those debts and pays them. Its types make it impossible to forget one:
//!
//! - Only a [`Gather`] or a [`Batch`] changes translations. A gather flushes before the operation returns; a batch
//!   flushes once for many pages. The kernel exchanges the entry in a closure inside their call, so the debt is
//!   recorded with the change.
//! - A page that a debt endangers goes in by value and comes out only after the flush.
//! - A page may be written out only with a [`WritePermit`], which follows a flush of the writable entries.
//! - An operation that promises something to a program first settles what batches owe in its space
//!   ([`Engine::settle`]). It does so each time it takes a page-table lock; the proof is a [`Settled`].
//! - A page that leaves a batch before its debt is settled is an [`Owed`], which carries a stamp. This happens only
//!   under [`Schedule::Lazy`]. Timer ticks ([`Engine::tick`]) settle the debt within [`Bounds`], mostly at no cost.
//!
//! The kernel implements [`Platform`]. It embeds an [`AddressSpace`] in its own and a [`Cpu`] in its per-CPU data. The
//! crate has no dependency, allocates nothing and takes no lock. A CPU waits for another outside a flush only if it
//! needs a new ASID while another CPU is flushing all of them.
//!
//! Two transports carry a flush to other CPUs:
//!
//! - *Interrupts*, by the protocol that Linux developed for x86: generations, per-CPU ASID slots, lazy CPUs, interrupts
//!   with acknowledgement.
//! - *Broadcasts*, where the processor has them ([`Capabilities::broadcast`]). An ASID means the same on every CPU, the
//!   hardware carries the invalidation, and the sender waits for it. Broadcasts serve every space (Arm), or those that
//!   many CPUs run while the others use interrupts (x86).
//!
//! Both differ from Linux in two ways. Each space remembers its completed flushes, so the check for owed flushes is
//! exact. Pages are removed from caches only after their batch was flushed. Devices that walk a space's tables are told
//! of every flush too ([`AddressSpace::attach_device`]).
#![no_std]
#![warn(unreachable_pub)]

#[cfg(ceasefire_checked)]
#[doc(hidden)]
pub mod cores;
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
#[cfg_attr(not(ceasefire_sabotage), doc(hidden))]
pub mod sabotage;
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
pub use lazy::{Bounds, BoundsError, Condition, Owed, Payment, DEFAULT_AGE, LONGEST_AGE};
pub use limits::{MAX_ASIDS, MAX_CPUS, PLACES};
pub use platform::{
    Broadcast, BroadcastError, Capabilities, FlushEvent, Holders, InterruptsOff, Look, Pinned, Platform,
    Reason, LOOK_EVERY, PATIENCE, WIDE,
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
/// All CPUs share it; every method takes `&self`. It holds the kernel's [`Platform`], the state of the ASIDs that
/// broadcasts use, and the ledger of lazy debts. All other state lives in the [`Cpu`]s and [`AddressSpace`]s that the
/// kernel embeds.
///
/// Its size depends on the limits that the kernel states at build time ([`MAX_CPUS`], [`MAX_ASIDS`]): 50 KiB by default
/// (8192 CPUs, 65536 ASIDs), under 1 KiB for 4 CPUs without broadcasts. `tests/laws/sizes.rs` checks these figures. A
/// kernel keeps the engine in a `static`.
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
    /// Makes an engine on `platform`, with the flush ceiling that Linux uses ([`SINGLE_PAGE_CEILING`]).
    pub const fn new(platform: P) -> Self {
        Self::with_ceiling(platform, SINGLE_PAGE_CEILING)
    }

    /// Makes an engine that invalidates up to `ceiling` pages one by one and a larger range as a whole. With 0 it
    /// always flushes everything.
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

    /// The same engine, in which batches of [`Schedule::Lazy`] may leave debts within `bounds`. Without this call, and
    /// with [`Bounds::STRICT`], such batches pay at their end like those of [`Schedule::Batched`].
    #[must_use]
    pub const fn with_bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// The kernel's side of the interface.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Makes an address space whose page tables start at `root`. Its identity is never used again, so an ASID slot that
    /// outlives the space matches no other.
    ///
    /// Where every space has a global ASID ([`Holders::Every`]), the new space gets one too. The kernel gives it back
    /// with [`Engine::retire`]. This call may have to flush all ASIDs, or wait for another CPU that does. So it must
    /// not be made from an interrupt, and interrupts must be on.
    pub fn new_space(&self, root: Root) -> AddressSpace {
        let id = SpaceId::new(self.next_space.fetch_add(1, Ordering::Relaxed));
        AddressSpace::new(id, root, self.first_asid())
    }

    /// Adds up the counters of all `cpus`. It reads them while they change; the sum is exact once the machine is quiet.
    pub fn counters(&self, cpus: impl IntoIterator<Item = CpuId>) -> Counters {
        let mut sum = Counters::default();
        for cpu in cpus {
            sum.add(&self.platform.cpu(cpu).counters());
        }
        sum
    }
}
