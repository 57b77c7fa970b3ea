//! Switches and the end of lazy mode against a flush, with the whole engine.

use ceasefire::{Asid, Broadcast, Capabilities, Flush, Holders, PageSize, Walkers};
use loom::thread;
use std::rc::Rc;

use crate::explorer::{Model, Orders};
use crate::machine::{machine, run_as, COHERENT, PAGE};

const INTERRUPTS: Capabilities =
    Capabilities { clean_stores_walk: true, asids: true, broadcast: None, walkers: Walkers::Locked };

/// CPU 1 switches to a space and uses its page, while CPU 0 unmaps the page, flushes it and uses it for something else.
fn flush_against(starts_lazy: bool) {
    let (engine, space) = machine(INTERRUPTS);
    let machine = engine.platform();
    if starts_lazy {
        run_as(1, || {
            let _ = engine.switch_to(&space);
            machine.access();
            engine.enter_lazy();
        });
    }
    let running = (Rc::clone(&engine), Rc::clone(&space));
    let running = thread::spawn(move || {
        let (engine, space) = running;
        let machine = engine.platform();
        run_as(1, || {
            let _ = engine.switch_to(&space);
            machine.access();
            machine.poll();
            machine.access();
            machine.idle();
        });
    });
    machine.clear();
    engine.flush(&space, Flush::page(PAGE, PageSize::KIB_4));
    machine.reuse();
    machine.end();
    running.join().expect("it ran");
}

const SWITCH: Model = Model {
    name: "engine: switch and flush",
    threads: 2,
    bound: Some(3),
    locations: 48,
    body: || flush_against(false),
};

#[test]
fn a_flush_sees_a_switch_that_does_not_see_the_flush() {
    SWITCH.holds();
}

/// The switch has a fence, the flush has none.
#[test]
fn a_flush_misses_a_switch_if_its_accesses_are_not_sequentially_consistent() {
    SWITCH.breaks(Orders::AcquireRelease, COHERENT);
}

const LAZY: Model =
    Model { name: "engine: end of lazy mode and flush", body: || flush_against(true), ..SWITCH };

#[test]
fn a_flush_sees_a_cpu_that_leaves_lazy_mode_and_does_not_see_the_flush() {
    LAZY.holds();
}

#[test]
fn a_flush_misses_a_cpu_that_leaves_lazy_mode_without_sequential_consistency() {
    LAZY.breaks(Orders::AcquireRelease, COHERENT);
}

const OWN: &str = "no CPU runs a space under an ASID that was given back";

/// CPU 1 switches to a space that CPU 0 ends.
fn retire_against_switch() {
    let broadcast = Broadcast::new(9, 1, Holders::Every).expect("there are ASIDs enough");
    let (engine, space) = machine(Capabilities { broadcast: Some(broadcast), ..INTERRUPTS });
    let asid = space.asid().map(Asid::get);
    assert_ne!(asid, Some(Asid::SHARED.get()));
    let running = (Rc::clone(&engine), Rc::clone(&space));
    let running = thread::spawn(move || {
        let (engine, space) = running;
        run_as(1, || drop(engine.switch_to(&space)));
    });
    let retired = engine.retire(&space);
    running.join().expect("it ran");
    if retired.is_ok() {
        assert_ne!(engine.platform().asid_of(1), asid, "{OWN}");
    }
    run_as(1, || drop(engine.unload()));
    engine.retire(&space).expect("no CPU has it loaded");
}

const RETIRE: Model =
    Model { name: "engine: switch and retirement", bound: Some(4), body: retire_against_switch, ..SWITCH };

#[test]
fn an_asid_is_not_given_back_while_a_cpu_switches_to_its_space() {
    RETIRE.holds();
}

#[test]
fn an_asid_is_given_back_while_a_cpu_switches_without_sequential_consistency() {
    RETIRE.breaks(Orders::AcquireRelease, OWN);
}
