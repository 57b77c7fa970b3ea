//! The TLB-coherence layer of an operating-system kernel.
//!
//! One CPU unmaps a page and frees its frame. Another CPU still has the translation in its TLB. It goes on to load from the
//! frame and to store into it, although the frame may belong to another program by now. So the kernel must make the other
//! CPU forget the translation before it frees the frame. That takes an interrupt and a wait, a *TLB shootdown*. A
//! shootdown that is forgotten, or comes too late, corrupts memory; shootdowns for every page took 5 to 75%
//! of the time in published workloads.
//!
//! This crate decides when which CPU is flushed. Its types exclude the forgotten flush, and it sends as few interrupts as
//! the kernel's promises to its programs allow:
//!
//! ```
//! use ceasefire::{Engine, Entry, Gather, PageSize, Place, Platform, TableGuard};
//!
//! /// Unmaps a page. `take_entry` exchanges the page's entry in the table for an empty one.
//! fn unmap<P: Platform, G: TableGuard<P>, Frame>(
//!     engine: &Engine<P>,
//!     space: &P::Space,
//!     table_lock: G,
//!     (address, frame): (u64, Frame),
//!     take_entry: impl FnOnce(&G) -> Entry,
//!     free: impl FnMut(Frame),
//! ) {
//!     let mut room = [Place::EMPTY];
//!     let mut gather = Gather::new(engine, space.as_ref(), &mut room, free);
//!     let mut changes = gather.under(engine.settle(table_lock));
//!     changes.clear(address, PageSize::KIB_4, take_entry, |_| Some(frame));
//!     drop(changes); // flushes the CPUs that may hold the translation, then releases the lock
//!     gather.finish(); // `free` has got the frame, which no CPU can reach
//! }
//! ```
//!
//! The frame goes in by value and comes out after the flush. The lock cannot be released between the change and the
//! flush. Code that changes an entry in `clear` without the lock, or without settling the space, does not compile. Two
//! things remain with the kernel: it changes entries in calls of the engine alone, and gives each frame a name without
//! copies. *Obligations* in the book lists what types cannot see.
//!
//! # Strict unmapping: five names
//!
//! - [`Platform`] is the machine. The kernel implements it: which CPU runs this code, how a CPU invalidates its own
//!   entries, how it interrupts others and waits.
//! - [`Engine`] is the coherence layer of the machine. A kernel has one, in a `static`.
//! - [`Cpu`] is the engine's state of one CPU. The kernel keeps it in its per-CPU data. The CPU calls
//!   [`Engine::online`] before it runs programs, [`Engine::switch_to`] when it switches to a program's space, and
//!   [`Engine::handle_interrupt`] in the handler of the interrupt that the platform sends.
//! - [`AddressSpace`] is the engine's state of one address space. The kernel embeds it in its own
//!   ([`Engine::new_space`]).
//! - [`Gather`] unmaps, protects and moves pages on a program's behalf. Other CPUs are flushed before the operation
//!   returns. It changes entries only under a page-table lock ([`TableGuard`]) under which the space was settled
//!   ([`Engine::settle`]).
//!
//! The examples `strict.rs` and `port.rs` are whole kernels on two threads of the host.
//!
//! # Layers above it
//!
//! A translation that was cleared or narrowed and not flushed is a *debt*. The next layers pay it later or more cheaply;
//! each can be adopted by itself:
//!
//! - **Batches.** A [`Batch`] takes pages that the kernel unmaps on its own account, in reclaim and in migration. One flush
//!   covers up to [`BATCH`] of them. A page may be written out only with a [`WritePermit`], which follows a flush of the
//!   writable entries.
//! - **Lazy debts.** Under [`Schedule::Lazy`] a page that no CPU could store to leaves its batch before the flush, as an
//!   [`Owed`] with a stamp. Timer ticks ([`Engine::tick`]) settle the debt within [`Bounds`], mostly at no cost.
//! - **Kernel ranges.** A [`KernelGather`] flushes translations that all spaces share.
//! - **Broadcasts.** Where the processor carries invalidations to other CPUs ([`Capabilities::broadcast`]), an ASID means
//!   the same on every CPU, and the sender waits for the hardware in place of interrupts. Broadcasts serve every space
//!   (Arm), or those that many CPUs run while the others use interrupts (x86).
//! - **Devices** that walk a space's tables are told of every flush ([`AddressSpace::attach_device`]).
//!
//! The crate has no dependency, allocates nothing and takes no lock. A CPU waits for another outside a flush only if it
//! needs a new ASID while another CPU is flushing all of them.
//!
//! Interrupts follow the protocol that Linux developed for x86: generations, per-CPU ASID slots, lazy CPUs, interrupts with
//! acknowledgement. It differs from Linux in two ways. Each space remembers its completed flushes, so the check for owed
//! flushes is exact. A page that is held leaves its cache only after its batch was flushed.
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
    Batch, Changes, Gather, Mark, Place, RangeGuard, Schedule, Settled, TableGuard, Unmapping, WritePermit,
    BATCH,
};
pub use entry::{Access, Entry, Translation};
pub use flush::{Extent, Flush, PageSize, SINGLE_PAGE_CEILING};
pub use kernel_ranges::KernelGather;
pub use lazy::{Bounds, BoundsError, Condition, Owed, Payment, DEFAULT_AGE, LONGEST_AGE};
pub use limits::{MAX_ASIDS, MAX_CPUS, PLACES};
pub use platform::{
    Broadcast, BroadcastError, Capabilities, Errata, FlushEvent, Holders, InterruptsOff, Look, Pinned,
    Platform, Reason, Walkers, LOOK_EVERY, PATIENCE, WIDE,
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
/// Its size depends on the limits that the kernel states at build time ([`MAX_CPUS`], [`MAX_ASIDS`]): 17 KiB by default
/// (64 CPUs, 65536 ASIDs), 50 KiB for 8192 CPUs, under 1 KiB for 4 CPUs without broadcasts. `tests/laws/sizes.rs`
/// checks these figures. A kernel keeps the engine in a `static`.
///
/// A machine has one engine. Two engines over the same [`Cpu`]s would give two spaces one name; debug builds notice when
/// a CPU comes online.
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

    /// Checks in debug builds that this engine made `space`, as far as the space's number tells.
    pub(crate) fn assert_own(&self, space: &AddressSpace) {
        // A checker would take the look for an access of the protocol.
        #[cfg(not(ceasefire_checked))]
        debug_assert!(
            space.id().get() < self.next_space.load(Ordering::Relaxed),
            "{:?} was made by another engine",
            space.id()
        );
        #[cfg(ceasefire_checked)]
        let _ = (self, space);
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
