//! The names of a space: its number, and the start of its page tables.

/// The name of an address space. It is never used again after the space is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(u64);

impl SpaceId {
    /// No space: the CPU runs on the kernel's own tables, or a slot is empty.
    pub const NONE: Self = Self(0);
    /// The CPU is between two spaces: every flush must interrupt it.
    pub(crate) const SWITCHING: Self = Self(1);
    /// The kernel's own ranges, in the trace of their flushes. No space has this number.
    pub const KERNEL: Self = Self(u64::MAX);
    /// No space's entries are flushed: the target only takes the interrupt. No space has this number.
    pub(crate) const NO_FLUSH: Self = Self(u64::MAX - 1);
    pub(crate) const FIRST: u64 = 2;

    pub(crate) const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The start of an address space's page tables. The platform knows what the number means (on x86 the address for CR3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Root(pub u64);
