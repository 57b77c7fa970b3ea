//! What the kernel does on its own account, in batches: reclaim, write-out and migration.

use std::cell::Cell;

use ceasefire::{Batch, Condition, Owed, PageSize, Schedule, WritePermit};

use super::{address, Gone, Kernel, Page, Space};
use crate::hardware::frame::Allocation;

impl Kernel {
    /// Takes pages away on the kernel's own account, and frees their frames: reclaim.
    pub(crate) fn reclaim(&self, space: &Space, pages: &[u64], schedule: Schedule) {
        self.doing(
            || format!("reclaim pages {pages:?}"),
            || {
                let gone = Gone::default();
                let release = |owed: Owed<Page>| match self.engine.redeem(owed) {
                    Ok(page) => self.free(page),
                    Err(owed) => {
                        self.hardware().note(|| format!("frame {} is released in debt", owed.get().0));
                        // Its content is somewhere else by now, so no store may land in it.
                        let frame = owed.get().0;
                        self.hardware().declare_clean(frame, Some(self.hardware().allocation(frame)));
                        self.owing.borrow_mut().push(owed);
                    }
                };
                let mut batch: Batch<'_, _, _, _, 4> = Batch::new(&self.engine, schedule, release);
                for &page in pages {
                    let lock = self.lock_tables(space);
                    let pte = self.peek(space, page);
                    if !pte.present() && !pte.hidden() {
                        continue;
                    }
                    let mut unmapping = batch.take(Page(pte.frame()));
                    let old = unmapping
                        .clear(&lock, address(page), PageSize::KIB_4, |_| self.take(space, page, 0, &gone));
                    if old.dirty() {
                        unmapping.hold();
                    } else {
                        unmapping.release_in_debt(Condition::UNKEPT);
                    }
                    drop(lock);
                }
                batch.flush();
            },
        );
    }

    /// Takes a page that several spaces map away from all of them.
    pub(crate) fn reclaim_shared(&self, spaces: &[Space], page: u64, schedule: Schedule) {
        self.doing(
            || format!("reclaim page {page} of {} spaces", spaces.len()),
            || {
                let gone = Gone::default();
                let pte = self.peek(&spaces[0], page);
                if !pte.present() {
                    return;
                }
                let release = |owed: Owed<Page>| self.free(self.engine.pay(owed));
                let mut batch: Batch<'_, _, _, _, 4> = Batch::new(&self.engine, schedule, release);
                let mut unmapping = batch.take(Page(pte.frame()));
                for space in spaces {
                    let lock = self.lock_tables(space);
                    unmapping
                        .clear(&lock, address(page), PageSize::KIB_4, |_| self.take(space, page, 0, &gone));
                }
                unmapping.hold();
                batch.flush();
            },
        );
    }

    /// Writes a page out: it must be clean before, and it stays mapped for loads.
    pub(crate) fn write_out(&self, space: &Space, page: u64) {
        // The page stays mapped.
        self.doing(|| format!("write-out of page {page}"), || self.write_withheld(space, page, false));
    }

    /// Clears a page to write it out and free it.
    pub(crate) fn reclaim_dirty(&self, space: &Space, page: u64) {
        self.doing(
            || format!("page-out of page {page}"),
            || {
                if let Some(page) = self.write_withheld(space, page, true) {
                    self.free(page);
                }
            },
        );
    }

    /// Narrows a page, or clears it, and writes it out. When the batch has flushed, the page comes back.
    fn write_withheld(&self, space: &Space, page: u64, clears: bool) -> Option<Page> {
        let gone = Gone::default();
        let mut batch: Batch<'_, _, _, _, 4> =
            Batch::new(&self.engine, Schedule::Batched, |_: Owed<Page>| ());
        let lock = self.lock_tables(space);
        let pte = self.peek(space, page);
        if !pte.present() {
            return None;
        }
        let allocation = self.hardware().allocation(pte.frame());
        let mut unmapping = batch.take(Page(pte.frame()));
        if clears {
            unmapping.clear(&lock, address(page), PageSize::KIB_4, |_| self.take(space, page, 0, &gone));
        } else {
            unmapping.narrow(&lock, address(page), PageSize::KIB_4, |_| self.narrow(space, page, &gone));
        }
        unmapping.withhold();
        drop(lock);
        let written = batch.write_permit().map(|permit| self.write(permit, allocation));
        batch.flush();
        written
    }

    fn write(&self, permit: WritePermit<Page>, allocation: Allocation) -> Page {
        let frame = permit.page().0;
        self.hardware().note(|| format!("frame {frame} is clean, and is written"));
        self.hardware().declare_clean(frame, Some(allocation));
        self.hardware().step();
        permit.into_page()
    }

    /// Moves a page to another frame and frees the old one: migration.
    pub(crate) fn migrate(&self, space: &Space, page: u64, schedule: Schedule) {
        self.doing(
            || format!("migrate page {page}"),
            || {
                let gone = Gone::default();
                let new = self.allocate();
                let from = Cell::new(None);
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, schedule, |owed: Owed<Page>| {
                        from.set(Some(owed));
                    });
                let lock = self.lock_tables(space);
                let pte = self.peek(space, page);
                if !pte.present() && !pte.hidden() {
                    drop(lock);
                    self.free(Page(new));
                    return;
                }
                let mut unmapping = batch.take(Page(pte.frame()));
                let old = unmapping
                    .clear(&lock, address(page), PageSize::KIB_4, |_| self.take(space, page, 0, &gone));
                unmapping.hold();
                drop(lock);
                batch.flush();
                drop(batch);
                // No translation appears while another operation keeps them out.
                let range = self.lock_range(space);
                let lock = self.settled(space);
                if !self.peek(space, page).present() {
                    self.install(space, page, 0, new, old.writable());
                }
                drop(lock);
                drop(range);
                if let Some(owed) = from.take() {
                    self.free(self.engine.pay(owed));
                }
            },
        );
    }

    /// Hides a page to see who uses it next, as NUMA balancing does.
    pub(crate) fn hide(&self, space: &Space, page: u64) {
        self.doing(
            || format!("hide page {page}"),
            || {
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, Schedule::Batched, |_: Owed<()>| ());
                let lock = self.lock_tables(space);
                let mut unmapping = batch.take(());
                unmapping.narrow(&lock, address(page), PageSize::KIB_4, |_| self.conceal(space, page));
                unmapping.hold();
                drop(lock);
                batch.flush();
            },
        );
    }
}
