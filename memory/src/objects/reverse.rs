//! The reverse map: from a page to every translation of it.
//!
//! A frame names its object and its page there. The object's mappers say which spaces map that page, and where. A task
//! holds the mappers exclusively to free a table, to move entries from one place to another, or to copy them for a
//! fork. So while a task holds the mappers shared, the page tables below them stay in place. Only DONTNEED may free
//! one of the lowest level meanwhile, and whoever locks such a table looks whether it did.

use crate::address::{FrameNumber, ObjectId, PAGE_BYTES, PAGE_SHIFT};
use crate::locks::RwLock;
use crate::machine::{Machine, Work};
use crate::objects::mapper::Mapper;
use crate::spaces::area::Area;
use crate::spaces::space::SpaceHandle;
use crate::tables::leaf::Leaf;
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// Adds an area to the reverse map.
    pub(crate) fn hook_area(&self, space: &SpaceHandle<P>, area: &Area) {
        for object in area.objects() {
            self.hook(object, area_mapper(space, area));
        }
    }

    /// Removes an area from the reverse map.
    pub(crate) fn unhook_area(&self, space: &SpaceHandle<P>, area: &Area) {
        for object in area.objects() {
            self.unhook(object, space, area.start, area.end);
        }
    }

    /// Adds `mapper` to the mappers of `object`.
    pub(crate) fn hook(&self, object: ObjectId, mapper: Mapper<P>) {
        self.objects.get(object).mappers.write(self.platform()).add(mapper);
    }

    /// Removes the mapping of `[start, end)` in `space` from the reverse map of `object`. Ends anonymous memory that no
    /// space maps any more. Waits until no task walks the tables below the mappers.
    pub(crate) fn unhook(&self, object: ObjectId, space: &SpaceHandle<P>, start: u64, end: u64) {
        let unused = {
            let mut mappers = self.objects.get(object).mappers.write(self.platform());
            mappers.remove(space, start, end);
            object.is_anonymous() && mappers.is_empty()
        };
        if unused {
            self.objects.destroy(self.platform(), object);
        }
    }

    /// Calls `visit` for each place where page `index` of an object may be mapped, with its table locked.
    pub(crate) fn for_each_place(
        &self,
        (object, index): (ObjectId, u32),
        mut visit: impl FnMut(&Mapper<P>, &Leaf<'_, P>, u64),
    ) {
        let mappers = self.objects.get(object).mappers.read(self.platform());
        for mapper in mappers.iter() {
            let Some(page) = index.checked_sub(mapper.first).filter(|&page| page < mapper.pages) else {
                continue;
            };
            let address = mapper.start + (u64::from(page) << PAGE_SHIFT);
            self.platform().work(Work::ReverseMap, 1);
            if let Some(leaf) = self.lock_leaf(&mapper.space, address) {
                visit(mapper, &leaf, address);
            }
        }
    }

    /// Calls `visit` for each mapping of a page, with its table locked.
    pub(crate) fn for_each_mapping(
        &self,
        frame: FrameNumber,
        mut visit: impl FnMut(&Mapper<P>, &Leaf<'_, P>, u64),
    ) {
        let Some(place) = self.frames.get(frame).place() else { return };
        self.for_each_place(place, |mapper, leaf, address| {
            let entry = leaf.get(address);
            if entry.maps() && entry.frame() == frame {
                visit(mapper, leaf, address);
            }
        });
    }
}

/// The mapper of an area for the reverse map.
pub(crate) fn area_mapper<P: Machine>(space: &SpaceHandle<P>, area: &Area) -> Mapper<P> {
    let pages = ((area.end - area.start) / PAGE_BYTES) as u32;
    Mapper { space: space.clone(), start: area.start, pages, first: area.first, locked: area.locked }
}
