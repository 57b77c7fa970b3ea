//! A frame of memory, and the accesses that land in it.

use super::tlb::Filled;

/// A frame of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    pub(crate) allocated: bool,
    /// How often it was handed out.
    pub(crate) allocation: u32,
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

/// An access, as a store to its thread's location.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) thread: usize,
    pub(super) location: u32,
    pub(super) number: u32,
    pub(super) entry: Filled,
}
