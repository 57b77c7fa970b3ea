//! The request that a platform receives when it may flush for other CPUs.

use crate::flush::Extent;
use crate::space::SpaceId;

/// A flush that CPUs must do, for [`Platform::flush_for`](crate::Platform::flush_for).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The space whose entries are flushed. [`SpaceId::NONE`] stands for the space that each CPU has loaded.
    pub space: SpaceId,
    /// The addresses that are flushed.
    pub extent: Extent,
    /// Whether intermediate entries that walkers cached for these pages go too, because page-table pages are freed.
    pub tables: bool,
}
