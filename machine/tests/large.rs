//! The largest machine: 8192 CPUs.

use ceasefire::Schedule;
use ceasefire_machine::config::builtin;
use ceasefire_machine::{Options, Simulation};

/// A flush of a space that runs on 8 CPUs, as far apart as possible, costs 7 interrupts on the largest machine too.
#[test]
fn a_flush_interrupts_only_the_cpus_that_run_the_space() {
    let machine = builtin("4-node-48-cpu").expect("a listed name").expect("a valid file");
    let machine =
        machine.scaled(1.0 / 64.0).and_then(|machine| machine.with_cpus(8192)).expect("at most 8192 CPUs");
    let simulation = Simulation::new(&machine, Options::new(Schedule::Batched)).expect("it fits");
    let memory = simulation.memory();
    let space = memory.new_space().expect("a frame");
    let shared = memory.map_anonymous(&space, 1).expect("room in an empty space");
    for number in 0..8u16 {
        let body = move |program: &ceasefire_machine::Program| {
            program.store(shared, 1, 0).expect("a mapped page");
            if number == 7 {
                // By then the others have accessed the page.
                program.compute(1_000_000_000);
                program
                    .system_call(|memory, space| memory.unmap(space, shared, 4096))
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
