//! Address spaces: areas, page tables, and the engine's part.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use ceasefire::{AddressSpace, Root};

use crate::address::{FrameNumber, PAGE_BYTES, PAGE_SHIFT, USER_END};
use crate::frames::allocate::OutOfMemory;
use crate::locks::RwLock;
use crate::machine::{Machine, Work};
use crate::objects::object::{Mapper, ObjectId, TooManyObjects};
use crate::spaces::area::{Area, Areas, MapError, Protection, Source};
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

    /// Maps `pages` pages of fresh memory that reads as zeros; where.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_anonymous(&self, space: &SpaceHandle<P>, pages: u64) -> Result<u64, MapError> {
        self.map(space, pages, 0, Protection::ReadWrite, |own| Ok(Source::Anonymous(own()?)))
    }

    /// Maps `pages` pages of `file` from page `first` on, as everyone sees it; where. What lies beyond the end of the
    /// file may be mapped, but not used.
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
        let limit = if writable { Protection::ReadWrite } else { Protection::Read };
        self.map(space, pages, first, limit, |_| Ok(Source::Shared(file)))
    }

    /// Maps `pages` pages of `file` from page `first` on, keeping stores to itself; where: at the lowest multiple
    /// of 2 MiB, but 0, that has room for it.
    ///
    /// To have it at a given address, as a program's image has to be, move it: [`Memory::remap`] with
    /// [`Placement::At`](crate::Placement::At), unless it is there already. The two places must not overlap.
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
        self.map(space, pages, first, Protection::ReadWrite, |own| {
            Ok(Source::Private { file, copies: own()? })
        })
    }

    fn map(
        &self,
        space: &SpaceHandle<P>,
        pages: u64,
        first: u32,
        limit: Protection,
        source: impl FnOnce(&dyn Fn() -> Result<ObjectId, TooManyObjects>) -> Result<Source, TooManyObjects>,
    ) -> Result<u64, MapError> {
        if pages == 0 || pages > USER_END / PAGE_BYTES || u64::from(first) + pages > u64::from(u32::MAX) {
            return Err(MapError::Length(pages));
        }
        let platform = self.platform();
        platform.work(Work::AreaChange, 1);
        let source = source(&|| self.objects.create_anonymous(platform))?;
        let mut areas = space.areas.write(platform);
        let area = |start: u64| Area {
            start,
            end: start + pages * PAGE_BYTES,
            source,
            first,
            protection: limit,
            limit,
            locked: false,
            huge: false,
        };
        let Some(start) = areas.room(pages * PAGE_BYTES) else {
            if let Some(own) = area(0).anonymous() {
                self.objects.destroy(platform, own);
            }
            return Err(MapError::NoRoom(pages));
        };
        areas.insert(area(start));
        self.hook_area(space, &area(start));
        Ok(start)
    }

    /// Adds an area to the reverse map.
    pub(crate) fn hook_area(&self, space: &SpaceHandle<P>, area: &Area) {
        for object in area.objects() {
            self.hook(object, area_mapper(space, area));
        }
    }

    /// Takes an area out of the reverse map.
    pub(crate) fn unhook_area(&self, space: &SpaceHandle<P>, area: &Area) {
        for object in area.objects() {
            self.unhook(object, space, area.start, area.end);
        }
    }
}

/// What the reverse map is told of an area.
pub(crate) fn area_mapper<P: Machine>(space: &SpaceHandle<P>, area: &Area) -> Mapper<P> {
    let pages = ((area.end - area.start) / PAGE_BYTES) as u32;
    Mapper { space: space.clone(), start: area.start, pages, first: area.first, locked: area.locked }
}
