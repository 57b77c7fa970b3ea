//! Pages, frames and objects by number.

use core::fmt;

/// log2 of the page size.
pub const PAGE_SHIFT: u32 = 12;
/// The page size in bytes.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
/// The first address beyond every program: four levels translate 48 bits, and the upper half is the kernel's.
pub const USER_END: u64 = 1 << 47;
/// log2 of the number of frames in a huge page of 2 MiB.
pub(crate) const HUGE_ORDER: u32 = 9;
/// The frames of a huge page.
pub(crate) const HUGE_FRAMES: u32 = 1 << HUGE_ORDER;

/// A length in pages of [`PAGE_BYTES`]. Every call on a range of addresses takes the start as an address and the length
/// as this type, so that the two cannot be confused, nor pages with bytes:
///
/// ```compile_fail,E0308
/// # use ceasefire_memory::{Machine, Memory, SpaceHandle, UnmapError, PAGE_BYTES};
/// fn unmap<P: Machine>(memory: &Memory<P>, space: &SpaceHandle<P>, start: u64) -> Result<(), UnmapError> {
///     memory.unmap(space, start, 3 * PAGE_BYTES)
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use ceasefire_memory::{Machine, Memory, Pages, SpaceHandle, UnmapError};
/// fn unmap<P: Machine>(memory: &Memory<P>, space: &SpaceHandle<P>, start: u64) -> Result<(), UnmapError> {
///     memory.unmap(space, Pages::new(3), start)
/// }
/// ```
///
/// ```
/// # use ceasefire_memory::{Machine, Memory, Pages, SpaceHandle, UnmapError};
/// fn unmap<P: Machine>(memory: &Memory<P>, space: &SpaceHandle<P>, start: u64) -> Result<(), UnmapError> {
///     memory.unmap(space, start, Pages::new(3))
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages(u64);

impl Pages {
    /// The pages of a huge page of 2 MiB.
    pub const HUGE: Self = Self(HUGE_FRAMES as u64);

    /// `count` pages.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The pages that `bytes` bytes are; `None` if the last would not be whole.
    pub const fn of_bytes(bytes: u64) -> Option<Self> {
        if bytes.is_multiple_of(PAGE_BYTES) {
            Some(Self(bytes / PAGE_BYTES))
        } else {
            None
        }
    }

    /// The number of pages.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes; `None` if it has more than 64 bits.
    pub const fn bytes(self) -> Option<u64> {
        self.0.checked_mul(PAGE_BYTES)
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "page" } else { "pages" })
    }
}

/// A frame of physical memory: its address divided by [`PAGE_BYTES`]. 32 bits reach 16 TiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameNumber(u32);

impl FrameNumber {
    /// Frame `number`.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number, as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for FrameNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {:#x}", self.0)
    }
}

/// The name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(u32);

impl ObjectId {
    const ANONYMOUS: u32 = 1 << 30;

    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn anonymous(number: u32) -> Self {
        Self(number | Self::ANONYMOUS)
    }

    /// The number, below the configured number of objects. Files and anonymous memory are numbered separately.
    pub const fn get(self) -> u32 {
        self.0 & !Self::ANONYMOUS
    }

    /// Whether it is a program's anonymous memory. Otherwise it is a file.
    pub const fn is_anonymous(self) -> bool {
        self.0 & Self::ANONYMOUS != 0
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }
}

/// The place where the bytes of a page are kept while no frame holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The device or file.
    pub store: Store,
    /// The page in it.
    pub index: u32,
}

/// A store for the bytes of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Store {
    /// A file.
    File(ObjectId),
    /// The swap device.
    Swap,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn pages_are_whole_and_their_bytes_are_checked() {
        assert_eq!((Pages::of_bytes(3 * PAGE_BYTES), Pages::new(3).get()), (Some(Pages::new(3)), 3));
        assert_eq!([1, PAGE_BYTES - 1, PAGE_BYTES + 1].map(Pages::of_bytes), [None; 3]);
        assert_eq!((Pages::HUGE.bytes(), Pages::of_bytes(0)), (Some(2 << 20), Some(Pages::new(0))));
        let most = u64::MAX >> PAGE_SHIFT;
        assert_eq!([most, most + 1].map(|count| Pages::new(count).bytes()), [Some(most << PAGE_SHIFT), None]);
        assert_eq!([0, 1, 2].map(|count| Pages::new(count).to_string()), ["0 pages", "1 page", "2 pages"]);
    }
}
