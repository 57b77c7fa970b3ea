//! Clearing every translation of a range: the walk that munmap, exit, madvise and truncation share.

use ceasefire::{Gather, PageSize};

use crate::address::FrameNumber;
use crate::frames::frame::Frame;
use crate::machine::{Event, Machine, Work};
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::leaf::SettledLeaf;
use crate::Memory;

/// What a cleared translation or table leaves behind, until it was flushed.
pub(crate) enum Held {
    Page(FrameNumber),
    Table(FrameNumber),
}

/// When a walk that clears translations flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushAt {
    /// Before each table is unlocked: others may fault.
    EachTable,
    /// At the end: the space's lock keeps others out.
    End,
}

impl<P: Machine> Memory<P> {
    /// Clears every entry in a range.
    pub(crate) fn zap<R: FnMut(Held)>(
        &self,
        space: &SpaceHandle<P>,
        gather: &mut Gather<'_, P, Held, R>,
        range: (u64, u64),
        flush: FlushAt,
    ) {
        self.for_each_leaf(space, range, |leaf, (start, end)| {
            let huge = leaf.size() == PageSize::Huge;
            if huge && flush == FlushAt::EachTable && end - start < PageSize::Huge.bytes() {
                // Its ends were split when this began, so it came later: it may stay.
                return;
            }
            let mut dirty = false;
            for address in leaf.addresses((start, end)) {
                dirty |= self.zap_entry(gather, leaf, address);
            }
            // Whoever writes a page of a file out looks for entries like these, and must not find them gone while CPUs
            // can still store through them (Linux commit 1cf35d47712d).
            if dirty || flush == FlushAt::EachTable {
                gather.flush();
            }
        });
    }

    /// Clears one entry, whatever it stands for; whether a page of a file was stored to through it.
    pub(crate) fn zap_entry<R: FnMut(Held)>(
        &self,
        gather: &mut Gather<'_, P, Held, R>,
        leaf: &SettledLeaf<'_, P>,
        address: u64,
    ) -> bool {
        let entry = leaf.get(address);
        if entry.maps() {
            let (old, cleared) = leaf.clear(address);
            let page = self.unmapped_frame(old);
            gather.unmap(leaf, cleared, page.map(Held::Page));
            let of_file =
                |frame| self.frames.get(frame).place().is_some_and(|(object, _)| !object.is_anonymous());
            return old.dirty() && page.is_some_and(of_file);
        }
        if !entry.is_none() {
            // A moving page has given up its claim here already; nothing will lead to it when it arrives.
            leaf.note(address, Entry::NONE);
            if let Some(slot) = entry.slot() {
                self.unname_slot(slot);
            }
        }
        false
    }

    pub(crate) fn release(&self, held: Held) {
        match held {
            Held::Page(page) => self.put(page),
            Held::Table(table) => {
                self.platform().work(Work::TableChange, 1);
                self.platform().observe(Event::TableFreed(table));
                self.free(Frame::owned(table));
            }
        }
    }
}
