//! Huge pages for faults in anonymous memory.

use ceasefire::PageSize;

use crate::address::HUGE_FRAMES;
use crate::frames::allocate::Pay;
use crate::frames::frame::LruState;
use crate::machine::Machine;
use crate::spaces::area::{Area, Protection, Source};
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::huge::{base_of, HUGE_BYTES};
use crate::tables::leaf::install_new;
use crate::tables::walk::Found;
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// Resolves a fault in anonymous memory with a huge page, if the area and the node have room for one; returns
    /// whether it did.
    pub(super) fn fault_huge(&self, space: &SpaceHandle<P>, area: &Area, address: u64) -> bool {
        let Source::Anonymous(own) = area.source else { return false };
        let base = base_of(address);
        if base < area.start
            || base + HUGE_BYTES > area.end
            || self.find_table(space, address) != Found::Nothing
        {
            return false;
        }
        let Ok(Found::Leaf(table)) = self.make_table_of(space, base, 1) else { return false };
        let home = self.home();
        let Some(fresh) = self.allocate_huge(home, self.nodes[home.index()].watermarks.high, Pay::IfWorthIt)
        else {
            return false;
        };
        self.zero(fresh.number(), HUGE_FRAMES);
        let leaf = self.engine.settle(self.lock_table(space, table, PageSize::MIB_2));
        if !leaf.is_vacant(base) {
            drop(leaf);
            self.free_huge(fresh);
            return false;
        }
        let number = fresh.into_number();
        let info = self.frames.get(number);
        // One reference is for the translation, one for the way to the lists.
        info.adopt(own, area.index(base), 2, 1, LruState::new(true));
        info.set_huge(true);
        let writable = area.protection == Protection::ReadWrite;
        install_new(&leaf, base, Entry::page(number, writable).used(writable).huge());
        drop(leaf);
        self.list_soon(number);
        true
    }
}
