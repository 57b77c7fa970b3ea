//! What a batch recorded and has not paid: how many translations, which CPUs may hold them, and in which spaces.

use crate::cpu_set::CpuSet;
use crate::platform::{Platform, WIDE};
use crate::primitive::Ordering;
use crate::sabotage::Guard;
use crate::space::{AddressSpace, Generation, Stamp};
use crate::Engine;

/// Translations, and who may hold them.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) cpus: CpuSet,
    /// Any CPU, under a global ASID, and no broadcast was started for it.
    pub(super) everywhere: bool,
    pub(super) recorded: u64,
}

impl Part {
    pub(super) const fn new() -> Self {
        Self { cpus: CpuSet::new(), everywhere: false, recorded: 0 }
    }

    /// Empties it into another.
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

/// What a batch paid with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paid {
    /// Broadcasts of single pages, and interrupts where CPUs were between two tags.
    Pages,
    /// One broadcast of everything.
    Everywhere,
    Interrupts,
    /// Nobody else had to be reached.
    Local,
}

/// A space recorded in.
#[derive(Debug)]
pub(super) struct Recorded<S> {
    pub(super) space: S,
    /// The newest generation recorded, and the oldest such that all between are this batch's: a broadcast pays for
    /// itself alone.
    pub(super) first: Generation,
    pub(super) newest: Generation,
    /// A translation of it was narrowed: until the flush CPUs may store where the page table allows none.
    pub(super) narrowed: bool,
    /// A translation of it may be owed longer than the batch lasts.
    pub(super) lazy: bool,
}

impl<S: AsRef<AddressSpace>> Recorded<S> {
    pub(super) fn is(&self, space: &AddressSpace) -> bool {
        self.space.as_ref().id() == space.id()
    }

    /// The batch has flushed, and entered under `stamp` what it let go of owing.
    pub(super) fn close(self, paid: Paid, stamp: Stamp) {
        let space = self.space.as_ref();
        if self.lazy && stamp != Stamp::SETTLED {
            space.owe_until(stamp, self.newest);
        } else if paid == Paid::Pages {
            // Another batch's broadcasts may still be under way: this one answers for its own.
            space.reached.extend(self.first, self.newest);
        } else {
            space.reached.raise_to(self.newest);
        }
        if self.narrowed {
            space.in_flight.end_downgrade();
        }
        // Last: whoever finds no open batch finds what this one left.
        space.batches.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<P: Platform> Engine<P> {
    /// Whether rights were taken away in a space that some CPU may not have heard of.
    pub(super) fn narrows(&self, space: &AddressSpace) -> bool {
        self.guarded(Guard::Downgrade) && space.downgrade_in_flight()
    }

    /// Whether what so many CPUs may hold is worth one broadcast of everything, where the hardware has it: from as many on
    /// as make a space worth a global ASID. Below, interrupts leave all other CPUs' entries alone.
    pub(super) fn broadcasts_to(&self, cpus: &CpuSet) -> bool {
        self.platform().capabilities().broadcast.is_some() && cpus.len() >= WIDE as usize
    }

    /// Pays what is due, by broadcasts that were `started`, to `all` CPUs at once, or by interrupts.
    pub(super) fn pay_batch(&self, due: &mut Part, started: bool, all: bool) -> Paid {
        if all {
            due.cpus.clear();
            due.everywhere = false;
            // Waits for what was started too.
            self.platform().pinned(|| self.flush_everywhere());
            return Paid::Everywhere;
        }
        if started {
            self.finish_broadcasts(due.recorded);
        }
        let sent = !due.cpus.is_empty() && self.flush_loaded(&mut due.cpus);
        match (started, sent) {
            (true, _) => Paid::Pages,
            (false, true) => Paid::Interrupts,
            (false, false) => Paid::Local,
        }
    }

    /// Counts debts that a batch put off and then paid itself.
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
