//! Tables that change their shape: huge pages that are split, tables that spaces share, and walks by code.

use ceasefire::{Gather, PageSize, Place};

use super::tables::{Pte, Table, HUGE, HUGE_PAGES, TOP};
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

    /// A walk by the kernel's own code, with interrupts off and no lock (Linux: `get_user_pages_fast`).
    pub(crate) fn walk(&self, space: &Space, page: u64) {
        let _off = self.engine.interrupts_off();
        let mut expected = (space.root, self.hardware().allocation(space.root));
        for level in (0..=TOP).rev() {
            if self.hardware().allocation_in_use(expected.0) != Some(expected.1) {
                let what =
                    format!("the kernel's walk to page {page} reads table {}, which was freed", expected.0);
                self.hardware().break_rule(Rule::R2, self.hardware().me(), what);
                return;
            }
            let pte = self.tables.table(expected.0).get(Table::index(page, level));
            if !pte.present() || pte.leaf() {
                return;
            }
            expected = (pte.frame(), pte.allocation());
            self.hardware().pause();
        }
    }
}
