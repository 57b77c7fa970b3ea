//! Why a machine cannot be set up, or a run has no outcome.

use std::fmt;
use std::io;

use ceasefire::BroadcastError;
use ceasefire_memory::{ConfigError, OutOfMemory};

use crate::world::timeline::END;

/// Why a machine cannot be set up.
#[derive(Debug)]
pub enum SetupError {
    /// It has more memory than frame numbers reach.
    TooLarge {
        /// How many frames.
        frames: u64,
    },
    /// The host does not give enough addresses.
    Host(io::Error),
    /// It has too few ASIDs to broadcast under.
    Asids(BroadcastError),
    /// The memory manager cannot be set up as it was asked to be.
    Config(ConfigError),
    /// The machine has not enough memory to start at all.
    OutOfMemory,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { frames } => {
                write!(f, "{frames} frames of memory: at most {} can be simulated", u32::MAX - 1)
            }
            Self::Host(error) => write!(f, "the host gives no memory for the machine: {error}"),
            // Of `processor.asid_space` x86 keeps the first for the kernel, and leaves the last unused.
            Self::Asids(error) => {
                write!(f, "processor.asid_space, less the 2 that x86 does not use: {error}")
            }
            Self::Config(error) => error.fmt(f),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl std::error::Error for SetupError {}

impl From<ConfigError> for SetupError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::TooManyFrames { frames, .. } => Self::TooLarge { frames },
            ConfigError::OutOfMemory => Self::OutOfMemory,
            other => Self::Config(other),
        }
    }
}

/// Why there is no outcome of a run.
#[derive(Debug)]
pub enum RunError {
    /// The trace could not be written.
    Trace(io::Error),
    /// Programs still run after five hours of simulated time.
    TooLong,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => write!(f, "the trace cannot be written: {error}"),
            Self::TooLong => {
                let most = END / 1_000_000_000_000;
                write!(f, "programs still run after {most} s of simulated time, the most that there is")
            }
        }
    }
}

impl std::error::Error for RunError {}
