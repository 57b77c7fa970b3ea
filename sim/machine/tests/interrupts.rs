//! Interrupts in simulated time: their arrival, their cost, and the CPUs that receive none.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{arrival_after, at, ended, machine, now, run_clean, simulation, Sink, FAR, US};
use ceasefire::Schedule;
use ceasefire_machine::config::Machine;
use ceasefire_machine::{Options, Outcome, Program, Simulation, TraceFormat};
use ceasefire_memory::Pages;

/// Computes in small steps, between which it can be interrupted.
fn compute(program: &Program, micros: u64) {
    for _ in 0..micros {
        program.compute(US);
    }
}

/// Maps a page, touches it, waits until 20 us, and discards it.
fn discard_at_20_us(program: &Program) {
    let base = program
        .system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)))
        .expect("room for a page");
    program.load(base, 1).expect("a mapped page");
    program.compute(20 * US - now(program) * 1000);
    program.system_call(|memory, space| memory.discard(space, base, Pages::new(1))).expect("a mapped page");
}

/// A program that discards a page at 20 us on CPU 0 of `machine`, while its other threads compute on `others`.
fn discard_beside(machine: &Machine, others: u16) -> (Outcome, Sink) {
    let sink = Sink::default();
    let options = Options { trace: Some(sink.output(TraceFormat::Text)), ..Options::new(Schedule::Batched) };
    let simulation = Simulation::new(machine, options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    simulation.spawn("discards", 0, 0, &space, discard_at_20_us).expect("a stack");
    for other in 1..=others {
        let body = |program: &Program| compute(program, 100);
        simulation.spawn(format!("computes/{other}"), other, 0, &space, body).expect("a stack");
    }
    (run_clean(&simulation), sink)
}

#[test]
fn an_interrupt_arrives_after_its_sending_delivery_and_travel() {
    let machine = machine(&[4], 4096);
    let costs = &machine.costs;
    let (outcome, trace) = discard_beside(&machine, 3);
    let sent = trace.lines("remote ipi send");
    let &[(sent, 0)] = &sent[..] else { panic!("{}", trace.text()) };
    let arrives = |n| sent + n * costs.interrupt_send + costs.interrupt_deliver + FAR;
    let expected: Vec<_> = (1..4).map(|n| (arrives(n), n as usize)).collect();
    assert_eq!(trace.lines(" interrupt"), expected, "{}", trace.text());
    assert_eq!(outcome.reading.counters.interrupts, 3);
}

#[test]
fn a_sender_puts_all_requests_into_their_queues_before_the_first_interrupt() {
    let mut machine = machine(&[4], 4096);
    machine.contention.enqueue = 2;
    let costs = &machine.costs;
    let (outcome, trace) = discard_beside(&machine, 3);
    let (begun, _) = discard_beside(&crate::common::machine(&[4], 4096), 3);
    let &[(sent, 0)] = &trace.lines("remote ipi send")[..] else { panic!("{}", trace.text()) };
    let arrives = |n| sent + n * costs.interrupt_send + costs.interrupt_deliver + FAR;
    let expected: Vec<_> = (1..4).map(|n| (arrives(n), n as usize)).collect();
    assert_eq!(trace.lines(" interrupt"), expected, "{}", trace.text());
    // Two lines for each of three requests, in place of one.
    assert_eq!(outcome.reading.spent.flushes - begun.reading.spent.flushes, 3 * FAR);
}

#[test]
fn an_interrupt_delays_only_the_program_that_it_interrupts() {
    let machine = machine(&[4], 4096);
    let (outcome, _) = discard_beside(&machine, 2);
    let costs = &machine.costs;
    // The handler is entered and left, invalidates a page, and answers the sender.
    let handler = costs.interrupt_handle + costs.invalidate_page + FAR;
    for (name, earlier) in [("computes/1", 1), ("computes/2", 2)] {
        assert_eq!(ended(&outcome, name), arrival_after(earlier, &machine) + 100 * US + handler);
    }
    let hit = outcome.threads.iter().find(|thread| thread.name == "computes/1").expect("it ran");
    assert_eq!((hit.user, hit.system), (100 * US, arrival_after(1, &machine) + handler));
}

#[test]
fn the_sender_waits_for_the_last_answer() {
    let machine = machine(&[4], 4096);
    let costs = &machine.costs;
    for others in 1..=3 {
        let (outcome, _) = discard_beside(&machine, others);
        // The last target is interrupted last, and the sender does its own part after that. The remaining time is the
        // interrupt's travel, the handler, which ends with a fetch of the sender's line, and the line's travel back.
        let way = costs.interrupt_deliver + FAR;
        let handler = costs.interrupt_handle + costs.invalidate_page + FAR;
        assert_eq!(
            outcome.reading.answer_wait,
            way + handler + FAR - costs.invalidate_page,
            "{others} others"
        );
    }
}

#[test]
fn a_request_to_a_cpu_with_an_interrupt_under_way_sends_none() {
    let machine = machine(&[3], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    for cpu in 0..2 {
        simulation.spawn(format!("discards/{cpu}"), cpu, 0, &space, discard_at_20_us).expect("a stack");
    }
    simulation.spawn("computes", 2, 0, &space, |program| compute(program, 100)).expect("a stack");
    let outcome = run_clean(&simulation);
    // Each asks the two others, both at once.
    assert_eq!((outcome.reading.counters.shootdowns, outcome.reading.counters.requests), (2, 4));
    assert_eq!(outcome.reading.counters.interrupts, 3);
    // Two requests cause one entry to the handler. The first flush serves both, so there is no second.
    let costs = &machine.costs;
    let handlers = costs.interrupt_handle + costs.invalidate_asid + 2 * FAR;
    assert_eq!(ended(&outcome, "computes"), arrival_after(2, &machine) + 100 * US + handlers);
}

#[test]
fn an_idle_or_lazy_cpu_is_not_interrupted() {
    let machine = machine(&[4], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    simulation.spawn("discards", 0, 0, &space, discard_at_20_us).expect("a stack");
    // CPU 1 ran the space and is idle since, with the space still loaded. CPU 2 never ran a thread. CPU 3 runs
    // another program.
    simulation.spawn("ends early", 1, 0, &space, |program| compute(program, 5)).expect("a stack");
    let other = simulation.memory().new_space().expect("a frame");
    simulation.spawn("another", 3, 0, &other, |program| compute(program, 100)).expect("a stack");
    let outcome = run_clean(&simulation);
    assert_eq!((outcome.reading.counters.interrupts, outcome.reading.counters.shootdowns), (0, 0));
    assert_eq!(outcome.reading.answer_wait, 0);
}

#[test]
fn a_lazy_cpu_is_interrupted_before_tables_are_freed_and_catches_up_when_it_comes_back() {
    let machine = machine(&[2], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    let shared = Rc::new(Cell::new(0));
    let base = shared.clone();
    simulation
        .spawn("unmaps", 0, 0, &space, move |program| {
            let address = program
                .system_call(|memory, space| memory.map_anonymous(space, Pages::new(2)))
                .expect("room");
            base.set(address);
            program.compute(50 * US);
            let discard = |memory: &ceasefire_memory::Memory<_>, space: &_| {
                memory.discard(space, address, Pages::new(1))
            };
            program.system_call(discard).expect("a mapped page");
            program.compute(50 * US);
            program
                .system_call(|memory, space| memory.unmap(space, address, Pages::new(2)))
                .expect("two mapped pages");
        })
        .expect("a stack");
    simulation
        .spawn("first", 1, 10 * US, &space, move |program| {
            program.store(shared.get(), 1, 0).expect("a mapped page");
            program.store(at(shared.get(), 1), 1, 0).expect("a mapped page");
        })
        .expect("a stack");
    // A page was discarded while CPU 1 was lazy. It was not interrupted, so it flushes when it comes back.
    simulation.spawn("second", 1, 70 * US, &space, |program| program.compute(US)).expect("a stack");
    let outcome = run_clean(&simulation);
    assert_eq!(outcome.reading.counters.flushes_free, 1, "the second thread found its CPU behind");
    assert_eq!(outcome.reading.counters.interrupts, 1, "only the freed page-table pages interrupt");
}

#[test]
fn two_cpus_that_flush_at_once_answer_each_other() {
    let machine = machine(&[2], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    for cpu in 0..2 {
        simulation
            .spawn(format!("discards/{cpu}"), cpu, 0, &space, |program| {
                let base = program
                    .system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)))
                    .expect("room for a page");
                for round in 1..100 {
                    program.store(base, 1, 0).expect("a mapped page");
                    program.compute((round * 20 * US).saturating_sub(now(program) * 1000));
                    program
                        .system_call(|memory, space| memory.discard(space, base, Pages::new(1)))
                        .expect("a mapped page");
                }
            })
            .expect("a stack");
    }
    let outcome = run_clean(&simulation);
    assert!(outcome.reading.counters.requests >= 198);
}
