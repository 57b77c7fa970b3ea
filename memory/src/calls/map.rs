//! mmap: anonymous memory and files.

use core::fmt;

use crate::address::{ObjectId, Pages, USER_END};
use crate::machine::{Machine, Work};
use crate::objects::object::TooManyObjects;
use crate::spaces::area::{checked_end, Area, Protection, Source};
use crate::spaces::space::{Ended, SpaceHandle};
use crate::Memory;

/// The reason why a range cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapError {
    /// The length is zero (Linux: EINVAL) or reaches beyond [`USER_END`] (ENOMEM) or the largest object (EOVERFLOW).
    Length(Pages),
    /// No identity is free for another object (ENOMEM).
    Objects(TooManyObjects),
    /// There is no free range of that length (ENOMEM).
    NoRoom(Pages),
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(pages) => {
                write!(f, "{pages} cannot be mapped: between 1 and {} can", u32::MAX)
            }
            Self::Objects(error) => error.fmt(f),
            Self::NoRoom(pages) => write!(f, "no free range of {pages} below {USER_END:#x}"),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for MapError {}

impl From<TooManyObjects> for MapError {
    fn from(error: TooManyObjects) -> Self {
        Self::Objects(error)
    }
}

impl<P: Machine> Memory<P> {
    /// Maps `pages` of fresh memory that reads as zeros; returns the address.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_anonymous(&self, space: &SpaceHandle<P>, pages: Pages) -> Result<u64, MapError> {
        self.map(space, pages, 0, Protection::ReadWrite, |own| Ok(Source::Anonymous(own()?)))
    }

    /// Maps `pages` of `file` from page `first` on, shared with all spaces that map it; returns the address.
    /// Pages beyond the end of the file may be mapped, but not used.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_shared(
        &self,
        space: &SpaceHandle<P>,
        file: ObjectId,
        first: u32,
        pages: Pages,
        writable: bool,
    ) -> Result<u64, MapError> {
        let limit = if writable { Protection::ReadWrite } else { Protection::Read };
        self.map(space, pages, first, limit, |_| Ok(Source::Shared(file)))
    }

    /// Maps `pages` of `file` from page `first` on, and keeps stores in private copies. Returns the address: the
    /// lowest multiple of 2 MiB above 0 that has room.
    ///
    /// A caller that needs a given address, as for a program's image, moves the mapping there with [`Memory::remap`]
    /// and [`Placement::At`](crate::Placement::At), unless it is there already. The two places must not overlap.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_private(
        &self,
        space: &SpaceHandle<P>,
        file: ObjectId,
        first: u32,
        pages: Pages,
    ) -> Result<u64, MapError> {
        self.map(space, pages, first, Protection::ReadWrite, |own| {
            Ok(Source::Private { file, copies: own()? })
        })
    }

    fn map(
        &self,
        space: &SpaceHandle<P>,
        pages: Pages,
        first: u32,
        limit: Protection,
        source: impl FnOnce(&dyn Fn() -> Result<ObjectId, TooManyObjects>) -> Result<Source, TooManyObjects>,
    ) -> Result<u64, MapError> {
        let bytes = checked_end(0, pages).map_err(|_| MapError::Length(pages))?;
        if u64::from(first) + pages.get() > u64::from(u32::MAX) {
            return Err(MapError::Length(pages));
        }
        let platform = self.platform();
        platform.work(Work::AreaChange, 1);
        let source = source(&|| self.objects.create_anonymous(platform))?;
        let area = |start: u64| Area {
            start,
            end: start + bytes,
            source,
            first,
            protection: limit,
            limit,
            locked: false,
            huge: false,
        };
        let placed = space.lock_areas(platform).map_err(MapError::from).and_then(|areas| {
            let start = areas.room(bytes).ok_or(MapError::NoRoom(pages))?;
            Ok((areas, start))
        });
        let (mut areas, start) = placed.inspect_err(|_| {
            if let Some(own) = area(0).anonymous() {
                self.objects.destroy(platform, own);
            }
        })?;
        areas.insert(area(start));
        self.hook_area(space, &area(start));
        Ok(start)
    }
}
