//! The reverse map: from a page to every translation of it.
//!
//! A frame names its object and its page there; the object's mappers say which spaces map that page and where. While
//! the mappers are locked, shared, the page tables below them stay where they are: whoever frees a table, moves entries
//! from one place to another, or copies them for a fork, has the mappers exclusively.

use crate::address::PAGE_SHIFT;
use crate::locks::RwLock;
use crate::machine::{Machine, Work};
use crate::objects::object::{Mapper, ObjectId};
use crate::tables::table::Leaf;
use crate::{FrameNumber, Memory};

impl<P: Machine> Memory<P> {
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
