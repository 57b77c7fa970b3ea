//! Clearing every translation of a range: the walk that munmap, exit, madvise and truncation share.

use alloc::vec::Vec;

use ceasefire::{Gather, PageSize, Place};

use crate::address::FrameNumber;
use crate::frames::frame::Frame;
use crate::frames::released::Released;
use crate::machine::{Event, Machine, Work};
use crate::sabotage::Guard;
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::leaf::{clear, LeafChanges};
use crate::Memory;

/// A thing that a gather holds until the flush.
pub(crate) enum Held {
    /// The page behind a cleared translation.
    Page(FrameNumber),
    /// The table behind a cleared entry.
    Table(FrameNumber),
}

/// Places in a room that needs no allocation.
const FEW: usize = 64;
/// The most pages and tables that a gather holds before it flushes (Linux: `MAX_GATHER_BATCH_COUNT`, 10 000 pages).
const MOST: u64 = 10_000;

/// Room for the pages and tables that a gather holds. It is allocated before the first translation is cleared, so no
/// flush needs memory.
pub(crate) struct Room {
    few: [Place<Held>; FEW],
    many: Vec<Place<Held>>,
}

impl Room {
    /// Room for a range of `pages` pages and its tables; smaller if there is no memory for that.
    pub(crate) fn for_pages(pages: u64) -> Self {
        let mut many = Vec::new();
        // One table for 512 pages, and the tables above.
        let places = pages.saturating_add(pages / 256 + 4).min(MOST) as usize;
        if places > FEW && many.try_reserve_exact(places).is_ok() {
            many.resize_with(places, Place::default);
        }
        Self { few: [const { Place::EMPTY }; FEW], many }
    }

    pub(crate) fn places(&mut self) -> &mut [Place<Held>] {
        if self.many.is_empty() {
            &mut self.few
        } else {
            &mut self.many
        }
    }
}

impl<P: Machine> Released<'_, P> {
    /// Gives up what a gather held, after its flush.
    pub(crate) fn give_up(&mut self, held: Held) {
        match held {
            Held::Page(page) => self.put(page),
            Held::Table(table) => {
                self.memory.platform().work(Work::TableChange, 1);
                self.memory.platform().observe(Event::TableFreed(table));
                self.memory.free(Frame::owned(table));
            }
        }
    }
}

impl<P: Machine> Memory<P> {
    /// Clears every entry in a range.
    pub(crate) fn zap<R: FnMut(Held)>(
        &self,
        space: &SpaceHandle<P>,
        gather: &mut Gather<'_, P, Held, R>,
        range: (u64, u64),
    ) {
        self.for_each_leaf(space, range, |leaf, part| self.zap_leaf(&mut gather.under(leaf), part));
    }

    /// Clears every entry of one table in a part of its range.
    pub(crate) fn zap_leaf<R: FnMut(Held)>(
        &self,
        changes: &mut LeafChanges<'_, '_, '_, P, Held, R>,
        (start, end): (u64, u64),
    ) {
        let huge = changes.size() == PageSize::MIB_2;
        if huge && !changes.keeps() && end - start < PageSize::MIB_2.bytes() {
            // The ends of the range were split before the walk began, so this huge page is newer and may stay.
            return;
        }
        let mut dirty = false;
        for address in changes.addresses((start, end)) {
            dirty |= self.zap_entry(changes, address);
        }
        if huge && !changes.keeps() {
            // R7: no mark is left in its place.
            changes.flush();
        }
        if dirty && self.guarded(Guard::DirtyTable) {
            // R5: a thread that writes out a page of a file looks for such entries. It must not find them gone while CPUs
            // can still store through them (Linux commit 1cf35d47712d).
            changes.flush();
        }
    }

    /// Clears one entry of any kind; returns whether a page of a file was stored to through it.
    pub(crate) fn zap_entry<R: FnMut(Held)>(
        &self,
        changes: &mut LeafChanges<'_, '_, '_, P, Held, R>,
        address: u64,
    ) -> bool {
        let entry = changes.get(address);
        if entry.maps() {
            let mut page = None;
            let old = clear(changes, address, |old| {
                page = self.unmapped_frame(old);
                page.map(Held::Page)
            });
            let of_file =
                |frame| self.frames.get(frame).place().is_some_and(|(object, _)| !object.is_anonymous());
            return old.dirty() && page.is_some_and(of_file);
        }
        if entry.mark().is_some() && !changes.keeps() {
            // Another operation gives the page back, and this one flushes for both (R3).
            return false;
        }
        if !entry.is_none() {
            // A moving page has already given up its claim here. No entry will lead to it when it arrives.
            changes.note(address, Entry::NONE);
            if let Some(slot) = entry.slot() {
                self.unname_slot(slot);
            }
        }
        false
    }
}
