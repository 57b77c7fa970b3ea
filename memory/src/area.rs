//! Address ranges of a space and what they map.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use crate::address::{PAGE_BYTES, PAGE_SHIFT, USER_END};
use crate::allocate::OutOfMemory;
use crate::object::{ObjectId, TooManyObjects};

/// What an area maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Memory of its own; the object names its pages for the reverse map.
    Anonymous(ObjectId),
    /// A file, as everyone sees it.
    Shared(ObjectId),
    /// A file, with stores kept in copies of its own.
    Private {
        /// The file.
        file: ObjectId,
        /// Names the copies for the reverse map.
        copies: ObjectId,
    },
}

/// A range of addresses that maps one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// The first address, a multiple of the page size.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// What it maps.
    pub source: Source,
    /// Which page of the source `start` maps.
    pub first: u32,
    /// Whether stores are allowed.
    pub writable: bool,
}

impl Area {
    /// Which page of its source an address of it maps.
    pub(crate) fn index(&self, address: u64) -> u32 {
        self.first + ((address - self.start) >> PAGE_SHIFT) as u32
    }

    fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, first: self.index(start), ..*self }
    }
}

/// Why a range cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapError {
    /// The length is zero or reaches beyond [`USER_END`] or the largest object.
    Length(u64),
    /// The address is not a multiple of the page size, or beyond [`USER_END`].
    Address(u64),
    /// No identity for another object.
    Objects(TooManyObjects),
    /// No free range of that length.
    NoRoom(u64),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(pages) => {
                write!(f, "{pages} pages cannot be mapped: between 1 and {} can", u32::MAX)
            }
            Self::Address(address) => {
                write!(f, "{address:#x} is not a page-aligned address below {USER_END:#x}")
            }
            Self::Objects(error) => error.fmt(f),
            Self::NoRoom(pages) => write!(f, "no free range of {pages} pages below {USER_END:#x}"),
        }
    }
}

impl From<TooManyObjects> for MapError {
    fn from(error: TooManyObjects) -> Self {
        Self::Objects(error)
    }
}

impl From<OutOfMemory> for crate::FaultError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The areas of one space, by where they start.
#[derive(Debug, Default)]
pub(crate) struct Areas(BTreeMap<u64, Area>);

impl Areas {
    pub(crate) fn find(&self, address: u64) -> Option<&Area> {
        let (_, area) = self.0.range(..=address).next_back()?;
        (address < area.end).then_some(area)
    }

    /// The lowest free range of `bytes` above the first 2 MiB, starting at a multiple of 2 MiB, so that small areas
    /// do not share tables.
    pub(crate) fn room(&self, bytes: u64) -> Option<u64> {
        const ALIGNMENT: u64 = 1 << 21;
        let mut start = ALIGNMENT;
        for area in self.0.values() {
            if area.start >= start + bytes {
                break;
            }
            start = area.end.max(start).next_multiple_of(ALIGNMENT);
        }
        (start + bytes <= USER_END).then_some(start)
    }

    /// Adds an area where nothing is mapped.
    pub(crate) fn insert(&mut self, area: Area) {
        debug_assert!(self.find(area.start).is_none() && self.0.range(area.start..area.end).next().is_none());
        self.0.insert(area.start, area);
    }

    /// Takes out what lies in `[start, end)`, splitting areas that reach beyond it; the parts taken out.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<Area> {
        let first = self.find(start).map_or(start, |area| area.start);
        let touched: Vec<Area> = self.0.range(first..end).map(|(_, area)| *area).collect();
        touched
            .into_iter()
            .map(|area| {
                self.0.remove(&area.start);
                if area.start < start {
                    self.insert(area.part(area.start, start));
                }
                if area.end > end {
                    self.insert(area.part(end, area.end));
                }
                area.part(area.start.max(start), area.end.min(end))
            })
            .collect()
    }

    /// The end of the area before `address` and the start of the one after it: the free range around.
    pub(crate) fn around(&self, address: u64) -> (u64, u64) {
        let floor = self.0.range(..=address).next_back().map_or(0, |(_, area)| area.end);
        let ceiling = self.0.range(address..).next().map_or(USER_END, |(_, area)| area.start);
        (floor, ceiling)
    }

    /// The areas that overlap `[start, end)`.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Area> {
        let first = self.find(start).map_or(start, |area| area.start);
        self.0.range(first..end).map(|(_, area)| area)
    }
}

/// The pages between two addresses, if both are page-aligned and below [`USER_END`] and in order.
pub(crate) fn pages_between(start: u64, end: u64) -> Option<u64> {
    (start.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES) && start < end && end <= USER_END)
        .then(|| (end - start) >> PAGE_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64) -> Area {
        let source = Source::Anonymous(ObjectId::new(0));
        Area { start: start << 12, end: end << 12, source, first: start as u32, writable: true }
    }

    #[test]
    fn removing_the_middle_splits() {
        let mut areas = Areas::default();
        areas.insert(area(10, 20));
        assert_eq!(areas.remove(12 << 12, 15 << 12), [area(12, 15)]);
        assert_eq!(areas.find(11 << 12), Some(&area(10, 12)));
        assert_eq!(areas.find(12 << 12), None);
        assert_eq!(areas.find(15 << 12), Some(&area(15, 20)));
        assert_eq!(areas.around(13 << 12), (12 << 12, 15 << 12));
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
    fn room_lies_between_areas_or_after_them() {
        let mut areas = Areas::default();
        areas.insert(area(512, 513));
        areas.insert(area(2048, 2049));
        assert_eq!(areas.room(512 << 12), Some(1024 << 12));
        assert_eq!(areas.room(2048 << 12), Some(2560 << 12));
        assert_eq!(areas.room(USER_END), None);
    }
}
