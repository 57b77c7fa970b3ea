//! Tables that change their shape: huge pages that are split, and tables that spaces share.

use ceasefire::{Gather, PageSize, Place};

use super::tables::{Pte, Table, HUGE, HUGE_PAGES};
use super::{address, Gone, Kernel, Space, TableLock};
use crate::model::rule::Rule;

impl Kernel {
    /// Splits a huge page: its frame is copied to small ones, for loads only.
    pub(crate) fn split(&self, space: &Space, first: u64) {
        self.doing(
            || format!("split huge page {first}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 2];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let take = |lock: &TableLock<'_>| self.take(lock.space, first, 1, &gone);
                changes.clear(address(first), HUGE, take, |old| old.page_behind());
                // One size has gone everywhere before another is visible.
                changes.flush();
                self.end(&gone, Rule::R7);
                for page in first..first + HUGE_PAGES {
                    let frame = self.allocate();
                    self.install(space, page, 0, frame, false);
                }
                drop(changes);
                gather.finish();
            },
        );
    }

    /// Lets a second space use the lowest-level table of the first.
    pub(crate) fn share_table(&self, from: &Space, to: &Space, first: u64) {
        let Some(table) = self.find_table(from.root, first, 0) else { return };
        let above = self.make_table(to.root, first, 1);
        let pte = Pte::table(table, self.hardware().allocation(table));
        self.tables.table(above).set(Table::index(first, 1), pte);
    }

    /// Takes a shared table out of a space. The table and its pages stay the other's.
    pub(crate) fn unshare(&self, space: &Space, first: u64) {
        self.doing(
            || format!("unshare the table of page {first}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { Place::EMPTY }; 1];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                changes.detach(address(first), PageSize::KIB_4, address(HUGE_PAGES), |lock| {
                    self.take(lock.space, first, 1, &gone)
                });
                drop(changes);
                gather.finish();
            },
        );
    }
}
