//! Page walks: the way that a walker takes through the page tables, and the entry that it caches.
//!
//! A walk reads an entry and caches it at one instant. A real walk takes longer, and may cache an entry that was
//! cleared meanwhile. It makes no difference to the oracle: an entry counts as one that the CPU may hold from the moment
//! at which the walker has read it, until the CPU invalidates it.

use ceasefire::PageSize;
use ceasefire_memory::{Entry, FrameNumber, Table, PAGE_SHIFT};

use crate::hardware::numbers::{level_of, HUGE_SHIFT};
use crate::hardware::tlb::{Cached, Fill, Side};
use crate::world::state::World;

/// The result of a page walk.
pub(crate) enum Walk {
    /// The TLB has an entry now that allows the access.
    Filled(Cached),
    /// The page-table entry changed meanwhile.
    Changed,
    /// The page tables do not allow the access.
    Fault,
}

/// The page-table page to which a walk has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    /// It has the entry that translates the page.
    pub(crate) table: FrameNumber,
    /// The size that the entry translates.
    pub(crate) size: PageSize,
    /// Whether the walker remembered the way, so that it read no table above.
    pub(crate) remembered: bool,
}

impl World {
    /// The table with the entry that translates a page, by the way that a CPU's walker remembers or else from the root
    /// that the CPU has loaded. `None` if the tables end before.
    pub(crate) fn reach(&self, index: usize, page: u64) -> Option<Reached> {
        let cpu = &self.cpus[index];
        let (asid, root) = (cpu.asid.get(), cpu.root.get());
        let path = cpu.tlb.borrow().path(page, asid);
        let path = path.filter(|&(_, filled)| !self.outdated.borrow().has_table(asid, page, filled));
        if let Some((table, filled)) = path {
            if let Some(oracle) = &self.oracle {
                oracle.walked(self, index, page, table, filled);
                oracle.remembers(index, asid, (page, 0), table);
            }
            return Some(Reached { table: FrameNumber::new(table), size: PageSize::KIB_4, remembered: true });
        }
        let (table, size) = self.descend_by(root, page, |level, table| {
            if let Some(oracle) = &self.oracle {
                oracle.remembers(index, asid, (page, level), table.get());
            }
        })?;
        if size == PageSize::KIB_4 {
            cpu.tlb.borrow_mut().fill_path(page, asid, table.get(), self.moment());
        }
        Some(Reached { table, size, remembered: false })
    }

    /// A CPU's walker reads the entry that translates a page, and caches it if it allows the access.
    ///
    /// # Panics
    /// If a huge translation leads to a frame that is not aligned to its size. Hardware cannot express this.
    pub(crate) fn fill(&self, index: usize, page: u64, side: Side, reached: Reached, store: bool) -> Walk {
        let (cpu, Reached { table, size, .. }) = (&self.cpus[index], reached);
        let asid = cpu.asid.get();
        let at = Table::index(page << PAGE_SHIFT, level_of(size));
        let table = self.ram.table(table);
        let entry: Entry = table.get(at);
        if !entry.present() || (store && !entry.writable()) {
            return Walk::Fault;
        }
        let Some(used) = table.mark_used(at, entry, store) else { return Walk::Changed };
        let frame = used.frame().get();
        assert!(
            size == PageSize::KIB_4 || frame.is_multiple_of(1 << HUGE_SHIFT),
            "{used:?} is huge and not aligned"
        );
        let fill = Fill {
            size,
            frame,
            filled: self.moment(),
            root: cpu.root.get(),
            writable: used.writable(),
            dirty: used.dirty(),
        };
        let entry = cpu.tlb.borrow_mut().fill(page, asid, side, fill);
        if let Some(oracle) = &self.oracle {
            oracle.filled(index, page, asid, &fill);
        }
        Walk::Filled(entry)
    }
}
