//! The machine's book of lazy debts: which CPUs may still use what was taken away when.
//!
//! Time is divided into epochs, numbered without end. A debt is entered in the epoch that is open: the CPUs that have it
//! join the epoch's set, and the debt's stamp is the epoch's number. Once an epoch is closed nobody joins it any more, so
//! a CPU that brings what it runs up to date *after* that has done all of the epoch's debts at once, whosever they are,
//! and leaves the set. An epoch whose set is empty is settled; epochs are settled in order.
//!
//! What a flush may claim follows from the order of its steps: read which epochs are closed, then read the space's
//! generation, then flush up to it, then leave those epochs. A debt raises its space's generation before it is entered,
//! and is entered in an epoch that is still open afterwards. A flush of one space says nothing of another, but a CPU runs
//! one space, and entries of the others under its other ASIDs are older than their spaces' generations: they go before
//! they can be used.
//!
//! Under a global ASID a CPU can do nothing of the kind: what it leaves behind is still there when it comes back, and found
//! current. Such debts are not any CPU's; they make the epoch wait for a broadcast of everything, which settles all others
//! of the closed epochs with them.
//!
//! Nobody waits for anybody here, so anyone may be late by any time: what names its epoch is believed, what does not is
//! looked at again (see [`epoch_set`](crate::epoch_set)). [`EPOCHS`] sets are all there is, whatever the machine does: when none is free, the open epoch stays open, and takes
//! more.

use super::epoch_set::EpochSet;
use crate::cpu_set::{CpuId, CpuSet};
use crate::primitive::{AtomicBool, AtomicU64, Ordering};
use crate::space::Stamp;

/// Epochs that are open or not settled yet, at most. A power of two.
pub(crate) const EPOCHS: usize = 16;

/// The debts of some time.
#[derive(Debug)]
struct Epoch {
    /// The CPUs that have any.
    cpus: EpochSet,
    /// Whether CPUs may have debts of it that they cannot do themselves, under global ASIDs: twice its number, and one more
    /// if so.
    everywhere: AtomicU64,
    /// When it was opened, or when the first of its debts was made if that was before.
    opened: AtomicU64,
    /// The newest that took any: to know without going through the set. Raised alone, so nobody is too late for it.
    newest: AtomicU64,
    /// How many translations are owed for, for the counters.
    debts: AtomicU64,
}

impl Epoch {
    fn has_debts(&self, number: u64) -> bool {
        self.newest.load(Ordering::SeqCst) == number
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
    /// How many translations were owed for.
    pub(crate) debts: u64,
    /// When the first of them could have been entered.
    pub(crate) since: u64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The open epoch.
    open: AtomicU64,
    /// The last that is settled, as all before it.
    settled: AtomicU64,
    /// A CPU is about to have the hardware settle what it can.
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
        // In the engine, which a kernel keeps in a static.
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
        stamp.get() <= self.settled.load(Ordering::SeqCst)
    }

    /// The newest stamp whose debts are settled.
    pub(crate) fn settled(&self) -> Stamp {
        Stamp::new(self.settled.load(Ordering::SeqCst))
    }

    /// Whether debts were ever entered under a stamp.
    pub(crate) fn knows(&self, stamp: Stamp) -> bool {
        stamp.get() <= self.open.load(Ordering::SeqCst)
    }

    /// Enters debts that `cpus` have, as far as they are `concerned`, or that CPUs may have `everywhere`, and says until when
    /// they stand.
    ///
    /// The spaces' generations were raised before. Epochs take debts for `length`; `now` is when the first of these was
    /// made.
    pub(crate) fn enter(
        &self,
        (cpus, everywhere): (&CpuSet, bool),
        debts: u64,
        (now, length): (u64, u64),
        concerned: impl Fn(CpuId) -> bool,
    ) -> Stamp {
        loop {
            let number = self.open.load(Ordering::SeqCst);
            let epoch = self.epoch(number);
            if now.saturating_sub(epoch.opened.load(Ordering::SeqCst)) >= length && self.close(number, now) {
                continue;
            }
            if everywhere {
                epoch.everywhere.fetch_max(number << 1 | 1, Ordering::SeqCst);
            }
            let mut anyone = everywhere;
            for cpu in cpus.iter() {
                // Most debts find their CPUs there already: looking is cheaper than joining, and than asking the CPU.
                anyone |= epoch.cpus.contains(number, cpu)
                    || (concerned(cpu) && epoch.cpus.insert(number, cpu, || self.is_open(number)));
            }
            if anyone && !epoch.has_debts(number) {
                epoch.newest.fetch_max(number, Ordering::SeqCst);
            }
            // Closed meanwhile, a CPU may have left it before it joined: the debt belongs to the next. What was added to
            // the old one makes somebody flush who need not.
            if self.is_open(number) {
                if !anyone {
                    return Stamp::SETTLED;
                }
                if now < epoch.opened.load(Ordering::SeqCst) {
                    epoch.opened.fetch_min(now, Ordering::SeqCst);
                }
                epoch.debts.fetch_add(debts, Ordering::SeqCst);
                return Stamp::new(number);
            }
        }
    }

    fn is_open(&self, number: u64) -> bool {
        self.open.load(Ordering::SeqCst) == number
    }

    /// Closes epoch `number`, if it is open and the next one's set is free; whether it is closed now.
    fn close(&self, number: u64, now: u64) -> bool {
        let next = number + 1;
        self.pass_unused();
        if next > self.settled.load(Ordering::SeqCst) + EPOCHS as u64 {
            return false;
        }
        // Not set but raised: who comes late, with the time of long ago, changes nothing.
        self.epoch(next).opened.fetch_max(now, Ordering::SeqCst);
        match self.open.compare_exchange(number, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => true,
            Err(open) => open > number,
        }
    }

    /// Closes the open epoch if it has debts and is `length` old.
    pub(crate) fn close_after(&self, length: u64, now: u64) {
        let number = self.open.load(Ordering::SeqCst);
        let epoch = self.epoch(number);
        if now.saturating_sub(epoch.opened.load(Ordering::SeqCst)) >= length && epoch.has_debts(number) {
            self.close(number, now);
        }
    }

    /// The closed epochs that are not settled.
    pub(crate) fn closed(&self) -> Closed {
        // In this order: what is closed by now, before the caller looks at any generation.
        let open = self.open.load(Ordering::SeqCst);
        Closed { first: self.settled.load(Ordering::SeqCst) + 1, end: open }
    }

    /// Whether a CPU has debts in any of `closed`.
    pub(crate) fn has(&self, closed: Closed, cpu: CpuId) -> bool {
        closed.numbers().any(|number| self.epoch(number).cpus.contains(number, cpu))
    }

    /// A CPU has done all debts of `closed`, or can use none of what they are for.
    pub(crate) fn leave(&self, closed: Closed, cpu: CpuId) {
        for number in closed.numbers() {
            self.epoch(number).cpus.remove(number, cpu);
        }
    }

    /// A CPU goes offline and uses nothing of what it owes, in closed epochs and in the open one. Debts that are entered for it
    /// at this moment by a CPU that saw it run are found by the others, as those of an idle CPU.
    pub(crate) fn leave_for_good(&self, cpu: CpuId) {
        let Closed { first, end } = self.closed();
        self.leave(Closed { first, end: end + 1 }, cpu);
    }

    /// All debts of `closed` were done on every CPU, by the hardware.
    pub(crate) fn leave_all(&self, closed: Closed) {
        for number in closed.numbers() {
            let Epoch { cpus, everywhere, .. } = self.epoch(number);
            cpus.clear(number);
            let needed = number << 1 | 1;
            let _ = everywhere.compare_exchange(needed, needed - 1, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Whether there are debts in `closed` that only a broadcast settles, and nobody is about to: the caller is from here on,
    /// until [`Ledger::end_broadcast`].
    pub(crate) fn begin_broadcast(&self, closed: Closed) -> bool {
        closed.numbers().any(|number| self.epoch(number).needs_broadcast(number))
            && !self.broadcasting.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_broadcast(&self) {
        self.broadcasting.store(false, Ordering::SeqCst);
    }

    /// Adds the CPUs that have debts in any of `closed`.
    pub(crate) fn collect(&self, closed: Closed, cpus: &mut CpuSet) {
        closed.numbers().for_each(|number| self.epoch(number).cpus.collect(number, cpus));
    }

    /// Those of `closed` that were closed at least `wait` ago.
    pub(crate) fn closed_for(&self, closed: Closed, wait: u64, now: u64) -> Closed {
        // An epoch was closed when the next one was opened.
        let long =
            |&number: &u64| now.saturating_sub(self.epoch(number + 1).opened.load(Ordering::SeqCst)) >= wait;
        Closed { end: closed.first + closed.numbers().take_while(long).count() as u64, ..closed }
    }

    /// Since when the oldest debts stand, if there are any.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let Closed { first, end } = self.closed();
        let oldest = (first..=end).find(|&number| self.epoch(number).has_debts(number))?;
        Some(self.epoch(oldest).opened.load(Ordering::SeqCst))
    }

    /// Settles the epochs that no CPU has debts in any more, oldest first, and hands those that had any to `account`.
    pub(crate) fn advance(&self, mut account: impl FnMut(Ended)) {
        while let Some((number, since)) = self.first_done() {
            if self.settle(number) {
                // From here on the set may be used again: a debt entered late counts there, and is not lost.
                let debts = self.epoch(number).debts.swap(0, Ordering::SeqCst);
                if debts > 0 {
                    account(Ended { debts, since });
                }
            }
        }
    }

    /// Settles the oldest epochs as far as they never had debts, so that their sets can be used again.
    fn pass_unused(&self) {
        while let Some((number, _)) = self.first_done() {
            if self.epoch(number).has_debts(number) {
                return;
            }
            self.settle(number);
        }
    }

    /// The oldest closed epoch that is not settled, if nobody has debts in it any more, and since when it took any.
    fn first_done(&self) -> Option<(u64, u64)> {
        let Closed { first, end } = self.closed();
        let epoch = self.epoch(first);
        let since = epoch.opened.load(Ordering::SeqCst);
        (first < end && epoch.is_done(first)).then_some((first, since))
    }

    fn settle(&self, number: u64) -> bool {
        self.settled.compare_exchange(number - 1, number, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The stamp under which the newest debts stand that were entered by now: once it is settled none of them is left.
    pub(crate) fn last_owed(&self) -> Stamp {
        let open = self.open.load(Ordering::SeqCst);
        // Debts that are entered have raised `newest` before.
        Stamp::new(if self.epoch(open).has_debts(open) { open } else { open - 1 })
    }

    /// Closes the open epoch, so that all debts are in closed ones. Not if none of the sets is free.
    pub(crate) fn close_all(&self, now: u64) {
        let number = self.open.load(Ordering::SeqCst);
        if self.epoch(number).has_debts(number) {
            self.close(number, now);
        }
    }
}

/// Neighbouring closed epochs.
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

    /// Enters a debt of CPU 0 and another, in epochs of 10.
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
    fn whoever_flushed_before_an_epoch_was_closed_stays_in_it() {
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
    fn what_no_cpu_can_settle_waits_for_a_broadcast_that_one_of_them_begins() {
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

    /// Whoever enters a debt late, in an epoch that was settled meanwhile, changes nothing in the one that has its set now.
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
    fn a_debt_that_concerns_nobody_is_settled() {
        let ledger = Ledger::new();
        assert_eq!(ledger.enter((&cpus(&[1, 2]), false), 5, (12, 10), |_| false), Stamp::SETTLED);
        assert_eq!(ledger.enter((&cpus(&[]), false), 5, (12, 10), |_| true), Stamp::SETTLED);
        assert_eq!(ledger.oldest(), None);
    }

    /// A CPU that pays is held up between the answers to its interrupts and the ledger, while everything goes on.
    #[test]
    fn whoever_leaves_late_leaves_no_newer_epoch_that_has_the_same_set() {
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
        // One is settled, so one more can be opened.
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
    fn how_long_an_epoch_has_been_closed_is_known() {
        let ledger = Ledger::new();
        enter(&ledger, 1, 12);
        enter(&ledger, 1, 40);
        ledger.close_all(60);
        let closed = ledger.closed();
        let count = |wait, now| ledger.closed_for(closed, wait, now).numbers().count();
        assert_eq!((count(10, 49), count(10, 50), count(10, 69), count(10, 70)), (0, 1, 1, 2));
    }
}
