//! A small, complete memory manager built on the engine, as a kernel would build one.
//!
//! - Frames come from a buddy allocator for each node, through lists for each CPU.
//! - Address spaces map anonymous memory, in small and huge pages, and files over a page cache.
//! - Faults fill in translations, with fault-around. A reverse map finds every translation of a page.
//! - Each node has lists of active and inactive pages, fed through batches for each CPU. They order the pages for
//!   reclaim.
//! - Reclaim runs in the background, or in an allocation that finds no frame. It moves pages to slower memory, to
//!   files, or to a swap device.
//! - Pages migrate between nodes in batches.
//! - Programs unmap, protect, move, fork, lock and advise.
//! - The kernel maps frames at addresses of its own, and unmaps them strictly or lazily.
//!
//! All operations run on many CPUs at once: they take `&self`, and state is behind the locks of [`locks`]. There is no
//! global lock.
//!
//! A machine provides the engine's [`Platform`](ceasefire::Platform) and [`Machine`]. The same code runs on the
//! simulator, in a kernel, and on plain threads in the tests.
#![no_std]
#![deny(unsafe_code)]
#![warn(unreachable_pub)]

extern crate alloc;

mod address;
mod cache;
mod calls;
mod config;
mod faults;
mod frames;
mod kernel_ranges;
pub mod locks;
mod machine;
mod objects;
mod primitive;
#[cfg(ceasefire_sabotage)]
pub mod sabotage;
#[cfg(not(ceasefire_sabotage))]
mod sabotage;
pub mod shadow;
mod spaces;
mod statistics;
mod tables;
mod upkeep;

pub use address::{Block, FrameNumber, ObjectId, Pages, Store, PAGE_BYTES, PAGE_SHIFT, USER_END};
pub use calls::advise::AdviseError;
pub use calls::collapse::CollapseError;
pub use calls::file::{Busy, TruncateError, WriteError};
pub use calls::fork::ForkError;
pub use calls::lock_pages::LockError;
pub use calls::map::MapError;
pub use calls::migrate::{MigrateError, Migrated, Moved};
pub use calls::protect::ProtectError;
pub use calls::remap::{Placement, RemapError};
pub use calls::unmap::UnmapError;
pub use config::{Config, ConfigError};
pub use faults::fault::{Access, FaultError};
pub use frames::allocate::OutOfMemory;
pub use frames::frame::Frame;
pub use frames::isolate::{FreeBlock, OfflineError};
pub use frames::lazy::Lazy;
pub use frames::lru::LruDrain;
pub use frames::node::{NodeId, NodeLayout, Watermarks};
pub use kernel_ranges::area::{KernelArea, KernelMapError};
pub use kernel_ranges::mapping::KernelMapping;
pub use locks::{HeldLocks, Lock, LockClass, Rcu, RwLock, CLASSES};
pub use machine::{Event, Machine, Work};
pub use objects::object::TooManyObjects;
pub use spaces::area::{Area, Protection, RangeError, Source};
pub use spaces::open::AreaLocks;
pub use spaces::space::{Ended, Space, SpaceHandle};
pub use statistics::Statistics;
pub use tables::entry::{Aarch64, Entry, EntryOf, Format, X86_64};
pub use tables::huge::HUGE_BYTES;
pub use tables::table::{Table, ENTRIES, KERNEL_ENTRIES};
pub use upkeep::migrate::MIGRATE_BATCH;

use crate::primitive::AtomicBool;
use alloc::boxed::Box;
use alloc::vec::Vec;

use ceasefire::sabotage::Removed;
use ceasefire::{Counters, CpuId, Engine};

use crate::cache::swap::Swap;
use crate::frames::allocate::PerCpuFrames;
use crate::frames::frame::FrameTable;
use crate::frames::lru::LruBatch;
use crate::frames::node::Node;
use crate::objects::object::Objects;
use crate::statistics::{Count, Share};
use crate::tables::locks::TableLocks;

/// The memory of one machine.
#[derive(Debug)]
pub struct Memory<P: Machine> {
    engine: Engine<P>,
    config: Config,
    frames: FrameTable,
    nodes: Box<[Node<P>]>,
    /// For each node, all nodes: the node itself first, the others by rising distance.
    fallback: Box<[Box<[NodeId]>]>,
    /// Free frames in front of each node's buddy allocator: `cpu * nodes + node`.
    per_cpu_frames: Box<[P::Lock<PerCpuFrames>]>,
    /// An allocation is paying the debts of free frames.
    paying: AtomicBool,
    /// A tick found a debt that is too old.
    overdue: AtomicBool,
    /// For each CPU, the pages on their way to the lists.
    lru_batches: Box<[P::Lock<LruBatch>]>,
    /// For each node, the nearest node of the next slower memory.
    slower: Box<[Option<NodeId>]>,
    objects: Objects<P>,
    swap: Swap<P>,
    shares: Box<[Share]>,
    table_locks: TableLocks<P>,
    zero: FrameNumber,
    removed: Removed,
}

impl<P: Machine> Memory<P> {
    /// Takes over the memory of a machine. All frames are free except one, which always holds zeros.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no frame, if there are more frames than frame numbers, or if debts cannot be kept
    /// within the configured bounds.
    pub fn new(platform: P, config: Config) -> Result<Self, ConfigError> {
        let (first, total) =
            (config.first_frame, config.nodes.iter().map(|node| u64::from(node.frames)).sum());
        // The number after the last frame must be a valid number too, because it ends lists.
        if u64::from(first.get()) + total > u64::from(u32::MAX) {
            return Err(ConfigError::TooManyFrames { first, frames: total });
        }
        let bounds = config::bounds(&config)?;
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
            removed: Removed::new(),
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

    /// The engine.
    pub fn engine(&self) -> &Engine<P> {
        &self.engine
    }

    /// The machine.
    pub fn platform(&self) -> &P {
        self.engine.platform()
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The engine's counters, summed over all CPUs.
    pub fn counters(&self) -> Counters {
        self.engine.counters(CpuId::all(self.config.cpus))
    }

    /// The memory manager's counters, summed over all CPUs.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        for share in &self.shares {
            share.add_to(&mut sum);
        }
        sum
    }

    /// Free frames, including owing ones and those on the CPUs' lists. The number is exact once the machine is quiet.
    pub fn free_frames(&self) -> u64 {
        let per_cpu: u64 =
            self.per_cpu_frames.iter().map(|list| list.lock(self.platform()).len() as u64).sum();
        self.nodes.iter().map(|node| u64::from(node.free())).sum::<u64>() + per_cpu
    }

    pub(crate) fn count(&self, which: impl FnOnce(&Share) -> &Count, n: u64) {
        which(&self.shares[self.platform().this_cpu().index()]).add(n);
    }

    /// The node of the executing CPU.
    pub(crate) fn home(&self) -> NodeId {
        self.platform().node_of(self.platform().this_cpu())
    }
}
