//! Address ranges of a space, and their sources.

use alloc::vec::Vec;
use core::fmt;

use crate::address::{ObjectId, Pages, PAGE_BYTES, PAGE_SHIFT, USER_END};
use crate::tables::huge::HUGE_BYTES;

/// The source of an area's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Private memory. The object names its pages for the reverse map.
    Anonymous(ObjectId),
    /// A file, shared with all spaces that map it.
    Shared(ObjectId),
    /// A file, with stores kept in private copies.
    Private {
        /// The file.
        file: ObjectId,
        /// Names the copies for the reverse map.
        copies: ObjectId,
    },
}

/// The rights of a program in a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// No access.
    None,
    /// Loads.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// A range of addresses with one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// The first address, a multiple of the page size.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// The source of its pages.
    pub source: Source,
    /// The page of the source that `start` maps.
    pub first: u32,
    /// The program's present rights.
    pub protection: Protection,
    /// The most rights that the program may give itself: a file that was not opened for writing cannot be mapped
    /// writable.
    pub limit: Protection,
    /// Its pages stay in memory.
    pub locked: bool,
    /// Pages of 2 MiB may be used for it.
    pub huge: bool,
}

impl Area {
    /// The page of the source that an address maps.
    pub(crate) fn index(&self, address: u64) -> u32 {
        self.first + ((address - self.start) >> PAGE_SHIFT) as u32
    }

    fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, first: self.index(start), ..*self }
    }

    /// The anonymous memory that names its private pages for the reverse map.
    pub(crate) fn anonymous(&self) -> Option<ObjectId> {
        match self.source {
            Source::Anonymous(own) | Source::Private { copies: own, .. } => Some(own),
            Source::Shared(_) => None,
        }
    }

    /// The file that it maps.
    pub(crate) fn file(&self) -> Option<ObjectId> {
        match self.source {
            Source::Anonymous(_) => None,
            Source::Shared(file) | Source::Private { file, .. } => Some(file),
        }
    }

    /// The objects whose pages it may map, the file first.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectId> {
        self.file().into_iter().chain(self.anonymous())
    }
}

/// The areas of one space, in the order of their addresses.
///
/// Every fault looks one up, and few calls change them. So they are in one sorted vector.
#[derive(Debug, Default)]
pub(crate) struct Areas(Vec<Area>);

impl Areas {
    /// The number of areas that end at or before an address.
    fn before(&self, address: u64) -> usize {
        self.0.partition_point(|area| area.end <= address)
    }

    pub(crate) fn find(&self, address: u64) -> Option<&Area> {
        self.0.get(self.before(address)).filter(|area| area.start <= address)
    }

    /// The lowest free range of `bytes` above the first 2 MiB. It starts at a multiple of 2 MiB, so small areas do not
    /// share tables, unless small ones lie side by side.
    pub(crate) fn room(&self, bytes: u64, side_by_side: bool) -> Option<u64> {
        let alignment = if side_by_side && bytes < HUGE_BYTES { PAGE_BYTES } else { HUGE_BYTES };
        let mut start = HUGE_BYTES;
        for area in &self.0 {
            if area.start >= start + bytes {
                break;
            }
            start = area.end.max(start).next_multiple_of(alignment);
        }
        (start + bytes <= USER_END).then_some(start)
    }

    /// The anonymous memory, and its page, with which fresh memory at `[start, end)` continues a neighbour (Linux: VMAs
    /// are merged): threads that map and unmap side by side have one area.
    pub(crate) fn continued(&self, (start, end): (u64, u64)) -> Option<(ObjectId, u32)> {
        let plain = |area: &&Area| {
            (area.protection, area.limit, area.locked, area.huge)
                == (Protection::ReadWrite, Protection::ReadWrite, false, false)
        };
        let own = |area: &Area| match area.source {
            Source::Anonymous(own) => Some(own),
            _ => None,
        };
        let at = self.before(start);
        let before = at.checked_sub(1).map(|before| &self.0[before]).filter(|area| area.end == start);
        let after = self.0.get(at).filter(|area| area.start == end);
        let pages = (end - start) >> PAGE_SHIFT;
        let behind = before.filter(plain).and_then(|area| {
            let first = area.index(start);
            u32::try_from(u64::from(first) + pages).is_ok().then_some((own(area)?, first))
        });
        behind.or_else(|| {
            let area = after.filter(plain)?;
            Some((own(area)?, area.first.checked_sub(pages as u32)?))
        })
    }

    /// Adds an area where nothing is mapped.
    pub(crate) fn insert(&mut self, area: Area) {
        debug_assert!(self.overlapping(area.start, area.end).next().is_none());
        self.0.insert(self.before(area.start), area);
    }

    /// The same, and merges it with neighbours that continue it.
    pub(crate) fn join(&mut self, area: Area) {
        self.insert(area);
        self.merge_at(area.end);
        self.merge_at(area.start);
    }

    /// Removes the areas in `[start, end)`, splitting those that reach beyond it; returns the removed parts.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<Area> {
        let touched = self.before(start)..self.0.partition_point(|area| area.start < end);
        let mut removed = self.0[touched.clone()].to_vec();
        let left = removed.first().filter(|area| area.start < start).map(|area| area.part(area.start, start));
        let right = removed.last().filter(|area| area.end > end).map(|area| area.part(end, area.end));
        self.0.splice(touched, left.into_iter().chain(right));
        for area in &mut removed {
            *area = area.part(area.start.max(start), area.end.min(end));
        }
        removed
    }

    /// The free range around `address`, where nothing is mapped: from the end of the area before it to the start of the
    /// area after it.
    pub(crate) fn around(&self, address: u64) -> (u64, u64) {
        let (before, after) = self.0.split_at(self.before(address));
        (before.last().map_or(0, |area| area.end), after.first().map_or(USER_END, |area| area.start))
    }

    /// Changes each part of an area in `[start, end)`, splitting areas that reach beyond it. Merges neighbours that
    /// have become alike.
    pub(crate) fn change(&mut self, start: u64, end: u64, change: impl Fn(&mut Area)) {
        let mut parts = self.remove(start, end);
        for part in &mut parts {
            change(part);
            self.insert(*part);
        }
        let seams = parts.first().into_iter().map(|part| part.start).chain(parts.iter().map(|part| part.end));
        for seam in seams.collect::<Vec<u64>>() {
            self.merge_at(seam);
        }
    }

    /// Merges two areas that meet at an address and continue each other.
    fn merge_at(&mut self, seam: u64) {
        let at = self.before(seam);
        let Some([before, after]) = at.checked_sub(1).and_then(|before| self.0.get_mut(before..=at)) else {
            return;
        };
        if (Area { start: before.start, first: before.first, ..*after })
            == (Area { end: after.end, ..*before })
            && (before.end, after.start) == (seam, seam)
            && before.index(seam) == after.first
        {
            before.end = after.end;
            self.0.remove(at);
        }
    }

    /// The first unmapped address in `[start, end)`.
    pub(crate) fn hole(&self, start: u64, end: u64) -> Option<u64> {
        hole(&self.0, start, end)
    }

    /// All areas.
    pub(crate) fn all(&self) -> &[Area] {
        &self.0
    }

    /// The areas that overlap `[start, end)`.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Area> + Clone {
        overlapping(&self.0, start, end)
    }
}

/// The areas of a sorted list that overlap `[start, end)`.
pub(crate) fn overlapping(areas: &[Area], start: u64, end: u64) -> impl Iterator<Item = &Area> + Clone {
    let before = areas.partition_point(|area| area.end <= start);
    areas[before..].iter().take_while(move |area| area.start < end)
}

/// The first address in `[start, end)` that no area of a sorted list maps.
pub(crate) fn hole(areas: &[Area], start: u64, end: u64) -> Option<u64> {
    let mut at = start;
    for area in overlapping(areas, start, end) {
        if area.start > at {
            break;
        }
        at = area.end;
    }
    (at < end).then_some(at)
}

/// A range that is not made of pages of a program: it begins within a page, is empty, wraps, or reaches beyond the
/// addresses of a program. Linux: EINVAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeError {
    /// The address it starts at.
    pub start: u64,
    /// The length.
    pub pages: Pages,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} from {:#x} on: must be at least one, from a multiple of {PAGE_BYTES} on, below {USER_END:#x}",
            self.pages, self.start
        )
    }
}

impl core::error::Error for RangeError {}

/// The end of a range of pages of a program.
pub(crate) fn checked_end(start: u64, pages: Pages) -> Result<u64, RangeError> {
    let error = RangeError { start, pages };
    let end = pages.bytes().and_then(|bytes| start.checked_add(bytes)).ok_or(error)?;
    (start.is_multiple_of(PAGE_BYTES) && start < end && end <= USER_END).then_some(end).ok_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64) -> Area {
        let source = Source::Anonymous(ObjectId::new(0));
        let protection = Protection::ReadWrite;
        let (first, limit) = (start as u32, protection);
        Area {
            start: start << 12,
            end: end << 12,
            source,
            first,
            protection,
            limit,
            locked: false,
            huge: false,
        }
    }

    #[test]
    fn removing_the_middle_splits() {
        let mut areas = Areas::default();
        areas.insert(area(10, 20));
        assert_eq!(areas.remove(12 << 12, 15 << 12), [area(12, 15)]);
        assert_eq!(areas.find(11 << 12), Some(&area(10, 12)));
        assert_eq!(areas.find(12 << 12), None);
        assert_eq!(areas.find(15 << 12), Some(&area(15, 20)));
        for free in 12..15 {
            assert_eq!(areas.around(free << 12), (12 << 12, 15 << 12));
        }
        assert_eq!(areas.around(9 << 12), (0, 10 << 12));
        assert_eq!(areas.around(20 << 12), (20 << 12, USER_END));
    }

    #[test]
    fn removing_across_areas_takes_parts_of_each() {
        let mut areas = Areas::default();
        for part in [area(0, 4), area(6, 8), area(8, 12)] {
            areas.insert(part);
        }
        assert_eq!(areas.remove(2 << 12, 10 << 12), [area(2, 4), area(6, 8), area(8, 10)]);
        assert_eq!(areas.overlapping(0, USER_END).copied().collect::<Vec<_>>(), [area(0, 2), area(10, 12)]);
    }

    #[test]
    fn an_area_changed_back_is_whole_again() {
        let mut areas = Areas::default();
        areas.insert(area(10, 20));
        areas.insert(area(20, 25));
        areas.change(12 << 12, 15 << 12, |area| area.locked = true);
        assert_eq!(areas.all().len(), 4);
        areas.change(11 << 12, 22 << 12, |area| area.locked = false);
        assert_eq!(areas.all(), [area(10, 25)]);
        areas.insert(Area { first: 7, ..area(25, 26) });
        areas.change(10 << 12, 26 << 12, |area| area.huge = true);
        assert_eq!(areas.all().len(), 2, "pages of one object, but not its next");
    }

    #[test]
    fn room_lies_between_areas_or_after_them() {
        let mut areas = Areas::default();
        areas.insert(area(512, 513));
        areas.insert(area(2048, 2049));
        let room = |pages: u64, side_by_side| areas.room(pages << 12, side_by_side).map(|start| start >> 12);
        assert_eq!((room(512, false), room(2048, true)), (Some(1024), Some(2560)));
        assert_eq!((room(1, false), room(1, true)), (Some(1024), Some(513)));
        assert_eq!(room(USER_END >> 12, false), None);
    }
}
