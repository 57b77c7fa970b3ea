//! Walks of page tables by the kernel's own code (Linux: `get_user_pages_fast`), as the capabilities allow them.

use ceasefire::Walkers;

use super::tables::{Table, TOP};
use super::{Kernel, Space};
use crate::hardware::frame::Allocation;
use crate::model::rule::Rule;
use crate::model::schedule::below;

impl Kernel {
    /// Walks to a page of a space.
    pub(crate) fn walk(&self, space: &Space, page: u64) {
        let hardware = self.hardware();
        let walkers = hardware.model.capabilities.walkers;
        let _lock = (walkers == Walkers::Locked).then(|| self.lock_tables(space));
        let _off = matches!(walkers, Walkers::Own | Walkers::Any).then(|| self.engine.interrupts_off());
        if walkers != Walkers::Own || self.engine.may_access(&space.coherence) {
            self.walk_from((space.root, hardware.allocation(space.root)), page);
        }
    }

    /// Walks to a page of the kernel's ranges. The capabilities allow it on any CPU.
    pub(crate) fn walk_kernel(&self, page: u64) {
        let _off = self.engine.interrupts_off();
        if let Some(root) = self.hardware().kernel_root.get() {
            self.walk_from(root, page);
        }
    }

    fn walk_from(&self, root: (u32, Allocation), page: u64) {
        let hardware = self.hardware();
        hardware.begin_walk_by_code();
        let mut expected = root;
        for level in (0..=TOP).rev() {
            if hardware.allocation_in_use(expected.0) != Some(expected.1) {
                let what =
                    format!("the kernel's walk to page {page} reads table {}, which was freed", expected.0);
                hardware.break_rule(Rule::R2, hardware.me(), what);
                break;
            }
            let pte = self.tables.table(expected.0).get(Table::index(page, level));
            if !pte.present() || pte.leaf() {
                break;
            }
            expected = (pte.frame(), pte.allocation());
            // An interrupt may come here if interrupts are on, and its sender go on.
            (0..=below(8)).for_each(|_| hardware.step());
        }
        hardware.end_walk_by_code();
    }
}
