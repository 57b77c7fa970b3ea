//! How a memory manager is set up.

use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Bounds, BoundsError, Schedule};

use crate::address::FrameNumber;
use crate::frames::allocate::OutOfMemory;
use crate::frames::lazy::Lazy;
use crate::frames::lru::LruDrain;
use crate::frames::node::{NodeId, NodeLayout};

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
    /// How many CPUs there are, each on the node that [`Machine::node_of`](crate::Machine::node_of) names.
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

impl From<BoundsError> for ConfigError {
    fn from(error: BoundsError) -> Self {
        Self::Bounds(error)
    }
}

/// How old debts may become on a machine of this configuration, whose nodes keep the other bounds.
pub(crate) fn bounds(config: &Config) -> Result<Bounds, ConfigError> {
    let Lazy { max_age, tick, settle, max_owed, reserve } = config.lazy;
    let bounds = Bounds::new(max_age, tick, settle)?;
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
