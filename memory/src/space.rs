//! Address spaces: areas, page tables, and the engine's part.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use ceasefire::{AddressSpace, Root, RwLock};

use crate::address::{FrameNumber, PAGE_BYTES, PAGE_SHIFT, USER_END};
use crate::allocate::OutOfMemory;
use crate::area::{Area, Areas, MapError, Source};
use crate::machine::{Machine, Work};
use crate::object::{Mapper, ObjectId};
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

/// A counted reference to a space. CPUs that have it loaded hold one too.
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
    /// A new, empty address space.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no frame for its top-level table.
    pub fn new_space(&self) -> Result<SpaceHandle<P>, OutOfMemory> {
        let root = self.allocate(self.home())?;
        self.platform().zero(root.number(), 1);
        self.platform().work(Work::TableChange, 1);
        let root = root.into_number();
        Ok(SpaceHandle(Arc::new(Space {
            coherence: self.engine.new_space(Root(u64::from(root.get()) << PAGE_SHIFT)),
            root,
            areas: P::RwLock::new(&locks::SPACE, Areas::default()),
        })))
    }

    /// Maps `pages` pages of fresh memory that reads as zeros; where.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_anonymous(&self, space: &SpaceHandle<P>, pages: u64) -> Result<u64, MapError> {
        self.map(space, pages, 0, true, Source::Anonymous, true)
    }

    /// Maps `pages` pages of `file` from page `first` on, as everyone sees it; where.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_shared(
        &self,
        space: &SpaceHandle<P>,
        file: ObjectId,
        first: u32,
        pages: u64,
        writable: bool,
    ) -> Result<u64, MapError> {
        self.map(space, pages, first, writable, |_| Source::Shared(file), false)
    }

    /// Maps `pages` pages of `file` from page `first` on, keeping stores to itself; where.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_private(
        &self,
        space: &SpaceHandle<P>,
        file: ObjectId,
        first: u32,
        pages: u64,
    ) -> Result<u64, MapError> {
        self.map(space, pages, first, true, |copies| Source::Private { file, copies }, true)
    }

    fn map(
        &self,
        space: &SpaceHandle<P>,
        pages: u64,
        first: u32,
        writable: bool,
        source: impl FnOnce(ObjectId) -> Source,
        needs_object: bool,
    ) -> Result<u64, MapError> {
        if pages == 0 || pages > USER_END / PAGE_BYTES || u64::from(first) + pages > u64::from(u32::MAX) {
            return Err(MapError::Length(pages));
        }
        let platform = self.platform();
        platform.work(Work::AreaChange, 1);
        let own = if needs_object { self.objects.create(platform, 0)? } else { ObjectId::new(0) };
        let source = source(own);
        let mut areas = space.areas.write(platform);
        let Some(start) = areas.room(pages * PAGE_BYTES) else {
            if needs_object {
                self.objects.destroy(platform, own);
            }
            return Err(MapError::NoRoom(pages));
        };
        let area = Area { start, end: start + pages * PAGE_BYTES, source, first, writable };
        areas.insert(area);
        for object in objects_of(area.source) {
            let mapper = Mapper { space: space.clone(), start, pages: pages as u32, first };
            self.objects.get(object).mappers.write(platform).push(mapper);
        }
        Ok(start)
    }
}

/// The objects whose pages an area may map.
pub(crate) fn objects_of(source: Source) -> impl Iterator<Item = ObjectId> {
    let (one, other) = match source {
        Source::Anonymous(object) | Source::Shared(object) => (object, None),
        Source::Private { file, copies } => (file, Some(copies)),
    };
    core::iter::once(one).chain(other)
}
