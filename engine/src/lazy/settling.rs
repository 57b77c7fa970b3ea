//! The end of lazy debts: events that settle them at no cost, and flushes that pay for them.
//!
//! A batch enters the debts that it need not pay at once in the [ledger](super::ledger). The CPUs that may still use
//! the old entries settle them by what they do anyway:
//!
//! - A CPU that switches, goes lazy or leaves the space uses none of the old entries any more. When it comes back, it
//!   finds the space's generation ahead of its own and flushes.
//! - A CPU that continues to run the space has a timer. At its tick it brings the space that it runs up to date, if it
//!   is behind.
//! - A CPU that idles has no tick. Other CPUs notice at their ticks that it uses no entries.
//!
//! The ledger changes only at ticks, so switches cost no more than without lazy debts. Two ticks after its epoch every
//! debt is settled, without an interrupt.
//!
//! No CPU can settle a debt in a space with a global ASID alone. The tick that finds such a debt makes the hardware
//! settle all debts that exist by then, with one broadcast of everything.
//!
//! An operation that cannot wait pays. It interrupts once, for all debts that exist at that moment. Where the hardware
//! broadcasts, it broadcasts instead, whatever the spaces, and interrupts no CPU. If a CPU that runs programs has no
//! ticks, the age of the debt makes another CPU pay: [`Engine::tick`] says when. (LATR, ASPLOS 2018, sweeps at ticks
//! too. LUF pays only on demand, which is [`Payment::Demand`].)

use super::bounds::{Bounds, Payment};
use super::ledger::Closed;
use crate::cpu::Asked;
use crate::cpu_set::{CpuId, CpuSet};
use crate::platform::{Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{AddressSpace, SpaceId, Stamp};
use crate::Engine;

/// What settles an epoch's debts: the event that removes the last CPU from it.
#[derive(Debug, Clone, Copy)]
enum By {
    Interrupt,
    Broadcast,
    Switch,
    Tick,
    Local,
}

impl<P: Platform> Engine<P> {
    /// The bounds of the engine's lazy debts.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether the debts of a stamp are settled: no CPU can reach what is owed for under it. Two loads and a
    /// comparison.
    pub fn is_settled(&self, stamp: Stamp) -> bool {
        !self.guarded(Guard::Stamp) || self.ledger.is_settled(stamp) // R1, R6, R7
    }

    /// The newest stamp whose debts are settled. All stamps up to it are settled too.
    pub fn settled_stamp(&self) -> Stamp {
        self.ledger.settled()
    }

    /// Whether some CPU may still use a translation of `space` that is gone, because a batch cleared it and has not
    /// flushed, or let its page go owing.
    ///
    /// Read it under the page-table lock under which the translations are examined: batches record under the same lock.
    pub fn owes(&self, space: &AddressSpace) -> bool {
        // In this order: a batch first publishes that it recorded, and enters its lazy debts before it closes its
        // account.
        space.has_unpaid()
            && (space.has_batches() || (space.owes_lazily() && !self.is_settled(space.stamp())))
    }

    /// Settles debts at this CPU's timer tick. The kernel calls it at each tick of each CPU, with interrupts off.
    ///
    /// It settles the debts of this CPU, for at most one flush of the space that the CPU runs. It also removes idle
    /// CPUs from the debts that they had.
    ///
    /// True if a debt is too old: code that may wait must then call [`Engine::pay_overdue`] soon.
    #[must_use = "a debt may be too old: code that may wait must call `pay_overdue`"]
    pub fn tick(&self) -> bool {
        if self.ledger.oldest().is_none() {
            return false;
        }
        let (now, bounds) = (self.platform().now(), self.bounds);
        self.ledger.close_after(bounds.epoch(), now);
        // Either order: an epoch that is closed after the sweep is swept at the next tick.
        if bounds.payment() == Payment::Free {
            let by = self.sweep();
            // Every CPU that runs a program has had a tick since these were closed. The CPUs that remain have none.
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

    /// Brings the space that this CPU runs up to date, if the CPU has debts, and removes it from the closed epochs.
    fn sweep(&self) -> By {
        self.on_this_cpu(|mut here| {
            let closed = self.ledger.closed();
            if !self.ledger.has(closed, here.id) {
                return By::Switch;
            }
            let mut by = By::Switch;
            let owes = match &here.own.loaded {
                // The CPU cannot settle debts under a global ASID, and kernel threads use no entry of the space.
                Some(loaded) => !loaded.global && !here.cpu.seen.is_lazy(),
                None => false,
            };
            let flushes = owes && self.guarded(Guard::Sweep); // R1
            if flushes && self.answer(&mut here, Asked::UP_TO_DATE, Reason::Tick) {
                here.cpu.tally.flushes_free.add(1);
                by = By::Tick;
            }
            // Not the epochs that are closed by now: one of them may have taken a debt after the flush.
            let done = if self.guarded(Guard::Leaving) { closed } else { self.ledger.closed() }; // R1
            self.ledger.leave(done, here.id);
            by
        })
    }

    /// Makes the hardware settle the debts that no CPU can settle alone, if there are any and no other CPU is doing so.
    fn sweep_everywhere(&self) -> bool {
        let broadcast = self.platform().capabilities().broadcast;
        if broadcast.is_some_and(|broadcast| broadcast.errata().everyone) {
            // It would wait for interrupts, with interrupts off and whatever locks the interrupted code holds. The age of
            // the debts makes code that may wait pay them.
            return false;
        }
        let closed = self.ledger.closed();
        let mine = self.ledger.begin_broadcast(closed);
        if mine {
            self.settle_everywhere(closed);
            self.ledger.end_broadcast();
        }
        mine
    }

    /// Makes every CPU invalidate everything, which settles all debts of `closed`.
    fn settle_everywhere(&self, closed: Closed) {
        self.flush_everywhere();
        self.ledger.leave_all(closed);
    }

    /// Removes the CPUs that use no old entries: idle ones, and those on the kernel's own tables. They catch up before
    /// they run a program again.
    fn excuse(&self, closed: Closed) {
        let mut cpus = CpuSet::new();
        self.ledger.collect(closed, &mut cpus);
        cpus.iter()
            .filter(|&cpu| !self.platform().cpu(cpu).uses_entries(|_| true))
            .for_each(|cpu| self.ledger.leave(closed, cpu));
    }

    /// Enters `debts` translations that CPUs may still use: those of `cpus` that run a space which it `concerns`, and any
    /// CPU if `everywhere`. The first was recorded at `since`. The spaces' generations were raised before.
    pub(crate) fn enter(
        &self,
        (cpus, everywhere): (&CpuSet, bool),
        concerns: impl Fn(SpaceId) -> bool,
        debts: u64,
        since: u64,
    ) -> Stamp {
        let platform = self.platform();
        let uses = |cpu| platform.cpu(cpu).uses_entries(&concerns);
        let stamp = self.ledger.enter((cpus, everywhere), debts, (since, self.bounds.epoch()), uses);
        // With interrupts off: a tick in between counts here too.
        platform.interrupts_off(|| {
            let tally = &platform.cpu(platform.this_cpu()).tally;
            tally.debts_created.add(debts);
            if stamp == Stamp::SETTLED {
                tally.debts_by_switch.add(debts);
            }
        });
        stamp
    }

    /// Pays if a debt is older than [`Bounds::max_age`] allows. Interrupts must be on, as for [`Engine::pay`].
    pub fn pay_overdue(&self) {
        if self.is_overdue(self.platform().now()) {
            self.pay_all();
        }
    }

    /// Pays all debts that exist when it is called. Where the hardware broadcasts, it makes one broadcast. Otherwise it
    /// sends one round of interrupts to the CPUs that may still use old entries, or none if there are no such CPUs. A
    /// second round is needed if there are so many debts that the open epoch cannot be closed before the others are
    /// settled.
    ///
    /// Interrupts must be on. The caller must hold no lock that is also held with interrupts off.
    pub fn pay_all(&self) {
        let last = self.ledger.last_owed();
        self.pay_while(|| !self.ledger.is_settled(last));
    }

    /// Pays in rounds while something `is_owed`.
    ///
    /// It ends. A round settles every epoch that was closed when the round began, so the next round finds a free set
    /// and closes the epoch that was open. A batch that enters debts while their epoch is closed may put CPUs back into
    /// that epoch, which costs one more round. It then finds the epoch closed and enters its debts in the next.
    fn pay_while(&self, is_owed: impl Fn() -> bool) {
        while is_owed() {
            self.pay_round();
        }
    }

    /// Closes the open epoch if a set is free for the next, and pays the debts of closed ones.
    fn pay_round(&self) {
        self.platform().pinned(|| {
            self.ledger.close_all(self.platform().now());
            // Either order: a round that reads the closed epochs first pays for this one in the next round.
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
            // Brings the space that each of them runs up to date. The CPUs that it skips run none.
            let sent = self.flush_loaded(&mut targets, |_| true);
            owing.iter().for_each(|cpu| self.ledger.leave(closed, cpu));
            self.advance(if sent { By::Interrupt } else { By::Local });
        });
    }

    /// Pays until the debts of `stamp` are settled.
    pub(crate) fn pay_to(&self, stamp: Stamp) {
        debug_assert!(self.ledger.knows(stamp), "{stamp:?} is none that a batch gave");
        // Such a stamp would never be settled. All debts that exist are paid for it.
        let stamp = if self.ledger.knows(stamp) { stamp } else { self.ledger.last_owed() };
        self.pay_while(|| !self.is_settled(stamp));
    }

    /// Invalidates all entries of programs that this CPU holds, for a change that concerns all translations. It also
    /// settles the CPU's debts, except those that no CPU can settle alone.
    pub fn flush_here(&self) {
        self.on_this_cpu(|here| {
            let closed = self.ledger.closed();
            let loaded = here.own.loaded.as_ref().filter(|loaded| !loaded.global);
            let loaded = loaded.map(|loaded| (loaded.asid, loaded.space.as_ref().generation()));
            if let Some((asid, generation)) = loaded {
                // Read before the flush, so the slot claims no more than was done.
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

    /// Removes a CPU that goes offline from all debts.
    pub(crate) fn forgive(&self, cpu: CpuId) {
        self.ledger.leave_for_good(cpu);
        self.advance(By::Switch);
    }

    /// Settles the epochs in which no CPU has debts any more, and counts by what they were settled.
    fn advance(&self, by: By) {
        let platform = self.platform();
        self.ledger.advance(|settled| {
            let age = platform.now().saturating_sub(settled.since);
            // With interrupts off: a tick in between counts here too.
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
