//! The ledger of lazy debts: the CPUs that may still use old translations, by epoch.
//!
//! Time is divided into epochs, numbered without end. A debt is entered in the open epoch. The CPUs that have the debt
//! join the epoch's set, and the debt's stamp is the epoch's number. No CPU joins an epoch once it is closed. So a CPU
//! that brings the space it runs up to date *after* that has done all of the epoch's debts at once, in whatever space,
//! and leaves the set. A closed epoch with an empty set is settled. Epochs are settled in order.
//!
//! A CPU that leaves epochs follows this order: read which epochs are closed, read the space's generation, flush up to
//! it, leave those epochs. A debt raises its space's generation before it is entered, and its epoch is still open after
//! it was entered. So the generation that the CPU read covers every debt of a closed epoch. A flush of one space says
//! nothing of another. But a CPU runs only one space. Its entries of other spaces, under its other ASIDs, are older
//! than those spaces' generations, so they are flushed before they can be used.
//!
//! A debt under a global ASID belongs to no CPU: entries that a CPU leaves behind are found current when it comes back.
//! Such a debt makes its epoch wait for a broadcast of everything. That broadcast also settles all other debts of the
//! closed epochs.
//!
//! No operation on the ledger blocks, so any of them may be delayed at any point. A value that names its epoch is
//! therefore trusted. Any other value is checked again (see [`epoch_set`](super::epoch_set)). There are [`EPOCHS`]
//! sets, whatever the machine does. While none is free, the open epoch stays open and takes more debts.

use super::epoch_set::EpochSet;
use crate::cpu_set::{CpuId, CpuSet};
use crate::primitive::{AtomicBool, AtomicU64, Ordering};
use crate::space::Stamp;

/// The largest number of epochs that are open or not settled yet. A power of two.
pub(crate) const EPOCHS: usize = 16;

/// The debts of one epoch.
#[derive(Debug)]
struct Epoch {
    /// The CPUs that have any.
    cpus: EpochSet,
    /// Whether the epoch has debts under global ASIDs, which no CPU can settle alone: twice the epoch's number, plus
    /// one if so.
    everywhere: AtomicU64,
    /// The time when the epoch was opened, or when the first of its debts was made, if that was earlier.
    opened: AtomicU64,
    /// The newest epoch that took debts here; it answers without a walk through the set. It is only raised, so a late
    /// writer does no harm.
    newest: AtomicU64,
    /// The number of translations owed for, for the counters.
    debts: AtomicU64,
}

impl Epoch {
    fn has_debts(&self, number: u64) -> bool {
        self.newest.load(Ordering::Relaxed) == number
    }

    fn needs_broadcast(&self, number: u64) -> bool {
        self.everywhere.load(Ordering::SeqCst) == number << 1 | 1
    }

    fn is_done(&self, number: u64) -> bool {
        self.cpus.is_empty(number) && !self.needs_broadcast(number)
    }
}

/// An epoch that was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The number of translations that were owed for.
    pub(crate) debts: u64,
    /// The earliest time at which one of them could have been entered.
    pub(crate) since: u64,
}

/// The ledger: all epochs.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The open epoch.
    open: AtomicU64,
    /// The last settled epoch; all before it are settled too.
    settled: AtomicU64,
    /// A CPU is about to make the hardware settle the closed epochs.
    broadcasting: AtomicBool,
    epochs: [Epoch; EPOCHS],
}

impl Ledger {
    pub(crate) const fn new() -> Self {
        // The const is a template for array elements, copied and never referred to.
        #[allow(clippy::declare_interior_mutable_const)]
        const ZERO: AtomicU64 = AtomicU64::new(0);
        #[allow(clippy::declare_interior_mutable_const)]
        const EMPTY: Epoch =
            Epoch { cpus: EpochSet::new(), everywhere: ZERO, opened: ZERO, newest: ZERO, debts: ZERO };
        // It lies in the engine, which a kernel keeps in a static.
        #[allow(clippy::large_stack_arrays)]
        Self {
            open: AtomicU64::new(1),
            settled: AtomicU64::new(0),
            broadcasting: AtomicBool::new(false),
            epochs: [EMPTY; EPOCHS],
        }
    }

    fn epoch(&self, number: u64) -> &Epoch {
        &self.epochs[number as usize % EPOCHS]
    }

    /// Whether the debts of a stamp are settled.
    pub(crate) fn is_settled(&self, stamp: Stamp) -> bool {
        stamp.get() <= self.settled.load(Ordering::Acquire)
    }

    /// The newest stamp whose debts are settled.
    pub(crate) fn settled(&self) -> Stamp {
        Stamp::new(self.settled.load(Ordering::Acquire))
    }

    /// Whether debts can have been entered under a stamp.
    pub(crate) fn knows(&self, stamp: Stamp) -> bool {
        stamp.get() <= self.open.load(Ordering::Relaxed)
    }

    /// Enters debts, and returns the stamp until which they stand. They are the debts of the `cpus` that are
    /// `concerned`, and of any CPU if `everywhere`.
    ///
    /// The spaces' generations were raised before. An epoch takes debts for `length`; `now` is the time when the first
    /// of these debts was made.
    pub(crate) fn enter(
        &self,
        (cpus, everywhere): (&CpuSet, bool),
        debts: u64,
        (now, length): (u64, u64),
        concerned: impl Fn(CpuId) -> bool,
    ) -> Stamp {
        loop {
            let number = self.open.load(Ordering::Relaxed);
            let epoch = self.epoch(number);
            if now.saturating_sub(epoch.opened.load(Ordering::Relaxed)) >= length && self.close(number, now) {
                continue;
            }
            if everywhere {
                epoch.everywhere.fetch_max(number << 1 | 1, Ordering::SeqCst);
            }
            let mut anyone = everywhere;
            for cpu in cpus.iter() {
                // Most debts find their CPUs in the set already. Looking is cheaper than joining, and than asking the
                // CPU.
                anyone |= epoch.cpus.contains(number, cpu)
                    || (concerned(cpu) && epoch.cpus.insert(number, cpu, || self.is_open(number)));
            }
            if anyone && !epoch.has_debts(number) {
                epoch.newest.fetch_max(number, Ordering::Relaxed);
            }
            // If the epoch was closed meanwhile, a CPU may have left it before it joined: the debt belongs to the next
            // epoch. The CPUs added to the old one cause at most a needless flush.
            if self.is_open(number) {
                if !anyone {
                    return Stamp::SETTLED;
                }
                if now < epoch.opened.load(Ordering::Relaxed) {
                    epoch.opened.fetch_min(now, Ordering::Relaxed);
                }
                epoch.debts.fetch_add(debts, Ordering::Relaxed);
                return Stamp::new(number);
            }
        }
    }

    fn is_open(&self, number: u64) -> bool {
        self.open.load(Ordering::SeqCst) == number
    }

    /// Closes epoch `number` if it is open and the next one's set is free. True if it is closed now.
    fn close(&self, number: u64, now: u64) -> bool {
        let next = number + 1;
        self.pass_unused();
        if next > self.settled.load(Ordering::Relaxed) + EPOCHS as u64 {
            return false;
        }
        // Raised, not set: a CPU that is delayed here and carries an old time changes nothing.
        self.epoch(next).opened.fetch_max(now, Ordering::Relaxed);
        match self.open.compare_exchange(number, next, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => true,
            Err(open) => open > number,
        }
    }

    /// Closes the open epoch if it has debts and is `length` old.
    pub(crate) fn close_after(&self, length: u64, now: u64) {
        let number = self.open.load(Ordering::Relaxed);
        let epoch = self.epoch(number);
        if now.saturating_sub(epoch.opened.load(Ordering::Relaxed)) >= length && epoch.has_debts(number) {
            self.close(number, now);
        }
    }

    /// The closed epochs that are not settled.
    pub(crate) fn closed(&self) -> Closed {
        // In this order: epochs that are closed now, before the caller reads any set or generation.
        let open = self.open.load(Ordering::Acquire);
        Closed { first: self.settled.load(Ordering::Relaxed) + 1, end: open }
    }

    /// Whether a CPU has debts in any of `closed`.
    pub(crate) fn has(&self, closed: Closed, cpu: CpuId) -> bool {
        closed.numbers().any(|number| self.epoch(number).cpus.contains(number, cpu))
    }

    /// Removes a CPU from `closed`: it has done all their debts, or can use none of the old entries.
    pub(crate) fn leave(&self, closed: Closed, cpu: CpuId) {
        for number in closed.numbers() {
            self.epoch(number).cpus.remove(number, cpu);
        }
    }

    /// Removes a CPU that goes offline from closed epochs and the open one, since it uses nothing that it owed. Another
    /// CPU that saw it run may enter a debt for it at this moment. Ticks of other CPUs remove it then, as they do an
    /// idle CPU.
    pub(crate) fn leave_for_good(&self, cpu: CpuId) {
        let Closed { first, end } = self.closed();
        self.leave(Closed { first, end: end + 1 }, cpu);
    }

    /// Removes all debts of `closed`, which the hardware settled on every CPU.
    pub(crate) fn leave_all(&self, closed: Closed) {
        for number in closed.numbers() {
            let Epoch { cpus, everywhere, .. } = self.epoch(number);
            cpus.clear(number);
            let needed = number << 1 | 1;
            let _ = everywhere.compare_exchange(needed, needed - 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Whether the caller must broadcast: `closed` has debts that only a broadcast settles, and no other CPU is about
    /// to. If so, the caller is responsible until [`Ledger::end_broadcast`].
    pub(crate) fn begin_broadcast(&self, closed: Closed) -> bool {
        closed.numbers().any(|number| self.epoch(number).needs_broadcast(number))
            && !self.broadcasting.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn end_broadcast(&self) {
        self.broadcasting.store(false, Ordering::Relaxed);
    }

    /// Adds the CPUs that have debts in any of `closed` to `cpus`.
    pub(crate) fn collect(&self, closed: Closed, cpus: &mut CpuSet) {
        closed.numbers().for_each(|number| self.epoch(number).cpus.collect(number, cpus));
    }

    /// The epochs of `closed` that were closed at least `wait` ago.
    pub(crate) fn closed_for(&self, closed: Closed, wait: u64, now: u64) -> Closed {
        // An epoch was closed when the next one was opened.
        let long =
            |&number: &u64| now.saturating_sub(self.epoch(number + 1).opened.load(Ordering::Relaxed)) >= wait;
        Closed { end: closed.first + closed.numbers().take_while(long).count() as u64, ..closed }
    }

    /// The time since which the oldest debts stand, if there are any.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let Closed { first, end } = self.closed();
        let oldest = (first..=end).find(|&number| self.epoch(number).has_debts(number))?;
        Some(self.epoch(oldest).opened.load(Ordering::Relaxed))
    }

    /// Settles the epochs in which no CPU has debts any more, oldest first. It passes those that had any to `account`.
    pub(crate) fn advance(&self, mut account: impl FnMut(Ended)) {
        while let Some((number, since)) = self.first_done() {
            if self.settle(number) {
                // From here on the set may be used again. A debt entered late counts there, and is not lost.
                let debts = self.epoch(number).debts.swap(0, Ordering::Relaxed);
                if debts > 0 {
                    account(Ended { debts, since });
                }
            }
        }
    }

    /// Settles the oldest epochs that never had debts, so their sets can be used again.
    fn pass_unused(&self) {
        while let Some((number, _)) = self.first_done() {
            if self.epoch(number).has_debts(number) {
                return;
            }
            self.settle(number);
        }
    }

    /// The oldest closed epoch, if it is done and not settled, and the time since which it took debts.
    fn first_done(&self) -> Option<(u64, u64)> {
        let Closed { first, end } = self.closed();
        let epoch = self.epoch(first);
        let since = epoch.opened.load(Ordering::Relaxed);
        (first < end && epoch.is_done(first)).then_some((first, since))
    }

    fn settle(&self, number: u64) -> bool {
        self.settled.compare_exchange(number - 1, number, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The stamp of the newest debts entered by now: once it is settled, so are all of them.
    pub(crate) fn last_owed(&self) -> Stamp {
        let open = self.open.load(Ordering::Relaxed);
        // A debt that is entered has raised `newest` before.
        Stamp::new(if self.epoch(open).has_debts(open) { open } else { open - 1 })
    }

    /// Closes the open epoch, so all debts are in closed ones. Does nothing if no set is free.
    pub(crate) fn close_all(&self, now: u64) {
        let number = self.open.load(Ordering::Relaxed);
        if self.epoch(number).has_debts(number) {
            self.close(number, now);
        }
    }
}

/// A run of neighbouring closed epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    first: u64,
    end: u64,
}

impl Closed {
    fn numbers(self) -> core::ops::Range<u64> {
        self.first..self.end
    }

    pub(crate) fn is_empty(self) -> bool {
        self.first >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(number: usize) -> CpuId {
        CpuId::new(number).expect("in range")
    }

    fn cpus(numbers: &[usize]) -> CpuSet {
        numbers.iter().map(|&number| cpu(number)).collect()
    }

    /// Enters a debt of CPU 0 and another CPU, in epochs of length 10.
    fn enter(ledger: &Ledger, other: usize, now: u64) -> Stamp {
        ledger.enter((&cpus(&[0, other]), false), 1, (now, 10), |_| true)
    }

    fn advance(ledger: &Ledger) -> u64 {
        let mut debts = 0;
        ledger.advance(|settled| debts += settled.debts);
        debts
    }

    #[test]
    fn debts_of_one_time_share_a_stamp_and_are_settled_together() {
        let ledger = Ledger::new();
        let first = enter(&ledger, 1, 12);
        assert_eq!(enter(&ledger, 2, 15), first);
        let second = enter(&ledger, 3, 30);
        assert!(second > first);
        assert_eq!((ledger.is_settled(first), ledger.oldest()), (false, Some(12)));
        let closed = ledger.closed();
        for number in 0..3 {
            assert_eq!(advance(&ledger), 0);
            ledger.leave(closed, cpu(number));
        }
        assert_eq!(advance(&ledger), 2);
        assert_eq!((ledger.is_settled(first), ledger.is_settled(second)), (true, false));
        assert_eq!(ledger.oldest(), Some(30));
    }

    #[test]
    fn a_cpu_that_flushed_before_an_epoch_was_closed_stays_in_it() {
        let ledger = Ledger::new();
        let stamp = enter(&ledger, 1, 12);
        let before = ledger.closed();
        ledger.close_after(10, 22);
        ledger.leave(before, cpu(0));
        ledger.leave(ledger.closed(), cpu(1));
        assert_eq!(advance(&ledger), 0);
        assert!(!ledger.is_settled(stamp));
        ledger.leave(ledger.closed(), cpu(0));
        assert_eq!(advance(&ledger), 1);
    }

    #[test]
    fn a_debt_that_no_cpu_can_settle_waits_for_a_broadcast_by_one_cpu() {
        let ledger = Ledger::new();
        let stamp = ledger.enter((&cpus(&[]), true), 3, (12, 10), |_| true);
        let alone = ledger.enter((&cpus(&[1]), false), 1, (30, 10), |_| true);
        let early = ledger.closed();
        assert!(!ledger.begin_broadcast(Closed { end: early.first, ..early }), "nothing is closed there");
        assert!(ledger.begin_broadcast(early) && !ledger.begin_broadcast(early), "one is at it");
        assert_eq!(advance(&ledger), 0);
        ledger.leave_all(early);
        ledger.end_broadcast();
        assert_eq!(advance(&ledger), 3);
        assert_eq!((ledger.is_settled(stamp), ledger.is_settled(alone)), (true, false));
        ledger.close_all(50);
        assert!(!ledger.begin_broadcast(ledger.closed()), "its CPU settles the other");
        ledger.leave_all(ledger.closed());
        assert_eq!(advance(&ledger), 1);
    }

    /// A CPU that enters a debt late, in an epoch that was settled meanwhile, changes nothing in the epoch that now
    /// uses its set.
    #[test]
    fn a_set_that_is_used_again_waits_for_its_own_broadcast_alone() {
        let epoch = Epoch {
            cpus: EpochSet::new(),
            everywhere: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            debts: AtomicU64::new(0),
        };
        let enter = |number: u64| epoch.everywhere.fetch_max(number << 1 | 1, Ordering::SeqCst);
        enter(3);
        assert!(epoch.needs_broadcast(3) && !epoch.needs_broadcast(19));
        enter(19);
        enter(3);
        assert!(epoch.needs_broadcast(19) && !epoch.needs_broadcast(3));
    }

    #[test]
    fn a_cpu_broadcasts_again_after_the_last_broadcast_has_ended() {
        let ledger = Ledger::new();
        for time in 1..4 {
            let stamp = ledger.enter((&cpus(&[]), true), 1, (time * 20, 10), |_| true);
            ledger.close_all(time * 20 + 10);
            let closed = ledger.closed();
            assert!(ledger.begin_broadcast(closed), "{time}");
            ledger.leave_all(closed);
            ledger.end_broadcast();
            assert_eq!((advance(&ledger), ledger.settled()), (1, stamp));
        }
    }

    #[test]
    fn only_cpus_with_debts_are_in_closed_epochs_and_only_debts_are_accounted() {
        let ledger = Ledger::new();
        assert!(ledger.closed().is_empty());
        let stamp = enter(&ledger, 1, 12);
        assert!(
            !ledger.closed().is_empty() && !ledger.has(ledger.closed(), cpu(1)),
            "the first was never used"
        );
        ledger.advance(|_| unreachable!("no debt is settled"));
        assert!(ledger.closed().is_empty());
        assert!(ledger.knows(stamp) && !ledger.knows(Stamp::new(stamp.get() + 1)));
        ledger.close_all(22);
        let closed = ledger.closed();
        assert!(!closed.is_empty() && ledger.has(closed, cpu(1)) && !ledger.has(closed, cpu(2)));
        for number in 0..2 {
            ledger.leave(closed, cpu(number));
        }
        let mut accounts = 0;
        ledger.advance(|ended| {
            assert_eq!((ended.debts, ended.since), (1, 12));
            accounts += 1;
        });
        assert_eq!((accounts, ledger.settled()), (1, stamp));
    }

    #[test]
    fn a_cpu_that_goes_offline_leaves_the_open_epoch_too() {
        let ledger = Ledger::new();
        enter(&ledger, 1, 12);
        ledger.leave_for_good(cpu(1));
        ledger.close_all(22);
        assert!(!ledger.has(ledger.closed(), cpu(1)) && ledger.has(ledger.closed(), cpu(0)));
    }

    #[test]
    fn an_epoch_is_as_old_as_its_oldest_debt() {
        let ledger = Ledger::new();
        for (now, oldest) in [(15, 15), (12, 12), (14, 12)] {
            enter(&ledger, 1, now);
            assert_eq!(ledger.oldest(), Some(oldest));
        }
    }

    #[test]
    fn a_debt_whose_epoch_is_closed_while_it_is_entered_belongs_to_the_next() {
        let ledger = Ledger::new();
        let first = enter(&ledger, 1, 12);
        let mut closed = core::cell::Cell::new(false);
        let stamp = ledger.enter((&cpus(&[2]), false), 1, (15, 10), |_| {
            if !closed.replace(true) {
                ledger.close_all(22);
            }
            true
        });
        assert!(*closed.get_mut() && stamp > first);
        ledger.leave_all(ledger.closed());
        assert_eq!(advance(&ledger), 1);
        assert!(ledger.is_settled(first) && !ledger.is_settled(stamp));
    }

    #[test]
    fn a_debt_that_concerns_no_cpu_is_settled() {
        let ledger = Ledger::new();
        assert_eq!(ledger.enter((&cpus(&[1, 2]), false), 5, (12, 10), |_| false), Stamp::SETTLED);
        assert_eq!(ledger.enter((&cpus(&[]), false), 5, (12, 10), |_| true), Stamp::SETTLED);
        assert_eq!(ledger.oldest(), None);
    }

    /// A CPU that pays is delayed between the answers to its interrupts and the ledger, while all else continues.
    #[test]
    fn a_cpu_that_leaves_late_stays_in_a_newer_epoch_with_the_same_set() {
        let ledger = Ledger::new();
        let leave_all = |closed| (0..2).for_each(|number| ledger.leave(closed, cpu(number)));
        let first = enter(&ledger, 1, 12);
        ledger.close_all(22);
        let late = ledger.closed();
        let mut newest = Stamp::SETTLED;
        for time in 3..3 + EPOCHS as u64 {
            leave_all(ledger.closed());
            advance(&ledger);
            newest = enter(&ledger, 1, time * 10);
        }
        assert_eq!(newest.get(), first.get() + EPOCHS as u64);
        leave_all(ledger.closed());
        ledger.close_all(1000);
        leave_all(late);
        advance(&ledger);
        assert!(!ledger.is_settled(newest));
    }

    #[test]
    fn when_no_set_is_free_the_open_epoch_takes_more() {
        let ledger = Ledger::new();
        // The first epoch is old by then, and never used.
        let stamps: [Stamp; 40] = core::array::from_fn(|time| enter(&ledger, 1, (time as u64 + 1) * 10));
        assert_eq!(stamps[EPOCHS - 1], stamps[39]);
        assert!(stamps[..EPOCHS].windows(2).all(|pair| pair[0] < pair[1]));
        // One epoch is settled, so one more can be opened.
        ledger.leave(ledger.closed(), cpu(0));
        ledger.leave(ledger.closed(), cpu(1));
        assert_eq!(advance(&ledger), EPOCHS as u64 - 1);
        assert!(enter(&ledger, 1, 500) > stamps[39]);
        assert!(!ledger.is_settled(stamps[39]));
    }

    #[test]
    fn epochs_are_settled_in_order() {
        let ledger = Ledger::new();
        let old = ledger.enter((&cpus(&[1]), false), 1, (12, 10), |_| true);
        let new = ledger.enter((&cpus(&[2]), false), 1, (30, 10), |_| true);
        ledger.close_all(31);
        ledger.leave(ledger.closed(), cpu(2));
        assert_eq!(advance(&ledger), 0);
        assert!(!ledger.is_settled(new), "the older one is not");
        ledger.leave(ledger.closed(), cpu(1));
        assert_eq!(advance(&ledger), 2);
        assert!(ledger.is_settled(old) && ledger.is_settled(new));
    }

    #[test]
    fn an_epoch_knows_how_long_it_has_been_closed() {
        let ledger = Ledger::new();
        enter(&ledger, 1, 12);
        enter(&ledger, 1, 40);
        ledger.close_all(60);
        let closed = ledger.closed();
        let count = |wait, now| ledger.closed_for(closed, wait, now).numbers().count();
        assert_eq!((count(10, 49), count(10, 50), count(10, 69), count(10, 70)), (0, 1, 1, 2));
    }
}
