//! Calls of programs, and faults: when one returns, its promise holds.

use std::ops::Range;

use ceasefire::{Asid, Batch, Changes, Flush, Gather, Owed, PageSize, Place, Schedule};

use super::tables::{HUGE, HUGE_PAGES};
use super::{address, Gone, Kernel, Page, Small, Space, TableLock};
use crate::hardware::platform::Adverse;
use crate::model::rule::Rule;

/// The changes of a gather of the small kernel under one table's lock.
type Under<'a, 'b, R> = Changes<'a, 'b, Adverse<Small>, Page, R, TableLock<'b>>;

impl Kernel {
    /// Clears a page, and keeps its frame until the flush.
    fn clear_page<R: FnMut(Page)>(&self, changes: &mut Under<'_, '_, R>, page: u64, gone: &Gone) {
        let take = |lock: &TableLock<'_>| self.take(lock.space, page, 0, gone);
        changes.clear(address(page), PageSize::KIB_4, take, |old| old.page_behind());
    }

    /// Clears the pages of a lowest-level table, and the table.
    fn clear_with_table<R: FnMut(Page)>(&self, changes: &mut Under<'_, '_, R>, first: u64, gone: &Gone) {
        (first..first + HUGE_PAGES).for_each(|page| self.clear_page(changes, page, gone));
        changes.unlink(address(first), PageSize::KIB_4, |lock| {
            self.take(lock.space, first, 1, gone).page_behind()
        });
    }

    /// Maps a new frame; returns it.
    pub(crate) fn map(&self, space: &Space, page: u64, writable: bool) -> u32 {
        let frame = self.allocate();
        self.map_frame(space, page, frame, writable);
        frame
    }

    /// Maps a frame that others map too.
    pub(crate) fn map_frame(&self, space: &Space, page: u64, frame: u32, writable: bool) {
        let _range = self.lock_range(space);
        let _table = self.settled(space);
        self.install(space, page, 0, frame, writable);
    }

    /// Maps a huge page; its first frame is returned.
    pub(crate) fn map_huge(&self, space: &Space, page: u64, writable: bool) -> u32 {
        let frame = self.allocate();
        let _range = self.lock_range(space);
        let _table = self.settled(space);
        self.install(space, page, 1, frame, writable);
        frame
    }

    /// A frame for new data. Frames in debt are used once their debt is settled.
    pub(crate) fn allocate(&self) -> u32 {
        let waiting = std::mem::take(&mut *self.owing.borrow_mut());
        for owed in waiting {
            match self.engine.redeem(owed) {
                Ok(page) => self.free(page),
                Err(owed) => self.owing.borrow_mut().push(owed),
            }
        }
        self.take_frame()
    }

    /// Unmaps pages and frees their frames, as munmap does.
    pub(crate) fn unmap(&self, space: &Space, pages: Range<u64>) {
        self.unmap_with_room::<4>(space, pages);
    }

    /// The same with room for so many frames: a gather that is full flushes by itself.
    pub(crate) fn unmap_with_room<const ROOM: usize>(&self, space: &Space, pages: Range<u64>) {
        self.doing(
            || format!("munmap pages {pages:?}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; ROOM];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                for page in pages.clone() {
                    let mut changes = gather.under(self.settled(space));
                    self.clear_page(&mut changes, page, &gone);
                }
                gather.finish();
                self.end(&gone, Rule::R3);
            },
        );
    }

    /// Unmaps one page without keeping faults out: the flush comes before the unlock, as madvise does.
    pub(crate) fn discard(&self, space: &Space, page: u64) {
        self.doing(
            || format!("madvise page {page}"),
            || {
                let gone = Gone::default();
                let mut room = [const { Place::EMPTY }; 4];
                let gather = Gather::new(&self.engine, &space.coherence, &mut room, |page| self.free(page));
                gather.finish_under(self.settled(space), |changes| {
                    self.clear_page(changes, page, &gone);
                });
                self.end(&gone, Rule::R3);
            },
        );
    }

    /// Flushes everything, and takes nothing away and no lock.
    pub(crate) fn flush(&self, space: &Space) {
        self.flush_part(space, Flush::ALL);
    }

    /// Flushes a part. It settles nothing, since it changes no entry.
    pub(crate) fn flush_part(&self, space: &Space, flush: Flush) {
        self.doing(
            || "flush".to_owned(),
            || {
                self.engine.flush(&space.coherence, flush);
            },
        );
    }

    /// Takes the right to store away, as mprotect does.
    pub(crate) fn protect(&self, space: &Space, pages: Range<u64>) {
        self.doing(
            || format!("mprotect pages {pages:?}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 1];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                for page in pages.clone() {
                    let mut changes = gather.under(self.settled(space));
                    changes
                        .narrow(address(page), PageSize::KIB_4, |lock| self.narrow(lock.space, page, &gone));
                }
                gather.finish();
                self.promise(&gone, |tables, mapping| {
                    tables.narrow_mapping(mapping, Rule::R3);
                });
            },
        );
    }

    /// Moves a page to another place in the space, as mremap does.
    pub(crate) fn move_page(&self, space: &Space, from: u64, to: u64) {
        self.doing(
            || format!("mremap page {from} to {to}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 1];
                let mut gather =
                    Gather::new(&self.engine, &space.coherence, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let take = |lock: &TableLock<'_>| self.take(lock.space, from, 0, &gone);
                let old = changes.clear(address(from), PageSize::KIB_4, take, |_| None);
                if old.present() {
                    self.install(space, to, 0, old.frame(), old.writable());
                }
                drop(changes);
                gather.finish();
                self.end(&gone, Rule::R3);
                drop(range);
            },
        );
    }

    /// Unmaps the pages of a lowest-level table and frees the table too.
    pub(crate) fn unmap_with_table(&self, space: &Space, first: u64) {
        self.unmap_with_table_in::<8>(space, first);
    }

    /// The same with room for so many things.
    pub(crate) fn unmap_with_table_in<const ROOM: usize>(&self, space: &Space, first: u64) {
        let first = first / HUGE_PAGES * HUGE_PAGES;
        let pages = first..first + HUGE_PAGES;
        self.doing(
            || format!("munmap pages {pages:?} with their table"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; ROOM];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                self.clear_with_table(&mut changes, first, &gone);
                drop(changes);
                gather.finish();
                self.end(&gone, Rule::R3);
            },
        );
    }

    /// Replaces four pages by a huge one: their frames and their table are freed.
    pub(crate) fn collapse(&self, space: &Space, first: u64) {
        let pages = first..first + HUGE_PAGES;
        self.doing(
            || format!("collapse pages {pages:?}"),
            || {
                let gone = Gone::default();
                let new = self.allocate();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 8];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                self.clear_with_table(&mut changes, first, &gone);
                // The old translations are gone everywhere before the new one is visible.
                changes.flush();
                self.end(&gone, Rule::R7);
                self.install(space, first, 1, new, true);
                drop(changes);
                gather.finish();
            },
        );
    }

    /// Unmaps a huge page.
    pub(crate) fn unmap_huge(&self, space: &Space, first: u64) {
        self.doing(
            || format!("munmap huge page {first}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 4];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let take = |lock: &TableLock<'_>| self.take(lock.space, first, 1, &gone);
                changes.clear(address(first), HUGE, take, |old| old.page_behind());
                drop(changes);
                gather.finish();
                self.end(&gone, Rule::R3);
            },
        );
    }

    /// Unmaps a small page and a huge one behind it with one flush.
    pub(crate) fn unmap_both(&self, space: &Space, small: u64, huge: u64) {
        self.doing(
            || format!("munmap page {small} and huge page {huge}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 4];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                self.clear_page(&mut changes, small, &gone);
                let take = |lock: &TableLock<'_>| self.take(lock.space, huge, 1, &gone);
                changes.clear(address(huge), HUGE, take, |old| old.page_behind());
                drop(changes);
                gather.finish();
                self.end(&gone, Rule::R3);
            },
        );
    }

    /// Takes the right to store away on the kernel's own account.
    pub(crate) fn soften(&self, space: &Space, page: u64) {
        self.doing(
            || format!("narrow page {page} in a batch"),
            || {
                let gone = Gone::default();
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, Schedule::Lazy, |_: Owed<()>| ());
                let lock = self.lock_tables(space);
                let mut unmapping = batch.take(());
                unmapping.narrow(&lock, address(page), PageSize::KIB_4, |_| self.narrow(space, page, &gone));
                unmapping.hold();
                drop(lock);
                batch.flush();
            },
        );
    }

    /// Uses a free frame for a moment, so that a frame in debt that is free again changes hands.
    pub(crate) fn allocate_and_free(&self) {
        let frame = self.allocate();
        self.free(Page(frame));
    }

    /// Ends a space and gives its ASID back. Its pages and tables stay.
    pub(crate) fn end_space(&self, space: &Space) {
        let asid = space.coherence.asid().filter(|asid| *asid != Asid::SHARED);
        while self.engine.retire(space.as_ref()).is_err() {
            self.hardware().take_interrupt();
            self.hardware().yield_here();
        }
        if let Some(asid) = asid {
            self.hardware().give_back(space.root, asid.into());
        }
        self.hardware().note(|| format!("end of space {}", space.coherence.id().get()));
    }

    /// A fault of a program: maps a new frame if there is none. It does not wait for operations that keep no faults out.
    pub(crate) fn fault(&self, space: &Space, page: u64) {
        let new = self.allocate();
        let lock = self.settled(space);
        if self.peek(space, page).present() {
            drop(lock);
            self.free(Page(new));
        } else {
            self.install(space, page, 0, new, true);
        }
    }

    /// A fault that waits for operations that keep faults out.
    pub(crate) fn fault_in(&self, space: &Space, page: u64) {
        let _range = self.lock_range(space);
        self.fault(space, page);
    }

    /// A store fault on a page that is shared: maps a copy. The old frame stays somebody else's.
    pub(crate) fn copy_on_write(&self, space: &Space, page: u64) {
        self.doing(
            || format!("copy of page {page}"),
            || {
                let gone = Gone::default();
                let new = self.allocate();
                let mut room = [const { Place::EMPTY }; 1];
                let gather = Gather::new(&self.engine, &space.coherence, &mut room, |page| self.free(page));
                gather.finish_under(self.settled(space), |changes| {
                    let take = |lock: &TableLock<'_>| self.take(lock.space, page, 0, &gone);
                    changes.clear(address(page), PageSize::KIB_4, take, |_| None);
                    changes.flush();
                    self.install(space, page, 0, new, true);
                });
            },
        );
    }
}
