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
