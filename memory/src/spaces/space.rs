//! Address spaces: areas, page tables, and the engine's part.
//!
//! Handles may outlive their space, whose root may belong to another space then. The way to the tables is through the
//! lock of the areas, or of one that is open, or of a mapper, and an ended space has neither of the last two. So the
//! areas are private to this file, and locking those of an ended space is an error.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use ceasefire::{AddressSpace, RangeGuard, Root};

use crate::address::{FrameNumber, PAGE_SHIFT};
use crate::frames::allocate::OutOfMemory;
use crate::locks::RwLock;
use crate::machine::{Machine, Work};
use crate::sabotage::Guard;
use crate::spaces::area::{Area, Areas};
use crate::spaces::open::{AreaLocks, OpenAreas};
use crate::{locks, Memory};

/// The space has ended, and has nothing mapped (Linux: ESRCH).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the space has ended")
    }
}

impl core::error::Error for Ended {}

/// A program's address space.
#[derive(Debug)]
pub struct Space<P: Machine> {
    coherence: AddressSpace,
    root: FrameNumber,
    life: P::RwLock<Life>,
    /// None if every operation locks the space.
    open: Option<OpenAreas<P>>,
}

/// The areas of a space, and whether it has ended.
#[derive(Debug, Default)]
struct Life {
    areas: Areas,
    ended: bool,
}

impl Life {
    fn check(&self) -> Result<(), Ended> {
        if self.ended {
            Err(Ended)
        } else {
            Ok(())
        }
    }
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

/// The areas of a space, locked shared.
pub(crate) struct SharedAreas<'m, P: Machine> {
    space: &'m SpaceHandle<P>,
    life: <P::RwLock<Life> as RwLock<Life, P>>::Read<'m>,
}

impl<P: Machine> SharedAreas<'_, P> {
    pub(crate) fn space(&self) -> &SpaceHandle<P> {
        self.space
    }
}

impl<P: Machine> Deref for SharedAreas<'_, P> {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.life.areas
    }
}

/// The areas of a space, locked exclusively. Those that are open may be used meanwhile, so none of them is changed.
pub(crate) struct ExclusiveAreas<'m, P: Machine> {
    space: &'m SpaceHandle<P>,
    life: <P::RwLock<Life> as RwLock<Life, P>>::Write<'m>,
}

impl<P: Machine> Deref for ExclusiveAreas<'_, P> {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.life.areas
    }
}

/// The areas of a space, locked exclusively, those in some ranges closed. While this lives, no fault and no other call
/// installs a translation in these ranges, and the areas there may be changed. Dropping it opens what is there then.
pub(crate) struct ClosedAreas<'m, P: Machine> {
    platform: &'m P,
    areas: ExclusiveAreas<'m, P>,
    closed: Vec<(u64, u64)>,
}

impl<P: Machine> ClosedAreas<'_, P> {
    /// The space ends: no task locks its areas from now on.
    pub(crate) fn end(&mut self) {
        self.areas.life.ended = true;
    }
}

impl<P: Machine> Drop for ClosedAreas<'_, P> {
    fn drop(&mut self) {
        if let Some(open) = &self.areas.space.open {
            for &range in &self.closed {
                open.open(self.platform, &self.areas, range);
            }
        }
    }
}

// SAFETY: faults and calls that create translations hold the same lock shared, or the lock of an area that was open.
// The areas of the ranges are closed, and nobody holds their locks. It names one space.
#[allow(unsafe_code)]
unsafe impl<P: Machine> RangeGuard<P> for ClosedAreas<'_, P> {
    fn space(&self) -> &SpaceHandle<P> {
        self.areas.space
    }
}

impl<P: Machine> Deref for ClosedAreas<'_, P> {
    type Target = Areas;

    fn deref(&self) -> &Areas {
        &self.areas
    }
}

impl<P: Machine> DerefMut for ClosedAreas<'_, P> {
    fn deref_mut(&mut self) -> &mut Areas {
        &mut self.areas.life.areas
    }
}

impl<P: Machine> SpaceHandle<P> {
    /// Locks the areas shared.
    pub(crate) fn share_areas<'m>(&'m self, platform: &'m P) -> Result<SharedAreas<'m, P>, Ended> {
        let life = self.life.read(platform);
        life.check()?;
        Ok(SharedAreas { space: self, life })
    }

    /// Locks the areas exclusively.
    pub(crate) fn lock_areas<'m>(&'m self, platform: &'m P) -> Result<ExclusiveAreas<'m, P>, Ended> {
        let life = self.life.write(platform);
        life.check()?;
        Ok(ExclusiveAreas { space: self, life })
    }
}

impl<P: Machine> Memory<P> {
    /// Calls `body` with the area at an address under the area's own lock; `None` if operations of this kind lock the
    /// space, or if no area is open there.
    pub(crate) fn with_area<R>(
        &self,
        space: &SpaceHandle<P>,
        kind: AreaLocks,
        address: u64,
        body: impl FnOnce(&Area) -> R,
    ) -> Option<R> {
        let open = space.open.as_ref().filter(|_| self.config.area_locks >= kind)?;
        // R7
        open.with(self.platform(), address, self.guarded(Guard::StillOpen), body)
    }

    /// Locks the areas of a space exclusively, and closes those in the ranges.
    pub(crate) fn close_areas<'m>(
        &'m self,
        space: &'m SpaceHandle<P>,
        ranges: &[(u64, u64)],
    ) -> Result<ClosedAreas<'m, P>, Ended> {
        Ok(self.closed(space.lock_areas(self.platform())?, ranges))
    }

    /// Closes the areas that overlap or touch the ranges, which are going to be changed.
    pub(crate) fn closed<'m>(
        &'m self,
        areas: ExclusiveAreas<'m, P>,
        ranges: &[(u64, u64)],
    ) -> ClosedAreas<'m, P> {
        let platform = self.platform();
        let mut closed = Vec::new();
        if let Some(open) = &areas.space.open {
            closed.extend_from_slice(ranges);
            for &range in ranges {
                // R7
                open.close(platform, range, self.guarded(Guard::Close));
            }
        }
        ClosedAreas { platform, areas, closed }
    }
}

/// A counted reference to a space. A CPU that has the space loaded holds one too. It may outlive the space: then
/// every call with it is refused ([`Ended`]), or does nothing.
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
            life: P::RwLock::new(&locks::SPACE, Life::default()),
            open: (self.config.area_locks > AreaLocks::None).then(OpenAreas::new),
        })))
    }
}
