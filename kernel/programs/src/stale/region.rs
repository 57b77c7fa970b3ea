//! The region of a scenario: where it lies, and how its readers access it.

use crate::arch;
use crate::call;

/// A kind of region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// Pages of the program.
    Small,
    /// More of them than one page table translates, if there is memory for that.
    Large,
    /// Pages in an area of the kernel, which no other scenario uses. The kernel makes the accesses.
    Kernel(u64),
}

impl Region {
    /// Whether it is [`Region::Large`].
    pub(super) fn is_large(self) -> bool {
        self == Self::Large
    }

    /// Loads the 8 bytes at an address, if that is possible.
    pub(super) fn try_load(self, address: u64) -> Option<u64> {
        match self {
            Self::Small | Self::Large => arch::try_load(address),
            Self::Kernel(_) => call::load_kernel(address),
        }
    }

    /// Stores 8 bytes to an address, if that is possible. Returns whether it was.
    pub(super) fn try_store(self, address: u64, value: u64) -> bool {
        match self {
            Self::Small | Self::Large => arch::try_store(address, value),
            Self::Kernel(_) => call::store_kernel(address, value),
        }
    }
}
