//! The mechanisms. Their names are the same in code, on the command line and in JSON.

use std::fmt;
use std::str::FromStr;

use ceasefire::Schedule;
use serde::{Serialize, Serializer};

use crate::names::{named, UnknownName};

/// The schedule of flushes for unmaps that the kernel does on its own account, and the transport of all flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// One flush and one round of interrupts for each page: the baseline.
    PerPage,
    /// One flush at the end of each batch of pages.
    Batched,
    /// No flush for pages that no CPU could store to. Their debts wait until they are settled without a flush, or until
    /// one of them could matter.
    Lazy,
    /// Batched, with every flush carried to other CPUs by the hardware instead of interrupts.
    Broadcast,
    /// Lazy, with flushes carried by the hardware as under [`Broadcast`](Self::Broadcast).
    All,
}

impl Mechanism {
    /// All mechanisms, the baseline first.
    pub const ALL: [Self; 5] = [Self::PerPage, Self::Batched, Self::Lazy, Self::Broadcast, Self::All];

    /// The mechanism's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerPage => "per-page",
            Self::Batched => "batched",
            Self::Lazy => "lazy",
            Self::Broadcast => "broadcast",
            Self::All => "all",
        }
    }

    /// A one-line description.
    pub const fn description(self) -> &'static str {
        match self {
            Self::PerPage => "one flush and one round of interrupts for each page (the baseline)",
            Self::Batched => "one flush for each batch of pages, before any of them is freed",
            Self::Lazy => {
                "no flush for pages that no CPU could store to, until a debt could matter (see --set settle)"
            }
            Self::Broadcast => {
                "batched, with flushes carried to other CPUs by the hardware, under global ASIDs"
            }
            Self::All => "lazy, with flushes carried to other CPUs by the hardware, under global ASIDs",
        }
    }

    /// The schedule of flushes for the kernel's own unmaps.
    pub const fn schedule(self) -> Schedule {
        match self {
            Self::PerPage => Schedule::PerPage,
            Self::Batched | Self::Broadcast => Schedule::Batched,
            Self::Lazy | Self::All => Schedule::Lazy,
        }
    }

    /// Whether the hardware carries flushes to other CPUs, even on machines where the kernel could use interrupts.
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

impl FromStr for Mechanism {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named("mechanism", name, &Self::ALL.map(|mechanism| (mechanism.name(), mechanism)))
    }
}
