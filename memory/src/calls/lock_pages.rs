//! mlock: pages that stay in memory.
//!
//! The area records the lock, and so does the reverse map, which reclaim checks before it unmaps a page. Migration may
//! still move the page, because its program does not notice.

use alloc::vec::Vec;
use core::fmt;

use crate::address::{Pages, PAGE_BYTES};
use crate::faults::fault::{Access, FaultError};
use crate::frames::allocate::OutOfMemory;
use crate::locks::RwLock;
use crate::machine::{Machine, Work};
use crate::objects::reverse::area_mapper;
use crate::spaces::area::{checked_end, Area, Areas, Protection, RangeError};
use crate::spaces::space::{Ended, SpaceHandle};
use crate::Memory;

/// The reason why pages cannot be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockError {
    /// The range is not made of pages of a program (Linux: EINVAL).
    Range(RangeError),
    /// Nothing that could be in memory is mapped at this address of the range (ENOMEM).
    NotMapped(u64),
    /// There are not enough frames (EAGAIN).
    OutOfMemory,
    /// The space has ended (ESRCH).
    Ended,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(error) => error.fmt(f),
            Self::NotMapped(address) => write!(f, "nothing that could be locked is mapped at {address:#x}"),
            Self::OutOfMemory => OutOfMemory.fmt(f),
            Self::Ended => Ended.fmt(f),
        }
    }
}

impl core::error::Error for LockError {}

impl<P: Machine> Memory<P> {
    /// Brings the pages of a range into memory and keeps them there (mlock). Anonymous pages that the program may store
    /// to are its own afterwards. A private page of a file is still copied at the first store (Linux copies it here).
    ///
    /// # Errors
    /// [`LockError`]; then the range is locked or unlocked as before.
    pub fn lock(&self, space: &SpaceHandle<P>, start: u64, pages: Pages) -> Result<(), LockError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        let before = self.set_all_locked(space, (start, end), true)?;
        let failed = |error: FaultError| match error {
            FaultError::OutOfMemory => LockError::OutOfMemory,
            FaultError::Ended => LockError::Ended,
            FaultError::NotMapped(address)
            | FaultError::BeyondEnd(address)
            | FaultError::NoAccess(address)
            | FaultError::ReadOnly(address) => LockError::NotMapped(address),
        };
        for area in &before {
            let access = match area.protection {
                // Nothing can be brought in. The range stays locked for the time when it may be used, as in Linux.
                Protection::None => continue,
                Protection::ReadWrite if area.file().is_none() => Access::Write,
                _ => Access::Read,
            };
            let (first, last) = (area.start.max(start), area.end.min(end));
            for address in (first..last).step_by(PAGE_BYTES as usize) {
                if let Err(error) = self.fault(space, address, access) {
                    let mut areas = self.close_areas(space, &[(start, end)])?;
                    for area in &before {
                        let range = (area.start.max(start), area.end.min(end));
                        self.set_locked(space, &mut areas, range, area.locked);
                    }
                    return Err(failed(error));
                }
            }
        }
        Ok(())
    }

    /// Lets the pages of a range be reclaimed again (munlock).
    ///
    /// # Errors
    /// [`LockError`]; nothing has changed then.
    pub fn unlock(&self, space: &SpaceHandle<P>, start: u64, pages: Pages) -> Result<(), LockError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, pages)?;
        self.set_all_locked(space, (start, end), false).map(drop)
    }

    /// Sets whether the pages of a range without holes stay in memory; returns the areas as they were before.
    fn set_all_locked(
        &self,
        space: &SpaceHandle<P>,
        (start, end): (u64, u64),
        locked: bool,
    ) -> Result<Vec<Area>, LockError> {
        let mut areas = self.close_areas(space, &[(start, end)])?;
        if let Some(hole) = areas.hole(start, end) {
            return Err(LockError::NotMapped(hole));
        }
        let before = areas.overlapping(start, end).copied().collect();
        self.set_locked(space, &mut areas, (start, end), locked);
        Ok(before)
    }

    /// Sets whether the pages of the mapped parts of a range stay in memory.
    fn set_locked(&self, space: &SpaceHandle<P>, areas: &mut Areas, (start, end): (u64, u64), locked: bool) {
        areas.change(start, end, |area| area.locked = locked);
        for area in areas.overlapping(start, end) {
            for object in area.objects() {
                let mut mappers = self.objects.get(object).mappers.write(self.platform());
                mappers.remove(space, area.start, area.end);
                mappers.add(area_mapper(space, area));
            }
        }
    }
}
