//! The errors of setting a machine up and of running it.

use std::fmt;
use std::io;

use ceasefire::BroadcastError;
use ceasefire_memory::{ConfigError, OutOfMemory};

use crate::world::timeline::END;

/// The reason for which a machine cannot be set up.
#[derive(Debug)]
pub enum SetupError {
    /// The machine has more memory than frame numbers reach.
    TooLarge {
        /// The number of frames.
        frames: u64,
    },
    /// The host does not provide enough addresses.
    Host(io::Error),
    /// The machine has too few ASIDs for broadcasts.
    Asids(BroadcastError),
    /// The memory manager cannot be set up as requested.
    Config(ConfigError),
    /// The machine has too little memory to start.
    OutOfMemory,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { frames } => {
                write!(f, "{frames} frames of memory: at most {} can be simulated", u32::MAX - 1)
            }
            Self::Host(error) => write!(f, "the host provides no memory for the machine: {error}"),
            // x86 keeps the first ASID of `processor.asid_space` for the kernel, and leaves the last unused.
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

/// The reason for which a run has no outcome.
#[derive(Debug)]
pub enum RunError {
    /// The trace cannot be written.
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
                write!(f, "programs still run after {most} s of simulated time, the limit")
            }
        }
    }
}

impl std::error::Error for RunError {}
