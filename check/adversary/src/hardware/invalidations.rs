//! Invalidations: what a CPU or a device forgets, and what its walks must see afterwards.

use ceasefire::{Broadcast, Errata};

use super::tlb::{Filled, Invalidation};
use super::Hardware;
use crate::model::ordering::View;
use crate::model::promise::Promise;
use crate::model::schedule::below;

/// A broadcast that its CPU has not waited for.
#[derive(Debug)]
pub(crate) struct Started {
    what: Invalidation,
    /// What its CPU had stored and seen.
    stored: View,
    /// When it took effect on each CPU that it has reached.
    effects: Vec<Option<u64>>,
    /// It covers what was filled before it took effect, not only what was filled before it started.
    late: bool,
}

impl Started {
    /// What it has removed from a CPU that it has reached.
    fn on(&self, cpu: usize) -> Option<Invalidation> {
        let moment = self.effects[cpu]?;
        Some(if self.late { Invalidation { before: moment, ..self.what } } else { self.what })
    }

    /// Whether it has removed an entry from a CPU.
    pub(super) fn removed(&self, cpu: usize, entry: &Filled) -> bool {
        self.on(cpu).is_some_and(|what| what.removes(entry))
    }
}

impl Hardware {
    /// Removes entries of a CPU's TLB.
    pub(crate) fn forget(&self, thread: usize, mut what: Invalidation, stored: Option<&View>) {
        let core = &self.cores[thread];
        what.drains = self.keeps(Promise::WalksEnd);
        if let Some(view) = stored {
            core.floor.borrow_mut().join(view);
        }
        core.tlb.borrow_mut().forget(self.paging.shape(), what);
    }

    /// Removes entries of the devices that walk from this root, or of all, and waits for the accesses by them.
    pub(crate) fn forget_in_devices(&self, root: Option<u32>, what: Invalidation) {
        let stored = self.view();
        for device in &self.devices {
            if root.is_none() || root == device.root.get().map(|(root, _)| root) {
                device.floor.borrow_mut().join(&stored);
                device.tlb.borrow_mut().forget(self.paging.shape(), what);
            }
            // Also of a device that has just stopped.
            while device.in_flight.get().is_some_and(|entry| what.removes(&entry)) {
                self.yield_here();
            }
        }
        let cpus = self.cores.len();
        self.know(|thread, entry| thread >= cpus && what.removes(entry));
    }

    /// Whether a CPU's access is translated and has not landed, by an entry like this.
    pub(crate) fn is_under_way(&self, cpu: usize, by: impl Fn(&Filled) -> bool) -> bool {
        self.cores[cpu].in_flight.get().is_some_and(|entry| by(&entry))
    }

    /// A broadcast of this CPU starts. Until it takes effect on a CPU, walks there see what this CPU has stored, and may
    /// fill entries that stay; or they need not see it, and what they fill goes.
    pub(crate) fn broadcast(&self, what: Invalidation) {
        let (stored, late) = (self.view(), below(2) == 0);
        if !late {
            self.cores.iter().for_each(|core| core.floor.borrow_mut().join(&stored));
        }
        let effects = vec![None; self.cores.len()];
        self.core().started.borrow_mut().push(Started { what, stored, effects, late });
    }

    /// A broadcast takes effect on a CPU, unless it has.
    pub(super) fn carry(&self, cpu: usize, started: &mut Started) {
        if started.effects[cpu].is_none() {
            started.effects[cpu] = Some(self.tick());
            if let Some(what) = started.on(cpu) {
                self.forget(cpu, what, Some(&started.stored));
            }
        }
    }

    /// The broadcasts that this CPU started take effect on every CPU, if the hardware waits for them. It waits for the
    /// accesses by the entries that they remove, and for no others.
    pub(crate) fn wait_for_broadcasts(&self) {
        let Errata { repeated, everyone } =
            self.model.capabilities.broadcast.map_or(Errata::NONE, Broadcast::errata);
        let core = self.core();
        let mut mine = std::mem::take(&mut *core.started.borrow_mut());
        if repeated && !mine.is_empty() {
            // Only a later broadcast proves that these are done.
            mine = std::mem::replace(&mut *core.unfinished.borrow_mut(), mine);
        }
        if self.keeps(Promise::WaitIsForOwn) {
            for cpu in 0..self.cores.len() {
                if self.cores[cpu].gone.get() {
                    // It has no access under way, and no entry when it comes back, which may be before the wait ends.
                    self.know(|thread, _| thread == cpu);
                    continue;
                }
                for started in &mut mine {
                    self.carry(cpu, started);
                }
                self.pause();
            }
        }
        // An access on another CPU has landed when that CPU has waited.
        let removes =
            |cpu: usize, entry: &Filled| !everyone && mine.iter().any(|started| started.removed(cpu, entry));
        let under_way = |cpu| self.is_under_way(cpu, |entry| removes(cpu, entry));
        while self.keeps(Promise::AccessesLand) && (0..self.cores.len()).any(under_way) {
            self.yield_here();
        }
        self.know(|thread, entry| thread < self.cores.len() && removes(thread, entry));
    }
}
