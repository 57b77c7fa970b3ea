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

/// What a new area maps.
enum New {
    Anonymous,
    Shared(ObjectId),
    Private(ObjectId),
}

impl<P: Machine> Memory<P> {
    /// Maps `pages` of fresh memory that reads as zeros; returns the address.
    ///
    /// # Errors
    /// [`MapError`] names the bound.
    pub fn map_anonymous(&self, space: &SpaceHandle<P>, pages: Pages) -> Result<u64, MapError> {
        self.map(space, pages, 0, Protection::ReadWrite, New::Anonymous)
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
        self.map(space, pages, first, limit, New::Shared(file))
    }

    /// Maps `pages` of `file` from page `first` on, and keeps stores in private copies. Returns the address: the
    /// lowest multiple of 2 MiB above 0 that has room, unless [areas are joined](crate::Config::joins_areas).
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
        self.map(space, pages, first, Protection::ReadWrite, New::Private(file))
    }

    fn map(
        &self,
        space: &SpaceHandle<P>,
        pages: Pages,
        first: u32,
        limit: Protection,
        source: New,
    ) -> Result<u64, MapError> {
        let bytes = checked_end(0, pages).map_err(|_| MapError::Length(pages))?;
        if u64::from(first) + pages.get() > u64::from(u32::MAX) {
            return Err(MapError::Length(pages));
        }
        let platform = self.platform();
        platform.work(Work::AreaChange, 1);
        let areas = space.lock_areas(platform)?;
        let start = areas.room(bytes, self.config.joins_areas).ok_or(MapError::NoRoom(pages))?;
        let end = start + bytes;
        let create = || self.objects.create_anonymous(platform);
        let (source, first) = match source {
            New::Anonymous => match areas.continued((start, end)).filter(|_| self.config.joins_areas) {
                Some((own, first)) => (Source::Anonymous(own), first),
                None => (Source::Anonymous(create()?), first),
            },
            New::Shared(file) => (Source::Shared(file), first),
            New::Private(file) => (Source::Private { file, copies: create()? }, first),
        };
        let area = Area { start, end, source, first, protection: limit, limit, locked: false, huge: false };
        self.hook_area(space, &area);
        // A neighbour that becomes longer is closed meanwhile.
        let mut areas = self.closed(areas, &[(start, end)]);
        if self.config.joins_areas {
            areas.join(area);
        } else {
            areas.insert(area);
        }
        Ok(start)
    }
}
