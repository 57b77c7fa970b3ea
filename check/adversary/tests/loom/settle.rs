//! A batch against an operation that settles its space, with the whole engine.

use std::rc::Rc;

use ceasefire::{Batch, Capabilities, Condition, Entry, Owed, PageSize, Schedule, Walkers};
use loom::thread;

use crate::explorer::{Model, Orders};
use crate::machine::{machine, run_as, Machine, PAGE};

const GONE: &str = "after a settle no CPU holds an entry that is gone";

/// CPU 1 runs a program that unmaps the page, while CPU 0 takes the page away in a batch.
fn batch_against_settle(schedule: Schedule) {
    let (engine, space) = machine(Capabilities {
        clean_stores_walk: true,
        asids: true,
        broadcast: None,
        walkers: Walkers::Locked,
    });
    let machine = engine.platform();
    run_as(1, || {
        let _ = engine.switch_to(&space);
        machine.access();
    });
    let running = (Rc::clone(&engine), Rc::clone(&space));
    let running = thread::spawn(move || {
        let (engine, space) = running;
        let machine = engine.platform();
        run_as(1, || {
            let settled = engine.settle(machine.lock(&space));
            if !machine.is_mapped() {
                assert!(!machine.holds_entry(), "{GONE}");
            }
            drop(settled);
            machine.idle();
        });
    });
    let mut batch: Batch<'_, Machine, (), _, 1> =
        Batch::new(&engine, schedule, |page: Owed<()>| assert_eq!(page.get(), &()));
    let mut unmapping = batch.take(());
    unmapping.clear(&machine.lock(&space), PAGE, PageSize::KIB_4, |_| {
        if machine.clear() {
            Entry::READ_ONLY
        } else {
            Entry::NONE
        }
    });
    unmapping.release_in_debt(Condition::UNKEPT);
    drop(batch);
    machine.end();
    running.join().expect("it ran");
}

const LAZY: Model = Model {
    name: "engine: lazy batch and settle",
    threads: 2,
    bound: Some(3),
    locations: 64,
    body: || batch_against_settle(Schedule::Lazy),
};

#[test]
fn a_settle_misses_no_lazy_debt() {
    LAZY.holds();
}

#[test]
fn a_settle_misses_a_debt_that_is_not_released() {
    LAZY.breaks(Orders::Relaxed, GONE);
}

#[test]
fn a_settle_misses_no_debt_of_a_batch() {
    let batched = || batch_against_settle(Schedule::Batched);
    Model { name: "engine: batch and settle", bound: Some(2), body: batched, ..LAZY }.holds();
}
