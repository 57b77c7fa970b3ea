//! A frame of memory, and its allocations.

/// One use of a frame, from the moment at which it is handed out until it goes back. The number of the first is 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allocation(pub(crate) u32);

impl Allocation {
    /// The allocation of no frame.
    pub(crate) const NONE: Self = Self(0);
}

/// A frame of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    pub(crate) allocated: bool,
    /// Its present allocation, or its last one.
    pub(crate) allocation: Allocation,
    /// When it was last handed out.
    pub(super) since: u64,
    /// When it was last declared clean.
    pub(crate) clean: u64,
    /// The accesses to it.
    pub(super) content: Accessed,
    /// The stores to it.
    pub(super) stored: Accessed,
}

/// A place whose accesses are counted: the content of a frame, what is stored there, or a mapping. From the first access
/// on each thread has a location there, and each of its accesses is a store to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accessed(pub(super) Option<u32>);
