//! Pages that a program gives back with madvise.

use crate::events::PAGE_SHIFT;

/// `MADV_DONTNEED` and `MADV_DONTNEED_LOCKED` of madvise(2).
pub(crate) const DONTNEED: u64 = 4;
const DONTNEED_LOCKED: u64 = 24;

/// Neighbouring pages, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) first: u64,
    /// The page after the last one.
    pub(crate) end: u64,
}

impl Pages {
    /// Whether some pages are in both.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.first < other.end && other.first < self.end
    }
}

/// The pages of so many bytes at an address.
pub(crate) fn pages_of(address: u64, bytes: u64) -> Pages {
    let end = u128::from(address) + u128::from(bytes);
    Pages { first: address >> PAGE_SHIFT, end: end.div_ceil(1 << PAGE_SHIFT) as u64 }
}

/// Pages that a call gives back at once.
///
/// Those of `MADV_FREE` are none: a store takes such a page back without a fault, and so without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purge {
    pub(crate) advice: u64,
    pub(crate) pages: Pages,
}

impl Purge {
    /// The pages that a call of madvise gives back; none if there is no page.
    pub(crate) fn of(advice: u64, address: u64, bytes: u64) -> Option<Self> {
        let gives = bytes > 0 && matches!(advice, DONTNEED | DONTNEED_LOCKED);
        gives.then(|| Self { advice, pages: pages_of(address, bytes) })
    }
}
