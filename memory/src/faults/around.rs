//! Mapping a page of a file together with its neighbours in memory (fault-around).

use crate::address::{FrameNumber, ObjectId, Store, PAGE_BYTES};
use crate::cache::page_cache::Cached;
use crate::faults::fault::{Access, FaultError, Progress};
use crate::machine::{Machine, Work};
use crate::spaces::area::Area;
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::leaf::Leaf;
use crate::tables::table::LEAF_SHIFT;
use crate::Memory;

/// The most pages that one fault maps.
const MOST_AROUND: usize = 64;

impl<P: Machine> Memory<P> {
    /// Maps the page of `file` at `address`, and its neighbours that are in memory.
    pub(super) fn map_cached(
        &self,
        space: &SpaceHandle<P>,
        table: FrameNumber,
        area: &Area,
        file: ObjectId,
        address: u64,
        access: Access,
    ) -> Result<Progress, FaultError> {
        let wanted = match self.cached_page(file, area.index(address))? {
            None => return Err(FaultError::BeyondEnd(address)),
            Some(Cached::Wait(frame)) => return Ok(Progress::Wait(frame)),
            Some(Cached::Here(page)) => page,
        };
        let around = u64::from(self.config.fault_around).clamp(1, MOST_AROUND as u64) * PAGE_BYTES;
        let block = address & !(around - 1);
        let start = block.max(area.start);
        let end = (block + around).min(area.end);
        let slots = ((end - start) / PAGE_BYTES) as usize;
        let mut found = [None; MOST_AROUND];
        let directory = &self.objects.get(file).pages;
        self.platform().work(Work::CacheFind, 1);
        for (slot, at) in (start..end).step_by(PAGE_BYTES as usize).enumerate() {
            found[slot] = if at == address {
                Some(wanted)
            } else {
                // A neighbour that owes is skipped; the access that needs it settles the debt.
                match self.find_in_place(directory, Store::File(file), area.index(at)) {
                    Some(Cached::Here(page)) => Some(page),
                    _ => None,
                }
            };
        }
        let mut wait = None;
        // Without the table no page is mapped, and the program faults again.
        if let Some(leaf) = self.lock_in_place(space, table, address) {
            self.map_found(&leaf, area, (start, end), (address, access), &mut found, &mut wait);
        }
        for frame in found.into_iter().take(slots).flatten() {
            self.put(frame);
        }
        Ok(wait.map_or(Progress::Done, Progress::Wait))
    }

    /// Maps the pages of `found` that can be mapped, and removes them from `found`.
    fn map_found(
        &self,
        leaf: &Leaf<'_, P>,
        area: &Area,
        (start, end): (u64, u64),
        (address, access): (u64, Access),
        found: &mut [Option<FrameNumber>],
        wait: &mut Option<FrameNumber>,
    ) {
        debug_assert_eq!(start >> LEAF_SHIFT, (end - 1) >> LEAF_SHIFT);
        for (slot, at) in (start..end).step_by(PAGE_BYTES as usize).enumerate() {
            let Some(frame) = found[slot] else { continue };
            let info = self.frames.get(frame);
            let store = at == address && access == Access::Write;
            // Truncation takes a page out of its file before it looks for mappings.
            if !leaf.is_vacant(at) || info.place().map(|(_, index)| index) != Some(area.index(at)) {
                continue;
            }
            if store && self.must_wait(info) {
                *wait = Some(frame);
                continue;
            }
            if store {
                info.set_dirty();
            }
            // All are marked as used, though only one was. Linux does so for file pages on x86, where the hardware
            // would set the bit at the first access anyway.
            leaf.install(at, Entry::page(frame, store).used(store));
            info.mapped();
            found[slot] = None;
        }
    }
}
