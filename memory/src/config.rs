//! The configuration of a memory manager.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Bounds, BoundsError, Schedule};

use crate::address::FrameNumber;
use crate::frames::allocate::OutOfMemory;
use crate::frames::lazy::Lazy;
use crate::frames::lru::LruDrain;
use crate::frames::node::{NodeId, NodeLayout};
use crate::spaces::open::AreaLocks;

/// The configuration of a memory manager.
#[derive(Debug, Clone)]
pub struct Config {
    /// The nodes, in order. Frames are numbered across them, from [`Config::first_frame`] on.
    pub nodes: Vec<NodeLayout>,
    /// The first frame of the first node. Frames before it do not belong to the memory manager; the kernel's own image
    /// is one use.
    ///
    /// The largest free blocks have 1024 frames and are aligned to their size, so a node that begins at a multiple of
    /// 1024 has the most of them.
    pub first_frame: FrameNumber,
    /// The number of CPUs. [`Machine::node_of`](crate::Machine::node_of) gives the node of each.
    pub cpus: usize,
    /// The schedule of flushes for the kernel's own unmaps.
    pub schedule: Schedule,
    /// The bounds of lazy flushes, if the schedule is [`Schedule::Lazy`].
    pub lazy: Lazy,
    /// The operations that lock one area instead of its space.
    pub area_locks: AreaLocks,
    /// Whether DONTNEED frees the tables that it empties (Linux from 6.14 on: `CONFIG_PT_RECLAIM`). Otherwise they stay
    /// until nothing is mapped there.
    pub frees_tables: bool,
    /// Whether fresh memory lies beside an area that it continues, and becomes a part of it (Linux: VMAs are merged), so
    /// that threads that map and unmap little share an area and its tables. Otherwise each mapping begins at a multiple
    /// of 2 MiB and has an area and tables of its own.
    pub joins_areas: bool,
    /// The number of pages that a fault maps together, a power of two; 1 maps no neighbours (Linux:
    /// `fault_around_bytes`, 16 pages).
    pub fault_around: u32,
    /// The number of new pages that a CPU collects before it takes the node's lock to list them, 1 to 31. A larger
    /// value counts as 31 (Linux: the size of a pagevec, 14 in 4.2, 15 later, 31 today).
    pub lru_batch: usize,
    /// Whether an unmap that a program asks for first lists the collected pages.
    pub lru_drain: LruDrain,
    /// The number of a file's pages that a miss brings in (Linux: 128 KiB, 32 pages).
    pub read_ahead: u32,
    /// The most files that may exist at once, and the most areas of private memory.
    pub objects: usize,
    /// The number of pages that the swap device holds; 0 if there is none.
    pub swap_pages: u32,
    /// Whether reclaim moves pages to slower memory, if there is any, before it frees pages.
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
            area_locks: AreaLocks::default(),
            frees_tables: false,
            joins_areas: false,
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

/// The reason why a machine's memory cannot be managed with its [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigError {
    /// There are more frames than frame numbers.
    TooManyFrames {
        /// The first frame.
        first: FrameNumber,
        /// The number of frames.
        frames: u64,
    },
    /// There is no frame.
    OutOfMemory,
    /// Debts cannot be kept within the age that [`Lazy`] gives.
    Bounds(BoundsError),
    /// The reserve exceeds the number of frames.
    Reserve {
        /// The node.
        node: NodeId,
        /// The reserve.
        reserve: u32,
        /// The number of frames.
        frames: u32,
    },
    /// More frames may owe than there are, or none may. (For no debts, set the age to 0.)
    MaxOwed {
        /// The node.
        node: NodeId,
        /// How many frames may owe.
        max_owed: u32,
        /// The number of frames.
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

impl core::error::Error for ConfigError {}

impl From<OutOfMemory> for ConfigError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl From<BoundsError> for ConfigError {
    fn from(error: BoundsError) -> Self {
        Self::Bounds(error)
    }
}

/// The bounds on the age of debts on a machine of this configuration. The nodes enforce the other bounds.
pub(crate) fn bounds(config: &Config) -> Result<Bounds, ConfigError> {
    let Lazy { max_age, tick, payment, max_owed, reserve } = config.lazy;
    let bounds = Bounds::new(max_age, tick, payment)?;
    // A node without memory has nothing to keep within bounds.
    for (number, layout) in (0..).zip(&config.nodes).filter(|(_, layout)| layout.frames > 0) {
        let (node, frames) = (NodeId(number), layout.frames);
        if let Some(max_owed) = max_owed.filter(|&owed| owed == 0 || owed > frames) {
            return Err(ConfigError::MaxOwed { node, max_owed, frames });
        }
        if let Some(reserve) = reserve.filter(|&reserve| reserve > frames) {
            return Err(ConfigError::Reserve { node, reserve, frames });
        }
    }
    Ok(if config.schedule == Schedule::Lazy { bounds } else { Bounds::STRICT })
}
