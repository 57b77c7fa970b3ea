//! The reverse map: from a page to every translation of it.
//!
//! A frame names its object and its page there; the object's mappers say which spaces map that page and where. While
//! the mappers are locked, shared, the page tables below them cannot be freed.

use ceasefire::RwLock;

use crate::address::PAGE_SHIFT;
use crate::machine::{Machine, Work};
use crate::space::SpaceHandle;
use crate::table::Leaf;
use crate::{FrameNumber, Memory};

impl<P: Machine> Memory<P> {
    /// Calls `visit` for each translation of a page, with its table locked.
    pub(crate) fn for_each_mapping(
        &self,
        frame: FrameNumber,
        mut visit: impl FnMut(&SpaceHandle<P>, &Leaf<'_, P>, u64),
    ) {
        let Some((object, index)) = self.frames.get(frame).place() else { return };
        let mappers = self.objects.get(object).mappers.read(self.platform());
        for mapper in mappers.iter() {
            let Some(page) = index.checked_sub(mapper.first).filter(|&page| page < mapper.pages) else {
                continue;
            };
            let address = mapper.start + (u64::from(page) << PAGE_SHIFT);
            self.platform().work(Work::ReverseMap, 1);
            let Some(table) = self.find_leaf(&mapper.space, address) else { continue };
            let leaf = self.lock_leaf(&mapper.space, table, address);
            let entry = leaf.get(address);
            if entry.present() && entry.frame() == frame {
                visit(&mapper.space, &leaf, address);
            }
        }
    }
}
