//! The machine, as the oracle sees it.

use ceasefire::PageSize;
use ceasefire_memory::{FrameNumber, NodeId, Table, MIGRATE_BATCH, PAGE_SHIFT};

use crate::hardware::numbers::{level_of, HUGE_PAGES, KERNEL_ROOT};
use crate::oracle::view::{Translation, View};
use crate::world::state::World;

/// The most owing frames of a node on a CPU's list.
const LIST: usize = 30;

impl World {
    /// The page-table page with the entry that translates a page, in the tables under `root`, and the size that this
    /// entry translates.
    pub(crate) fn descend(&self, root: u32, page: u64) -> Option<(FrameNumber, PageSize)> {
        self.descend_by(root, page, |_, _| ())
    }

    /// The same, and passes to `visit` the level and the frame of each table below the root.
    pub(crate) fn descend_by(
        &self,
        root: u32,
        page: u64,
        mut visit: impl FnMut(u32, FrameNumber),
    ) -> Option<(FrameNumber, PageSize)> {
        let mut frame = FrameNumber::new(root);
        for level in (1..4).rev() {
            let entry = self.ram.table(frame).get(Table::index(page << PAGE_SHIFT, level));
            if !entry.present() {
                return None;
            }
            if level == 1 && entry.is_huge() {
                return Some((frame, PageSize::MIB_2));
            }
            frame = entry.frame();
            visit(level - 1, frame);
        }
        Some((frame, PageSize::KIB_4))
    }
}

impl View for World {
    fn now_ns(&self) -> u64 {
        self.cpu().clock.get() / 1000
    }

    fn thread(&self) -> Option<usize> {
        self.cpu().task.get().map(|thread| thread.0)
    }

    fn this_cpu(&self) -> usize {
        self.here()
    }

    fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    fn root(&self, cpu: usize) -> Option<u32> {
        Some(self.cpus[cpu].root.get()).filter(|&root| root != KERNEL_ROOT)
    }

    fn asid(&self, cpu: usize) -> u16 {
        self.cpus[cpu].asid.get()
    }

    fn is_lazy(&self, cpu: usize) -> bool {
        self.cpus[cpu].engine.is_lazy()
    }

    fn translation(&self, root: u32, page: u64) -> Option<Translation> {
        let (table, size) = self.descend(root, page)?;
        let entry = self.ram.table(table).get(Table::index(page << PAGE_SHIFT, level_of(size)));
        let offset = match size {
            PageSize::KIB_4 => 0,
            _ => (page & (HUGE_PAGES - 1)) as u32,
        };
        let (frame, writable, dirty) = (entry.frame().get() + offset, entry.writable(), entry.dirty());
        entry.present().then_some(Translation { frame, writable, dirty })
    }

    fn node_of(&self, frame: u32) -> usize {
        self.memories.node_of(FrameNumber::new(frame)).into()
    }

    fn most_owing(&self, node: usize) -> usize {
        let memory = self.memory();
        // Each CPU has a batch of at most so many pages under way, and a list of its own.
        let of_batches = memory.config().cpus * (MIGRATE_BATCH + LIST);
        memory.most_owing(NodeId(node as u16)) as usize + of_batches
    }

    fn oldest_debt_ns(&self) -> u64 {
        let memory = self.memory();
        let bounds = memory.engine().bounds();
        bounds.max_age() + bounds.tick()
    }
}
