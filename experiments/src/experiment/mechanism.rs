//! The mechanisms by name: the same everywhere, in code, on the command line and in JSON.

use std::fmt;
use std::str::FromStr;

use ceasefire::Schedule;
use serde::{Serialize, Serializer};

/// When unmaps that the kernel does on its own account are paid for, and how all flushes reach other CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// One flush and one round of interrupts for each page: the baseline.
    PerPage,
    /// One flush at the end of each batch of pages.
    Batched,
    /// No flush for pages that nobody could store to: their debts wait until they are settled for nothing, or matter.
    Lazy,
    /// Batched, and the hardware carries every flush to other CPUs, instead of interrupts.
    Broadcast,
    /// Lazy, with the hardware's broadcasts.
    All,
}

impl Mechanism {
    /// All of them, the baseline first.
    pub const ALL: [Self; 5] = [Self::PerPage, Self::Batched, Self::Lazy, Self::Broadcast, Self::All];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerPage => "per-page",
            Self::Batched => "batched",
            Self::Lazy => "lazy",
            Self::Broadcast => "broadcast",
            Self::All => "all",
        }
    }

    /// What it does, in a line.
    pub const fn description(self) -> &'static str {
        match self {
            Self::PerPage => "one flush and one round of interrupts for each page (the baseline)",
            Self::Batched => "one flush for each batch of pages, before any of them is freed",
            Self::Lazy => {
                "no flush for pages that nobody could store to, until one could matter (see --settle)"
            }
            Self::Broadcast => "batched, and the hardware carries flushes to other CPUs, under global ASIDs",
            Self::All => "lazy, and the hardware carries flushes to other CPUs, under global ASIDs",
        }
    }

    /// When the kernel's own unmaps are flushed under it.
    pub const fn schedule(self) -> Schedule {
        match self {
            Self::PerPage => Schedule::PerPage,
            Self::Batched | Self::Broadcast => Schedule::Batched,
            Self::Lazy | Self::All => Schedule::Lazy,
        }
    }

    /// Whether it has the hardware carry flushes to other CPUs where interrupts could.
    pub const fn broadcasts(self) -> bool {
        matches!(self, Self::Broadcast | Self::All)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Mechanism {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// No mechanism has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMechanism(pub String);

impl fmt::Display for UnknownMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no mechanism is called '{}'", self.0)
    }
}

impl std::error::Error for UnknownMechanism {}

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(name: &str) -> Result<Self, UnknownMechanism> {
        Self::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
            .ok_or_else(|| UnknownMechanism(name.into()))
    }
}
