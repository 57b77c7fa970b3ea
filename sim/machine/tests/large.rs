//! The largest machine, 8192 CPUs, and a large unmap.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::Schedule;
use ceasefire_machine::config::builtin;
use ceasefire_machine::{Options, Program, Simulation};
use ceasefire_memory::Pages;

/// A flush of a space that runs on 8 CPUs, as far apart as possible, costs 7 interrupts on the largest machine too.
#[test]
fn a_flush_interrupts_only_the_cpus_that_run_the_space() {
    let machine = builtin("4-node-48-cpu").expect("a listed name").expect("a valid file");
    let machine =
        machine.scaled(1.0 / 64.0).and_then(|machine| machine.with_cpus(8192)).expect("at most 8192 CPUs");
    let simulation = Simulation::new(&machine, Options::new(Schedule::Batched)).expect("it fits");
    let memory = simulation.memory();
    let space = memory.new_space().expect("a frame");
    let shared = memory.map_anonymous(&space, Pages::new(1)).expect("room in an empty space");
    for number in 0..8u16 {
        let body = move |program: &Program| {
            program.store(shared, 1, 0).expect("a mapped page");
            if number == 7 {
                // By then the others have accessed the page.
                program.compute(1_000_000_000);
                program
                    .system_call(|memory, space| memory.unmap(space, shared, Pages::new(1)))
                    .expect("a range of pages");
            } else {
                for _ in 0..2000 {
                    program.compute(1_000_000);
                }
            }
        };
        simulation.spawn(format!("{number}"), number * 1024 + 512, 0, &space, body).expect("a stack");
    }
    let outcome = simulation.run(|_, _| true).expect("no trace");
    assert_eq!((outcome.violations, outcome.broken), (0, vec![]));
    assert_eq!(outcome.reading.counters.interrupts, 7);
    assert_eq!(outcome.reading.counters.shootdowns, 1);
}

/// munmap of 2 GiB of small pages, each in use on one of 8 CPUs: a gather holds 10 000 pages, so there are 53 rounds of
/// interrupts for 524 288 pages and their tables.
#[test]
fn a_munmap_of_2_gib_takes_few_rounds_of_interrupts() {
    const CPUS: u64 = 8;
    const PAGES: u64 = (2 << 30) / 4096;
    let machine = crate::common::machine(&[CPUS as u16], 3 << 20);
    let simulation = Simulation::new(&machine, Options::new(Schedule::Batched)).expect("it fits");
    let memory = simulation.memory();
    let space = memory.new_space().expect("a frame");
    let start = memory.map_anonymous(&space, Pages::new(PAGES)).expect("room in an empty space");
    let (stored, unmapped) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let rounds = Rc::new(Cell::new(0));
    for number in 0..CPUS {
        let (stored, unmapped, rounds) = (stored.clone(), unmapped.clone(), rounds.clone());
        let body = move |program: &Program| {
            for page in number * PAGES / CPUS..(number + 1) * PAGES / CPUS {
                program.store(crate::common::at(start, page), 1, 1).expect("a mapped page");
            }
            stored.set(stored.get() + 1);
            while number == 0 && stored.get() < CPUS {
                program.compute(crate::common::US);
            }
            if number == 0 {
                let before = program.reading().counters.shootdowns;
                let unmap =
                    program.system_call(|memory, space| memory.unmap(space, start, Pages::new(PAGES)));
                unmap.expect("a range of pages");
                rounds.set(program.reading().counters.shootdowns - before);
                unmapped.set(true);
            }
            while !unmapped.get() {
                program.compute(crate::common::US);
            }
        };
        simulation.spawn(format!("{number}"), number as u16, 0, &space, body).expect("a stack");
    }
    let outcome = simulation.run(|_, _| true).expect("no trace");
    assert_eq!((outcome.violations, outcome.broken), (0, vec![]));
    println!("{} rounds of interrupts", rounds.get());
    assert!((1..=64).contains(&rounds.get()), "{} rounds", rounds.get());
}
