//! Invalidations: what a CPU or a device forgets, and what its walks must see afterwards.

use super::tlb::Invalidation;
use super::Hardware;
use crate::model::ordering::View;
use crate::model::promise::Promise;

impl Hardware {
    /// Removes entries of a CPU's TLB.
    pub(crate) fn forget(&self, thread: usize, mut what: Invalidation, stored: Option<&View>) {
        let core = &self.cores[thread];
        what.drains = self.keeps(Promise::WalksEnd);
        if what.drains {
            core.drained.set(core.drained.get() + 1);
        }
        if let Some(view) = stored {
            core.floor.borrow_mut().join(view);
        }
        core.tlb.borrow_mut().forget(what);
    }

    /// Removes entries of the devices that walk from this root, or of all.
    pub(crate) fn forget_in_devices(&self, root: Option<u32>, what: Invalidation) {
        let stored = self.view();
        for device in &self.devices {
            if root.is_none() || root == device.root.get().map(|(root, _)| root) {
                device.floor.borrow_mut().join(&stored);
                device.tlb.borrow_mut().forget(what);
            }
        }
        let cpus = self.cores.len();
        self.know(|thread, entry| thread >= cpus && what.removes(entry));
    }

    /// What this CPU has stored, walks see from here on.
    pub(crate) fn publish(&self) -> View {
        let stored = self.view();
        self.cores.iter().for_each(|core| core.floor.borrow_mut().join(&stored));
        stored
    }
}
