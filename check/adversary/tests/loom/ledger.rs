//! The ledger of lazy debts: a stamp is settled only after every CPU that owes has flushed.

use std::rc::Rc;

use ceasefire::cores::{self, Debts};
use ceasefire::{AddressSpace, CpuSet, Stamp};
use ceasefire_atomics::{AtomicU64, Ordering};
use loom::thread;

use crate::cpu;
use crate::explorer::{Model, Orders};

const SETTLED: &str = "a settled stamp was flushed by every CPU that owed";

/// CPUs 0 and 1, which run programs of a space.
struct Machine {
    space: AddressSpace,
    debts: Debts,
    /// The generation that each CPU has flushed.
    flushed: [AtomicU64; 2],
}

impl Machine {
    /// A machine in whose open epoch these CPUs have a debt already.
    fn new(cpus: &[usize]) -> Rc<Self> {
        let flushed = [const { AtomicU64::new(1) }; 2];
        let machine = Self { space: cores::space(0, None), debts: Debts::new(), flushed };
        let _ = machine.owe(cpus);
        Rc::new(machine)
    }

    fn flush(&self, me: usize) {
        self.flushed[me].store(self.space.generation().get(), Ordering::Relaxed);
    }

    /// A tick at which the open epoch is old enough to be closed, if it has debts.
    fn tick(&self, me: usize) {
        self.debts.close_after(1, 1);
        self.debts.sweep(cpu(me), || self.flush(me));
        self.debts.advance();
    }

    /// The same in the wrong order: the CPU leaves epochs that were closed after its flush.
    fn tick_too_early(&self, me: usize) {
        self.flush(me);
        self.tick_without_flush(me);
    }

    fn tick_without_flush(&self, me: usize) {
        self.debts.close_after(1, 1);
        self.debts.sweep(cpu(me), || ());
        self.debts.advance();
    }

    /// Clears a translation that CPUs hold, and releases the page in debt.
    fn owe(&self, cpus: &[usize]) -> (u64, Stamp) {
        let generation = cores::raise(&self.space).get();
        let cpus: CpuSet = cpus.iter().map(|&number| cpu(number)).collect();
        (generation, self.debts.enter(&cpus, (0, 10)))
    }

    /// Reuses the page if its stamp is settled.
    fn redeem(&self, cpus: &[usize], (generation, stamp): (u64, Stamp)) {
        assert_ne!(stamp, Stamp::SETTLED);
        if self.debts.is_settled(stamp) {
            for &cpu in cpus {
                let flushed = self.flushed[cpu].load(Ordering::Relaxed);
                assert!(flushed >= generation, "{SETTLED}");
            }
        }
    }
}

/// A CPU enters a debt of another, which ticks.
fn one_debt(tick: fn(&Machine)) {
    let machine = Machine::new(&[1]);
    let ticking = Rc::clone(&machine);
    let ticking = thread::spawn(move || tick(&ticking));
    let owed = machine.owe(&[1]);
    machine.redeem(&[1], owed);
    ticking.join().expect("it ticked");
    machine.redeem(&[1], owed);
}

const TICKS: Model = Model {
    name: "ledger: one debt and two ticks",
    threads: 2,
    bound: Some(3),
    locations: 24,
    body: || {
        one_debt(|machine| {
            machine.tick(1);
            machine.tick(1);
        });
    },
};

#[test]
fn a_stamp_is_settled_after_the_flush_of_the_cpu_that_owes() {
    TICKS.holds();
}

/// The CPU that enters the debt still reads its epoch as open, and the CPU that settles the epoch reads no debt in it.
#[test]
fn a_debt_is_entered_in_a_settled_epoch_without_sequential_consistency() {
    TICKS.breaks(Orders::AcquireRelease, SETTLED);
}

#[test]
fn a_cpu_that_leaves_epochs_closed_after_its_flush_settles_too_much() {
    let early = Model {
        name: "ledger: the epochs are read after the flush",
        body: || one_debt(|machine| machine.tick_too_early(1)),
        ..TICKS
    };
    early.breaks(Orders::Named, SETTLED);
}

/// A CPU enters a debt of both others, which tick at once.
fn two_cpus() {
    let machine = Machine::new(&[0, 1]);
    let ticking = [0, 1].map(|me| {
        let machine = Rc::clone(&machine);
        thread::spawn(move || machine.tick(me))
    });
    let owed = machine.owe(&[0, 1]);
    for ticked in ticking {
        ticked.join().expect("it ticked");
    }
    machine.redeem(&[0, 1], owed);
}

#[test]
fn a_stamp_is_settled_after_the_flush_of_both_cpus_that_owe() {
    Model { name: "ledger: two CPUs that owe", threads: 3, bound: Some(1), body: two_cpus, ..TICKS }.holds();
}

/// Two CPUs enter a debt each, and a third ticks for both.
fn two_debts() {
    let machine = Machine::new(&[1]);
    let entering = Rc::clone(&machine);
    let entering = thread::spawn(move || {
        let owed = entering.owe(&[1]);
        entering.redeem(&[1], owed);
        owed
    });
    let ticking = Rc::clone(&machine);
    let ticking = thread::spawn(move || ticking.tick(1));
    let owed = machine.owe(&[1]);
    machine.redeem(&[1], owed);
    let other = entering.join().expect("it entered");
    ticking.join().expect("it ticked");
    machine.redeem(&[1], owed);
    machine.redeem(&[1], other);
}

#[test]
fn two_debts_are_settled_after_one_flush_that_covers_both() {
    Model { name: "ledger: two debts and a tick", threads: 3, bound: Some(2), body: two_debts, ..TICKS }
        .holds();
}
