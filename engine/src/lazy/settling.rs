//! Lazy debts: what settles them for nothing, and what pays for them.
//!
//! A batch enters what it need not pay at once in the [ledger](crate::ledger), and the CPUs that may still use it settle
//! it by what they do anyway. One that switches, goes lazy or leaves the space uses none of it any more: coming back it
//! finds the space's generation ahead of its own. One that runs on has a timer: at its tick it brings the one space that
//! it runs up to date, if that is behind. Both are noticed at ticks alone, so switching costs what it always did. CPUs
//! that have no tick, because they idle, are noticed by the others'.
//!
//! What is owed in a space with a global ASID no CPU can settle alone. There the tick that finds it has the hardware settle
//! all that is owed by then, with one broadcast of everything; and who cannot wait broadcasts too, and interrupts nobody,
//! whatever is owed where.
//!
//! So two ticks after its epoch every debt is settled, and nobody was interrupted. Who cannot wait for that pays: one
//! round of interrupts, for all that is owed at that moment. And where a CPU that runs programs has no ticks, the age
//! itself makes somebody pay: [`Engine::tick`] says when. (LATR, ASPLOS 2018, sweeps at ticks too; LUF pays on demand
//! alone, which is [`Settle::Demand`].)

use super::bounds::{Bounds, Settle};
use super::ledger::Closed;
use crate::cpu::Asked;
use crate::cpu_set::{CpuId, CpuSet};
use crate::platform::{Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, SpaceId, Stamp};
use crate::Engine;

/// What settles an epoch's debts: who takes the last CPU out of it.
#[derive(Debug, Clone, Copy)]
enum By {
    Interrupt,
    Broadcast,
    Switch,
    Tick,
    Local,
}

impl<P: Platform> Engine<P> {
    /// How old debts may become, and what settles them.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether the debts of a stamp are settled: no CPU can reach what it is owed for. Two loads and a comparison.
    pub fn is_settled(&self, stamp: Stamp) -> bool {
        !self.guarded(Guard::Stamp) || self.ledger.is_settled(stamp)
    }

    /// The newest stamp whose debts are settled: all that are not larger are.
    pub fn settled_stamp(&self) -> Stamp {
        self.ledger.settled()
    }

    /// Whether a translation of `space` that is gone may still be used by some CPU: because a batch cleared it and has
    /// not settled, or because it was let go of owing.
    ///
    /// Read it under the page-table lock under which the translations are examined: batches record under the same lock.
    pub fn owes(&self, space: &AddressSpace) -> bool {
        // In this order: a batch says what it recorded before anything else, and enters what it owes lazily before it
        // closes its account.
        space.has_unpaid()
            && (space.has_batches() || (space.owes_lazily() && !self.is_settled(space.stamp())))
    }

    /// What this CPU does at each of its timer's ticks, with interrupts off: settles the debts that it has, for nothing
    /// but the flush of the one space that it runs, and lets those go that idle CPUs had.
    ///
    /// True if a debt is too old: then somebody who may wait has to call [`Engine::pay_overdue`], soon.
    #[must_use = "a debt may be too old: have somebody call `pay_overdue`"]
    pub fn tick(&self) -> bool {
        if self.ledger.oldest().is_none() {
            return false;
        }
        let (now, bounds) = (self.platform().now(), self.bounds);
        self.ledger.close_after(bounds.epoch(), now);
        if bounds.settle() == Settle::Free {
            let by = self.sweep();
            // Every CPU that runs a program has had a tick since these were closed; who is left does not.
            let waiting = self.ledger.closed_for(self.ledger.closed(), bounds.tick(), now);
            if !waiting.is_empty() {
                self.excuse(waiting);
            }
            let by = if self.sweep_everywhere() { By::Broadcast } else { by };
            self.advance(by);
        }
        self.is_overdue(now)
    }

    fn is_overdue(&self, now: u64) -> bool {
        self.ledger.oldest().is_some_and(|since| now.saturating_sub(since) >= self.bounds.overdue())
    }

    /// Brings what this CPU runs up to date, if it has debts, and takes it off the books.
    fn sweep(&self) -> By {
        self.on_this_cpu(|mut here| {
            let closed = self.ledger.closed();
            if !self.ledger.has(closed, here.id) {
                return By::Switch;
            }
            let mut by = By::Switch;
            let owes = match &here.own.loaded {
                // It could not settle what it owes under a global ASID; kernel threads use none of it.
                Some(loaded) => !loaded.global && !here.cpu.seen.is_lazy(),
                None => false,
            };
            let flushes = owes && self.guarded(Guard::Sweep);
            if flushes && self.answer(&mut here, Asked::UP_TO_DATE, Reason::Tick) {
                here.cpu.tally.flushes_free.add(1);
                by = By::Tick;
            }
            self.ledger.leave(closed, here.id);
            by
        })
    }

    /// Has the hardware settle what no CPU can settle alone, if anything is so and nobody else is at it.
    fn sweep_everywhere(&self) -> bool {
        let closed = self.ledger.closed();
        let mine = self.ledger.begin_broadcast(closed);
        if mine {
            self.settle_everywhere(closed);
            self.ledger.end_broadcast();
        }
        mine
    }

    /// Has every CPU forget everything, which settles all that was closed before.
    fn settle_everywhere(&self, closed: Closed) {
        self.flush_everywhere();
        self.ledger.leave_all(closed);
    }

    /// Takes CPUs off the books that use nothing of what they had: idle ones, and those on the kernel's own tables.
    /// Before they run a program again they catch up.
    fn excuse(&self, closed: Closed) {
        let mut cpus = CpuSet::new();
        self.ledger.collect(closed, &mut cpus);
        cpus.iter().filter(|&cpu| !self.uses_entries(cpu)).for_each(|cpu| self.ledger.leave(closed, cpu));
    }

    fn uses_entries(&self, cpu: CpuId) -> bool {
        self.platform().cpu(cpu).uses_entries()
    }

    /// Enters `debts` translations that `cpus` may still use, and any CPU if `everywhere`, the first since `since`. The spaces' generations were raised
    /// before.
    pub(crate) fn enter(&self, cpus: &CpuSet, everywhere: bool, debts: u64, since: u64) -> Stamp {
        let platform = self.platform();
        let stamp = self
            .ledger
            .enter((cpus, everywhere), debts, (since, self.bounds.epoch()), |cpu| self.uses_entries(cpu));
        // Not in between: a tick counts here too.
        platform.interrupts_off(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            tally.debts_created.add(debts);
            if stamp == Stamp::SETTLED {
                tally.debts_by_switch.add(debts);
            }
        });
        stamp
    }

    /// Pays what is older than [`Bounds::max_age`] allows, if anything is. Interrupts must be on, as for
    /// [`Engine::pay`].
    pub fn pay_overdue(&self) {
        if self.is_overdue(self.platform().now()) {
            self.pay_all();
        }
    }

    /// Pays all that is owed when it is called: by one broadcast where the hardware has them, else by one round of interrupts
    /// to the CPUs that may still use any of it, or none if there are none. By a second one if so much is owed that the
    /// open epoch cannot be closed before the others are settled.
    ///
    /// Interrupts must be on, and no lock may be held that is held with interrupts off.
    pub fn pay_all(&self) {
        let last = self.ledger.last_owed();
        self.pay_while(|| !self.ledger.is_settled(last));
    }

    /// Pays in rounds while something `is_owed`.
    ///
    /// It ends: a round settles every epoch that was closed when the round began, so that the next round finds a free set
    /// and closes the epoch that was open. A batch that enters debts while their epoch is closed may put CPUs back into
    /// that epoch, and costs one round more; it then finds the epoch closed and goes to the next.
    fn pay_while(&self, is_owed: impl Fn() -> bool) {
        while is_owed() {
            self.pay_round();
        }
    }

    /// Closes the open epoch if a set is free for the next, and pays what is owed in closed ones.
    fn pay_round(&self) {
        self.platform().pinned(|| {
            self.ledger.close_all(self.platform().now());
            let closed = self.ledger.closed();
            if self.platform().capabilities().broadcast.is_some() {
                if !closed.is_empty() {
                    self.settle_everywhere(closed);
                    self.advance(By::Broadcast);
                }
                return;
            }
            let mut owing = CpuSet::new();
            self.ledger.collect(closed, &mut owing);
            let mut targets = owing.clone();
            // Brings up to date whatever each of them runs. Those that are skipped run nothing.
            let sent = self.flush_loaded(&mut targets);
            owing.iter().for_each(|cpu| self.ledger.leave(closed, cpu));
            self.advance(if sent { By::Interrupt } else { By::Local });
        });
    }

    /// Pays until the debts of `stamp` are settled.
    pub(crate) fn pay_to(&self, stamp: Stamp) {
        debug_assert!(self.ledger.knows(stamp), "{stamp:?} is none that a batch gave");
        self.pay_while(|| !self.is_settled(stamp));
    }

    /// Invalidates everything that this CPU holds of any program, as a change that concerns all translations requires. What
    /// the CPU owes is settled with it, but for what no CPU can settle alone.
    pub fn flush_here(&self) {
        self.on_this_cpu(|here| {
            let closed = self.ledger.closed();
            let loaded = here.own.loaded.as_ref().filter(|loaded| !loaded.global);
            let loaded = loaded.map(|loaded| (loaded.asid, loaded.space.as_ref().generation()));
            if let Some((asid, generation)) = loaded {
                // Read before the flush, so that the slot claims no more than was done.
                here.own.slots.reach(asid, generation);
            }
            self.platform().invalidate_all();
            here.cpu.tally.flushes_full.add(1);
            self.trace(Reason::LocalShootdown, None, SpaceId::NONE);
            if self.ledger.has(closed, here.id) {
                here.cpu.tally.flushes_free.add(1);
                self.ledger.leave(closed, here.id);
            }
        });
        self.advance(By::Local);
    }

    /// A CPU goes offline: what it owed concerns it no more.
    pub(crate) fn forgive(&self, cpu: CpuId) {
        self.ledger.leave_for_good(cpu);
        self.advance(By::Switch);
    }

    /// Settles the epochs that nobody has debts in any more, and counts what they were settled by.
    fn advance(&self, by: By) {
        let platform = self.platform();
        self.ledger.advance(|settled| {
            let age = platform.now().saturating_sub(settled.since);
            // Not in between: a tick counts here too.
            platform.interrupts_off(|| {
                let tally = &platform.cpu(platform.this_cpu()).tally;
                let count = match by {
                    By::Interrupt => &tally.debts_by_interrupt,
                    By::Broadcast => &tally.debts_by_broadcast,
                    By::Switch => &tally.debts_by_switch,
                    By::Tick => &tally.debts_by_tick,
                    By::Local => &tally.debts_by_local,
                };
                count.add(settled.debts);
                tally.debt_age_max_ns.at_least(age);
            });
        });
    }
}
