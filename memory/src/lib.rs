//! A small but whole memory manager, written on the engine the way a kernel would.
//!
//! Frames come from a buddy allocator per node through per-CPU lists; address spaces map anonymous memory, in small and
//! huge pages, and files over a page cache; faults fill in translations, with fault-around; a reverse map finds every
//! translation of a page; per-node lists of active and inactive pages, fed through per-CPU batches, say what to reclaim,
//! and reclaim runs in the background or in whoever runs out: to slower memory, to files, to a swap device. Pages migrate
//! between nodes in batches. Programs unmap, protect, move, fork, lock and advise. All of it is for many CPUs at once:
//! `&self`, state behind the locks of [`locks`], no global lock.
//!
//! What a machine must provide beyond the engine's [`Platform`](ceasefire::Platform) is [`Machine`]. The same code
//! runs on the simulator, in a kernel, and on plain threads in the tests.
#![no_std]
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

extern crate alloc;

mod address;
mod cache;
mod calls;
mod faults;
mod frames;
pub mod locks;
mod machine;
mod objects;
pub mod shadow;
mod spaces;
mod statistics;
mod tables;
mod upkeep;

pub use address::{Block, FrameNumber, Store, PAGE_BYTES, PAGE_SHIFT, USER_END};
pub use calls::advise::AdviseError;
pub use calls::file::{Busy, TruncateError, WriteError};
pub use calls::fork::ForkError;
pub use calls::lock_pages::LockError;
pub use calls::protect::ProtectError;
pub use calls::remap::{Placement, RemapError};
pub use calls::unmap::UnmapError;
pub use faults::fault::{Access, FaultError};
pub use frames::allocate::OutOfMemory;
pub use frames::frame::Frame;
pub use frames::isolate::{FreeBlock, OfflineError};
pub use frames::lazy::Lazy;
pub use frames::lru::LruDrain;
pub use frames::node::{NodeId, NodeLayout, Watermarks};
pub use locks::{HeldLocks, Lock, LockClass, RwLock};
pub use machine::{Event, Machine, Work};
pub use objects::object::{ObjectId, TooManyObjects};
pub use spaces::area::{Area, MapError, Protection, RangeError, Source};
pub use spaces::space::{Space, SpaceHandle};
pub use statistics::Statistics;
pub use tables::entry::{Aarch64, EntryOf, Format, X86_64};
pub use tables::huge::{CollapseError, HUGE_BYTES};
pub use tables::table::{Entry, Table, ENTRIES, KERNEL_ENTRIES};
pub use upkeep::migrate::{MigrateError, Migrated, Moved, MIGRATE_BATCH};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicBool;

use ceasefire::{BoundsError, Counters, CpuId, Engine, Schedule};

use crate::cache::swap::Swap;
use crate::frames::allocate::PerCpuFrames;
use crate::frames::frame::FrameTable;
use crate::frames::lru::LruBatch;
use crate::frames::node::Node;
use crate::objects::object::Objects;
use crate::statistics::{Count, Share};
use crate::tables::table::TableLocks;

/// How a memory manager is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// The nodes, in order; their frames are numbered through, from [`Config::first_frame`] on.
    pub nodes: Vec<NodeLayout>,
    /// The first frame of the first node. All before it is not the memory manager's: the kernel's own image, for one.
    ///
    /// The largest free blocks are 1024 frames and aligned to their size, so a node that begins at a multiple of 1024 has
    /// the most of them.
    pub first_frame: FrameNumber,
    /// How many CPUs there are, each on the node that [`Machine::node_of`] names.
    pub cpus: usize,
    /// When the kernel's own unmaps are flushed.
    pub schedule: Schedule,
    /// How long they may wait for that if the schedule is [`Schedule::Lazy`].
    pub lazy: Lazy,
    /// How many neighbours a fault maps along with the page it is for, a power of two; 1 for none (Linux:
    /// `fault_around_bytes`, 16 pages).
    pub fault_around: u32,
    /// How many new pages a CPU collects before it takes the node's lock to list them, 1 to 31; more counts as 31 (Linux:
    /// the size of a pagevec, 14 in 4.2, 15 later, 31 today).
    pub lru_batch: usize,
    /// Whether an unmap that a program asks for lists them first.
    pub lru_drain: LruDrain,
    /// How many pages of a file a miss brings in (Linux: 128 KiB, 32 pages).
    pub read_ahead: u32,
    /// The most files, and the most areas of private memory, that may exist at once.
    pub objects: usize,
    /// Pages that the swap device holds; 0 if there is none.
    pub swap_pages: u32,
    /// Whether reclaim moves pages to slower memory, where there is any, before it frees them.
    pub demote: bool,
}

impl Config {
    /// Linux's choices for a machine with these nodes and CPUs, whose frames begin at 0.
    pub fn new(nodes: Vec<NodeLayout>, cpus: usize, schedule: Schedule) -> Self {
        Self {
            nodes,
            first_frame: FrameNumber::new(0),
            cpus,
            schedule,
            lazy: Lazy::default(),
            fault_around: 16,
            lru_batch: 15,
            lru_drain: LruDrain::Batched,
            read_ahead: 32,
            objects: 4096.max(cpus * 4),
            swap_pages: 0,
            demote: true,
        }
    }
}

/// Why a machine's memory cannot be managed as its [`Config`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigError {
    /// There are more frames than numbers for them.
    TooManyFrames {
        /// The first.
        first: FrameNumber,
        /// How many.
        frames: u64,
    },
    /// There is not a single frame.
    OutOfMemory,
    /// Debts cannot be kept as young as [`Lazy`] says.
    Bounds(BoundsError),
    /// More frames are to be kept than there are.
    Reserve {
        /// Of this node.
        node: NodeId,
        /// How many are to be kept.
        reserve: u32,
        /// How many there are.
        frames: u32,
    },
    /// More frames may owe than there are, or none (then an age of 0 says so).
    MaxOwed {
        /// Of this node.
        node: NodeId,
        /// How many may owe.
        max_owed: u32,
        /// How many there are.
        frames: u32,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFrames { first, frames } => {
                let most = FrameNumber::new(u32::MAX - 1);
                write!(f, "{frames} frames from {first:?} on: the last can be {most:?}")
            }
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Bounds(error) => error.fmt(f),
            Self::Reserve { node, reserve, frames } => {
                write!(f, "node {} cannot keep a reserve of {reserve} frames: at most its {frames}", node.0)
            }
            Self::MaxOwed { node, max_owed, frames } => {
                write!(f, "{max_owed} frames of node {} cannot owe: at least 1, at most its {frames}", node.0)
            }
        }
    }
}

impl From<OutOfMemory> for ConfigError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The memory of one machine.
#[derive(Debug)]
pub struct Memory<P: Machine> {
    engine: Engine<P>,
    config: Config,
    frames: FrameTable,
    nodes: Box<[Node<P>]>,
    /// For each node all nodes, itself first and then as the distance grows.
    fallback: Box<[Box<[NodeId]>]>,
    /// Free frames in front of each node's buddy allocator: `cpu * nodes + node`.
    per_cpu_frames: Box<[P::Lock<PerCpuFrames>]>,
    /// Some allocation is just paying what free frames owe.
    paying: AtomicBool,
    /// A tick found a debt that is too old.
    overdue: AtomicBool,
    /// Pages on their way to the lists, for each CPU.
    lru_batches: Box<[P::Lock<LruBatch>]>,
    /// For each node the nearest one of the next slower memory.
    slower: Box<[Option<NodeId>]>,
    objects: Objects<P>,
    swap: Swap<P>,
    shares: Box<[Share]>,
    table_locks: TableLocks<P>,
    zero: FrameNumber,
}

impl<P: Machine> Memory<P> {
    /// Takes over the memory of a machine; all frames are free, but one that stays zero.
    ///
    /// # Errors
    /// [`ConfigError`] if there is not a single frame, or more than can be numbered, or if debts cannot be kept within
    /// the bounds asked for.
    pub fn new(platform: P, config: Config) -> Result<Self, ConfigError> {
        let (first, total) =
            (config.first_frame, config.nodes.iter().map(|node| u64::from(node.frames)).sum());
        // The number after the last frame has to be one too; lists end with it.
        if u64::from(first.get()) + total > u64::from(u32::MAX) {
            return Err(ConfigError::TooManyFrames { first, frames: total });
        }
        let bounds = frames::lazy::bounds(&config)?;
        let frames = FrameTable::new(first, &config.nodes);
        let nodes: Box<[Node<P>]> = Node::all(first, &config.nodes, &frames, &config.lazy, bounds);
        let tier = |node: NodeId| config.nodes[node.index()].tier;
        let fallback: Box<[Box<[NodeId]>]> = (0..nodes.len())
            .map(|home| {
                let distance = |node: usize| node.abs_diff(home).min(nodes.len() - node.abs_diff(home));
                let mut order: Vec<NodeId> = (0..nodes.len() as u16).map(NodeId).collect();
                order.sort_by_key(|&node| {
                    let after = (node.index() + nodes.len() - home) % nodes.len();
                    (node.index() != home, tier(node), distance(node.index()), after)
                });
                order.into()
            })
            .collect();
        let slower = fallback
            .iter()
            .map(|order| order.iter().copied().find(|&node| tier(node) > tier(order[0])))
            .collect();
        let memory = Self {
            engine: Engine::new(platform).with_bounds(bounds),
            frames,
            fallback,
            slower,
            swap: Swap::new(config.swap_pages),
            paying: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            per_cpu_frames: (0..config.cpus * nodes.len())
                .map(|_| P::Lock::new(&locks::PER_CPU_FRAMES, PerCpuFrames::default()))
                .collect(),
            lru_batches: (0..config.cpus)
                .map(|_| P::Lock::new(&locks::LRU_BATCH, LruBatch::default()))
                .collect(),
            objects: Objects::new(config.objects),
            shares: (0..config.cpus).map(|_| Share::default()).collect(),
            table_locks: TableLocks::new(config.cpus),
            nodes,
            zero: first,
            config,
        };
        if total == 0 {
            return Err(ConfigError::OutOfMemory);
        }
        let zero = memory.allocate(NodeId(0))?.into_number();
        memory.zero(zero, 1);
        memory.frames.get(zero).adopt_reserved();
        Ok(Self { zero, ..memory })
    }

    /// The coherence layer.
    pub fn engine(&self) -> &Engine<P> {
        &self.engine
    }

    /// The machine.
    pub fn platform(&self) -> &P {
        self.engine.platform()
    }

    /// How it was set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What all CPUs did so far.
    pub fn counters(&self) -> Counters {
        self.engine.counters(CpuId::all(self.config.cpus))
    }

    /// What the memory manager did so far, on all CPUs.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for share in &self.shares {
            share.add_to(&mut sum);
        }
        sum
    }

    /// Frames that are free, those that owe and those in front of the allocators included. Exact once the machine is quiet.
    pub fn free_frames(&self) -> u64 {
        let per_cpu: u64 =
            self.per_cpu_frames.iter().map(|list| list.lock(self.platform()).len() as u64).sum();
        self.nodes.iter().map(|node| u64::from(node.free())).sum::<u64>() + per_cpu
    }

    pub(crate) fn count(&self, which: impl FnOnce(&Share) -> &Count, n: u64) {
        which(&self.shares[self.platform().this_cpu().index()]).add(n);
    }

    /// The node of the CPU that executes this.
    pub(crate) fn home(&self) -> NodeId {
        self.platform().node_of(self.platform().this_cpu())
    }
}
