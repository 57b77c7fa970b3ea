//! NUMA hints: the next access to a page faults, and so tells which CPU uses it.
//!
//! The entries of a range are hidden. The next access to one of the pages faults. The fault reveals the page and, if it
//! is on another node, moves it to the node of the CPU that faulted (Linux: NUMA balancing, and the promotion of pages
//! from slower memory).

use ceasefire::{Batch, PageSize, Schedule};

use crate::address::{Pages, PAGE_BYTES};
use crate::machine::{Machine, Work};
use crate::spaces::area::{checked_end, Protection, RangeError};
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// Hides the mapped pages of a range until their next use. Returns their number; a huge page counts 512. A huge
    /// page that lies only partly in the range is left as it is. In an ended space there is none.
    ///
    /// # Errors
    /// [`RangeError`]; then nothing has changed.
    pub fn hint(&self, space: &SpaceHandle<P>, start: u64, length: Pages) -> Result<u64, RangeError> {
        self.platform().work(Work::AreaChange, 1);
        let end = checked_end(start, length)?;
        let Ok(areas) = space.share_areas(self.platform()) else { return Ok(0) };
        // Nothing is promised to the program, so the space's other debts need not be settled for this.
        let mut batch: Batch<'_, P, (), _, 1> = Batch::new(&self.engine, Schedule::Batched, drop);
        let mut pages = batch.take(());
        let mut hidden = 0;
        for area in areas.overlapping(start, end).filter(|area| area.protection != Protection::None) {
            let range = (start.max(area.start), end.min(area.end));
            self.for_each_owing_leaf(space, range, |leaf, (start, end)| {
                let huge = leaf.size() == PageSize::MIB_2;
                if huge && end - start < PageSize::MIB_2.bytes() {
                    // The use of a part says nothing about the rest.
                    return;
                }
                for address in leaf.addresses((start, end)) {
                    let entry = leaf.get(address);
                    if entry.present() && entry.frame() != self.zero {
                        leaf.narrow_in(&mut pages, address, Entry::hide);
                        hidden += leaf.size().bytes() / PAGE_BYTES;
                    }
                }
            });
        }
        drop(pages);
        batch.flush();
        Ok(hidden)
    }
}
