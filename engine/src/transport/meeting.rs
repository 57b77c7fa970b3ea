//! Meetings: each of some CPUs takes an interrupt, and nothing is flushed.
//!
//! A flush by broadcast interrupts no CPU. Two things need an interrupt all the same:
//!
//! - Code of the kernel walks page tables without a lock, with interrupts off (GUP-fast). A CPU that has taken an
//!   interrupt has ended the walk that it was in. A walk that it begins later finds the table unlinked. So a page-table
//!   page is freed only after each CPU that may walk has taken one ([`Walkers`]).
//! - On some processors a CPU's own stores may land after the broadcast that ought to follow them, unless that CPU waits
//!   for broadcasts itself ([`Errata::everyone`](crate::Errata::everyone)).

use crate::cpu::Asked;
use crate::cpu_set::{AtomicCpuSet, CpuId, CpuSet};
use crate::flush::Flush;
use crate::platform::{Platform, Walkers};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Generation, SpaceId};
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// Waits until no code of the kernel can be in a table that was unlinked from `space`, or from the kernel's own
    /// tables if there is none. `interrupted`: the flush that came before has interrupted every CPU that runs the
    /// space; for the kernel's tables, every CPU.
    pub(crate) fn await_walkers(&self, space: Option<&AddressSpace>, interrupted: bool) {
        // R2
        if !self.guarded(Guard::Walkers) {
            return;
        }
        let platform = self.platform();
        match (platform.capabilities().walkers, space) {
            (Walkers::Locked, _) | (Walkers::Own, None) => {}
            (Walkers::Awaited, _) => platform.await_walkers(),
            (Walkers::Own, Some(_)) | (Walkers::Any, None) if interrupted => {}
            (Walkers::Own, Some(space)) => {
                let runs = |loaded| loaded == space.id() || loaded == SpaceId::SWITCHING;
                self.meet(space.cpus(), |cpu| runs(platform.cpu(cpu).seen.loaded()));
            }
            (Walkers::Any, _) => self.meet_everyone(),
        }
    }

    /// Makes every online CPU take an interrupt, and wait for broadcasts itself where each must. A CPU that runs no
    /// program may still have accesses under way that it made when it did, and uses the kernel's ranges.
    pub(super) fn meet_everyone(&self) {
        self.meet(self.kernel.online(), |_| true);
    }

    /// Interrupts the CPUs of `among` that `concerns` picks, without this CPU, and waits until each has answered.
    /// Interrupts should be on. With interrupts off this CPU answers other CPUs' requests meanwhile.
    fn meet(&self, among: &AtomicCpuSet, concerns: impl Fn(CpuId) -> bool) {
        let platform = self.platform();
        let mut targets = CpuSet::new();
        targets.unite(among);
        targets.retain(concerns);
        platform.pinned(|| {
            targets.remove(platform.this_cpu());
            let asked =
                Asked { space: SpaceId::NO_FLUSH, generation: Generation::NONE, flush: Flush::TRANSLATIONS };
            let sent = self.ask_themselves(&mut targets, asked);
            self.await_answers(sent);
        });
    }

    /// Answers a request for no flush.
    pub(super) fn answer_meeting(&self) {
        let broadcast = self.platform().capabilities().broadcast;
        if broadcast.is_some_and(|broadcast| broadcast.errata().everyone) {
            self.platform().broadcast_wait();
        }
    }
}
