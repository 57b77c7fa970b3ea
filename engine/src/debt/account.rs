//! The account of a batch: the translations that it recorded and has not paid for.
//!
//! A [`Part`] counts translations and names the CPUs that may hold them. A [`Recorded`] names a space that the batch
//! recorded in, with the generations of its records. After the flush, [`Recorded::close`] tells the space whether its
//! debt is paid or entered as a lazy debt. The batch pays with [`Engine::pay_batch`], and [`Paid`] says by what means.

use crate::cpu_set::{CpuId, CpuSet};
use crate::platform::{Platform, WIDE};
use crate::primitive::Ordering;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Generation, SpaceId, Stamp};
use crate::Engine;

/// A number of translations, and the CPUs that may hold them.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) cpus: CpuSet,
    /// Any CPU may hold one of them, under a global ASID, and no broadcast was started for it.
    pub(super) everywhere: bool,
    pub(super) recorded: u64,
}

impl Part {
    pub(super) const fn new() -> Self {
        Self { cpus: CpuSet::new(), everywhere: false, recorded: 0 }
    }

    /// Moves everything into `other`.
    pub(super) fn pour(&mut self, other: &mut Self) {
        if self.recorded > 0 {
            self.cpus.pour(&mut other.cpus);
            other.everywhere |= core::mem::take(&mut self.everywhere);
            other.recorded += core::mem::take(&mut self.recorded);
        }
    }

    pub(super) fn is_nobodys(&self) -> bool {
        self.cpus.is_empty() && !self.everywhere
    }
}

/// The means by which a batch paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paid {
    /// Broadcasts of single pages, and interrupts for CPUs that were between two tags.
    Pages,
    /// One broadcast of everything.
    Everywhere,
    Interrupts,
    /// Nothing: no other CPU had to be reached.
    Local,
}

/// A space that the batch recorded in.
#[derive(Debug)]
pub(super) struct Recorded<S> {
    pub(super) space: S,
    /// The oldest generation such that all from it to `newest` are this batch's. A broadcast pays only for its own
    /// translations.
    pub(super) first: Generation,
    pub(super) newest: Generation,
    /// A translation of the space was narrowed. Until the flush, CPUs may store where the page table forbids it.
    pub(super) narrowed: bool,
    /// A translation of the space may be owed longer than the batch lasts.
    pub(super) lazy: bool,
}

impl<S: AsRef<AddressSpace>> Recorded<S> {
    pub(super) fn is(&self, space: &AddressSpace) -> bool {
        self.space.as_ref().id() == space.id()
    }

    /// Closes the account with the space. The batch has flushed, and entered under `stamp` the debts of the pages that it released.
    /// With `only_own`, broadcasts of pages count for the batch's own generations alone.
    pub(super) fn close(self, paid: Paid, stamp: Stamp, only_own: bool) {
        let space = self.space.as_ref();
        if self.lazy && stamp != Stamp::SETTLED {
            space.owe_until(stamp, self.newest);
        } else if paid == Paid::Pages && only_own {
            // Another batch's broadcasts may still be under way, so only this batch's generations are reached.
            space.reached.extend(self.first, self.newest);
        } else {
            space.reached.raise_to(self.newest);
        }
        // Either order: the flush that ended the downgrade is done, and no reader asks for both.
        if self.narrowed {
            space.in_flight.end_downgrade();
        }
        // Last but for the downgrade: an operation that finds no open batch must find what this one left.
        // Either order: an operation that asks for open batches does not ask for downgrades.
        space.batches.fetch_sub(1, Ordering::Release);
    }
}

impl<P: Platform> Engine<P> {
    /// Whether rights were taken away in the space and some CPU may not know yet.
    pub(super) fn narrows(&self, space: &AddressSpace) -> bool {
        self.guarded(Guard::Downgrade) && space.downgrade_in_flight() // R5
    }

    /// Whether a debt of `cpus` in the spaces that it `concerns` is worth one broadcast of everything, on hardware that
    /// broadcasts. It is from [`WIDE`] CPUs on that run one of them, the number that makes a space worth a global ASID.
    /// For fewer, interrupts are better: they leave all other CPUs' entries alone.
    pub(super) fn broadcasts_to(&self, cpus: &CpuSet, concerns: impl Fn(SpaceId) -> bool) -> bool {
        let platform = self.platform();
        let uses = |&cpu: &CpuId| platform.cpu(cpu).uses_entries(&concerns);
        platform.capabilities().broadcast.is_some()
            && cpus.iter().filter(uses).take(WIDE as usize).count() == WIDE as usize
    }

    /// Pays what is due in the spaces that it `concerns`: with one broadcast of everything if `all`, else by waiting
    /// for the broadcasts that were `started`, and by interrupts.
    pub(super) fn pay_batch(
        &self,
        due: &mut Part,
        concerns: impl Fn(SpaceId) -> bool,
        started: bool,
        all: bool,
    ) -> Paid {
        if all {
            due.cpus.clear();
            due.everywhere = false;
            // This also waits for the broadcasts that were started.
            self.platform().pinned(|| self.flush_everywhere());
            return Paid::Everywhere;
        }
        if started {
            self.finish_broadcasts(due.recorded);
        }
        let sent = !due.cpus.is_empty() && self.flush_loaded(&mut due.cpus, concerns);
        match (started, sent) {
            (true, _) => Paid::Pages,
            (false, true) => Paid::Interrupts,
            (false, false) => Paid::Local,
        }
    }

    /// Counts debts that a batch deferred and then paid itself.
    pub(super) fn count_settled(&self, debts: u64, since: u64, paid: Paid) {
        let platform = self.platform();
        platform.pinned(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            tally.debts_created.add_at_once(debts);
            let settled = match paid {
                Paid::Pages | Paid::Everywhere => &tally.debts_by_broadcast,
                Paid::Interrupts => &tally.debts_by_interrupt,
                Paid::Local => &tally.debts_by_local,
            };
            settled.add_at_once(debts);
            tally.debt_age_max_ns.at_least(platform.now().saturating_sub(since));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_nobodys_if_neither_some_cpu_nor_any_cpu_may_hold_an_entry() {
        let cpu = CpuId::new(1).expect("there are two");
        for (cpus, everywhere) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut part = Part { cpus: cpus.then_some(cpu).into_iter().collect(), everywhere, recorded: 1 };
            assert_eq!(part.is_nobodys(), !cpus && !everywhere);
            let mut whole = Part::new();
            part.pour(&mut whole);
            assert!(part.is_nobodys() && whole.is_nobodys() == (!cpus && !everywhere));
            assert_eq!((part.recorded, whole.recorded), (0, 1));
        }
    }
}
