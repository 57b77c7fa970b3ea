//! What a platform is told that may flush for other CPUs.

use crate::flush::Extent;
use crate::space::SpaceId;

/// A flush that CPUs have to do, for [`Platform::flush_for`](crate::Platform::flush_for).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Whose entries. [`SpaceId::NONE`]: those of whatever space the CPU has loaded.
    pub space: SpaceId,
    /// Which of them.
    pub extent: Extent,
    /// What walkers cached on the way to the pages goes too: tables are freed.
    pub tables: bool,
}
