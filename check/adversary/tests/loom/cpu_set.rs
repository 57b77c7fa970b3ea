//! The set of CPUs that a space's flushes look at, and the senders in an inbox.

use std::rc::Rc;

use ceasefire::cores::{self, drain, join};
use ceasefire::{AtomicCpuSet, CpuSet, Generation};
use loom::thread;

use crate::cpu;
use crate::explorer::{Model, Orders};

const JOINS: &str = "a CPU reads the raised generation, or the flush sees it in the set";

/// Two CPUs join a space's set and read its generation. A flush raises the generation and reads the set.
fn join_against_flush() {
    let space = Rc::new(cores::space(0, None));
    let joining = [1, 2].map(|number| {
        let space = Rc::clone(&space);
        thread::spawn(move || {
            join(space.cpus(), cpu(number));
            space.generation()
        })
    });
    let raised = cores::raise(&space);
    let mut found = CpuSet::new();
    found.unite(space.cpus());
    for (number, joined) in [1, 2].into_iter().zip(joining) {
        let read: Generation = joined.join().expect("it joined");
        assert!(read >= raised || found.contains(cpu(number)), "{JOINS}");
    }
}

const JOIN: Model = Model {
    name: "CPU set: join and flush",
    threads: 3,
    bound: Some(3),
    locations: 5,
    body: join_against_flush,
};

#[test]
fn a_flush_sees_a_cpu_that_does_not_see_the_flush() {
    JOIN.holds();
}

/// Both threads store and then read what the other stores.
#[test]
fn a_flush_misses_a_cpu_if_neither_is_sequentially_consistent() {
    JOIN.breaks(Orders::AcquireRelease, JOINS);
}

const DRAINS: &str = "each CPU that joined is taken once";

/// Two CPUs join a set that another one empties. The set had a member before, so its summary is set.
fn drain_against_join() {
    let set = Rc::new(AtomicCpuSet::new());
    join(&set, cpu(0));
    let joining = [1, 2].map(|number| {
        let set = Rc::clone(&set);
        thread::spawn(move || join(&set, cpu(number)))
    });
    let mut taken = [0; 3];
    drain(&set, |cpu| taken[cpu.index()] += 1);
    for joined in joining {
        joined.join().expect("it joined");
    }
    drain(&set, |cpu| taken[cpu.index()] += 1);
    assert_eq!(taken, [1; 3], "{DRAINS}");
}

const DRAIN: Model = Model {
    name: "CPU set: drain and join",
    threads: 3,
    bound: Some(3),
    locations: 2,
    body: drain_against_join,
};

#[test]
fn a_cpu_that_joins_while_the_set_is_emptied_is_taken_once() {
    DRAIN.holds();
}

/// All three accesses meet in the exchange of one word, which acquires and releases.
#[test]
fn a_set_that_is_emptied_needs_no_more_than_acquire_and_release() {
    DRAIN.holds_with(Orders::AcquireRelease);
}

/// The CPU that joins reads the summary as it was before it was reset.
#[test]
fn a_cpu_is_lost_if_the_exchanges_do_not_acquire() {
    DRAIN.breaks(Orders::Relaxed, DRAINS);
}
