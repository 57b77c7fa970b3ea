//! Address spaces: areas, page tables, and the engine's part.

use alloc::sync::Arc;
use core::fmt;
use core::ops::{Deref, DerefMut};

use ceasefire::{AddressSpace, RangeGuard, Root};

use crate::address::{FrameNumber, PAGE_SHIFT};
use crate::frames::allocate::OutOfMemory;
use crate::locks::RwLock;
use crate::machine::{Machine, Work};
use crate::spaces::area::Areas;
use crate::{locks, Memory};

/// A program's address space.
#[derive(Debug)]
pub struct Space<P: Machine> {
    coherence: AddressSpace,
    root: FrameNumber,
    pub(crate) areas: P::RwLock<Areas>,
}

impl<P: Machine> Space<P> {
    /// The engine's part.
    pub fn coherence(&self) -> &AddressSpace {
        &self.coherence
    }

    /// The frame of its top-level table.
    pub fn root(&self) -> FrameNumber {
        self.root
    }
}

/// The areas of a space, locked exclusively. While this lives, no fault and no other call installs a translation in the
/// space.
pub(crate) struct ExclusiveAreas<'m, P: Machine> {
    space: &'m SpaceHandle<P>,
    areas: <P::RwLock<Areas> as RwLock<Areas, P>>::Write<'m>,
}

// SAFETY: faults and calls that create translations hold the same lock, shared. It names one space.
#[allow(unsafe_code)]
unsafe impl<P: Machine> RangeGuard<P> for ExclusiveAreas<'_, P> {
    fn space(&self) -> &SpaceHandle<P> {
        self.space
    }
}

impl<P: Machine> Deref for ExclusiveAreas<'_, P> {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.areas
    }
}

impl<P: Machine> DerefMut for ExclusiveAreas<'_, P> {
    fn deref_mut(&mut self) -> &mut Areas {
        &mut self.areas
    }
}

impl<P: Machine> SpaceHandle<P> {
    /// Locks the areas exclusively.
    pub(crate) fn lock_areas<'m>(&'m self, platform: &'m P) -> ExclusiveAreas<'m, P> {
        ExclusiveAreas { space: self, areas: self.areas.write(platform) }
    }
}

/// A counted reference to a space. A CPU that has the space loaded holds one too.
pub struct SpaceHandle<P: Machine>(Arc<Space<P>>);

impl<P: Machine> Clone for SpaceHandle<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Machine> Deref for SpaceHandle<P> {
    type Target = Space<P>;

    fn deref(&self) -> &Space<P> {
        &self.0
    }
}

impl<P: Machine> AsRef<AddressSpace> for SpaceHandle<P> {
    fn as_ref(&self) -> &AddressSpace {
        &self.0.coherence
    }
}

impl<P: Machine> fmt::Debug for SpaceHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {}", self.0.coherence.id().get())
    }
}

impl<P: Machine> Memory<P> {
    /// Creates an empty address space.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no frame for its top-level table.
    pub fn new_space(&self) -> Result<SpaceHandle<P>, OutOfMemory> {
        let root = self.allocate(self.home())?;
        self.zero(root.number(), 1);
        self.platform().share_kernel(self.platform().table(root.number()));
        self.platform().work(Work::TableChange, 1);
        let root = root.into_number();
        Ok(SpaceHandle(Arc::new(Space {
            coherence: self.engine.new_space(Root(u64::from(root.get()) << PAGE_SHIFT)),
            root,
            areas: P::RwLock::new(&locks::SPACE, Areas::default()),
        })))
    }
}
