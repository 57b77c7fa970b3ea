//! The scheduler, and the accounts of time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common::{
    arrival, arrival_after, at, ended, machine, now, run_clean, simulation, FAR, SCHEDULES, US,
};
use ceasefire::Schedule;
use ceasefire_machine::config::Picoseconds;
use ceasefire_machine::{Outcome, Program};
use ceasefire_memory::{ObjectId, Pages};

fn compute(micros: u64) -> impl FnOnce(&Program) + 'static {
    move |program| {
        for _ in 0..micros {
            program.compute(US);
        }
    }
}

/// A thread that always had a CPU was in the program or in the kernel at all times, and no time is counted twice.
fn assert_accounts_add_up(outcome: &Outcome, starts: &[(&str, Picoseconds)]) {
    for (name, start) in starts {
        let thread = outcome.threads.iter().find(|thread| thread.name == *name).expect("it ran");
        assert_eq!(Some(start + thread.user + thread.system), thread.ended, "{thread:?}");
    }
}

#[test]
fn two_programs_share_a_cpu_by_slices() {
    let mut machine = machine(&[1], 4096);
    machine.costs.time_slice = 100 * US;
    let simulation = simulation(&machine, Schedule::Batched);
    let turns = Rc::new(RefCell::new(Vec::new()));
    for name in ["one", "other"] {
        let space = simulation.memory().new_space().expect("a frame");
        let turns = turns.clone();
        let body = move |program: &Program| {
            for _ in 0..950 {
                program.compute(US);
                let mut turns = turns.borrow_mut();
                if turns.last().is_none_or(|(last, _)| *last != name) {
                    turns.push((name, now(program)));
                }
            }
        };
        simulation.spawn(name, 0, 0, &space, body).expect("a stack");
    }
    let outcome = run_clean(&simulation);
    let turns = turns.borrow();
    assert_eq!(turns.len(), 20, "{turns:?}");
    for pair in turns[..19].windows(2) {
        let turn = (pair[1].1 - pair[0].1) * 1000;
        assert!((100 * US..104 * US).contains(&turn), "{turns:?}");
    }
    for thread in outcome.threads.iter().filter(|thread| !thread.kernel) {
        assert_eq!(thread.user, 950 * US);
        // It got the CPU ten times. The first time its ASID was new, later its entries were still valid.
        let switch = machine.costs.context_switch + machine.costs.root_load;
        assert_eq!(thread.system, 10 * switch + machine.costs.invalidate_asid);
    }
    let total = |outcome: &Outcome| -> Picoseconds {
        outcome.threads.iter().map(|thread| thread.user + thread.system).sum()
    };
    assert_eq!(outcome.elapsed, total(&outcome), "the CPU was never idle");
}

#[test]
fn an_idle_cpu_takes_a_thread_that_waits_for_another_cpu() {
    for nodes in [&[2][..], &[1, 1]] {
        let machine = machine(nodes, 4096);
        let simulation = simulation(&machine, Schedule::Batched);
        for (name, cpu, micros) in [("long", 0, 1000), ("waits", 0, 1000), ("short", 1, 100)] {
            let space = simulation.memory().new_space().expect("a frame");
            simulation.spawn(name, cpu, 0, &space, compute(micros)).expect("a stack");
        }
        let outcome = run_clean(&simulation);
        let start = arrival(&machine);
        assert_eq!(ended(&outcome, "long"), start + 1000 * US);
        assert_eq!(ended(&outcome, "waits"), ended(&outcome, "short") + start + 1000 * US);
    }
}

#[test]
fn a_thread_starts_at_its_time_on_any_free_cpu() {
    let machine = machine(&[2], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    let began = Rc::new(RefCell::new(Vec::new()));
    // The threads are not spawned in order of time. CPU 1 is idle at first and must not run a thread before its
    // start.
    for (name, cpu, start) in [("late", 0, 500), ("first", 0, 10), ("second", 1, 300), ("third", 0, 400)] {
        let began = began.clone();
        let body = move |program: &Program| {
            began.borrow_mut().push((name, now(program) / 1000));
            program.compute(20 * US);
        };
        simulation.spawn(name, cpu, start * US, &space, body).expect("a stack");
    }
    run_clean(&simulation);
    assert_eq!(*began.borrow(), [("first", 11), ("second", 301), ("third", 401), ("late", 501)]);
}

#[test]
fn a_cpu_that_is_ahead_does_not_take_a_thread_from_one_behind() {
    let machine = machine(&[2], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    // One step of 100 us, after which CPU 0 is far ahead of CPU 1.
    simulation.spawn("ahead", 0, 0, &space, |program| program.compute(100 * US)).expect("a stack");
    simulation.spawn("behind", 1, 50 * US, &space, compute(10)).expect("a stack");
    let outcome = run_clean(&simulation);
    assert_eq!(ended(&outcome, "behind"), 50 * US + arrival_after(1, &machine) + 10 * US);
}

/// Reads the 4096 pages of a file once.
fn read_file(file: ObjectId) -> impl FnOnce(&Program) {
    move |program| {
        let base = program
            .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(4096), false))
            .expect("room for the file");
        for page in 0..4096 {
            program.load(at(base, page), 64).expect("a mapped page");
        }
    }
}

#[test]
fn the_reclaimer_wakes_on_an_idle_cpu_of_its_node_and_sleeps_again() {
    for schedule in SCHEDULES {
        let machine = machine(&[2, 2], 4096);
        let simulation = simulation(&machine, schedule);
        let memory = simulation.memory();
        let file = memory.create_file(4096).expect("a free object");
        let space = memory.new_space().expect("a frame");
        simulation.spawn("reads", 0, 0, &space, read_file(file)).expect("a stack");
        let outcome = run_clean(&simulation);
        assert!(outcome.reading.statistics.reclaimed_background > 1000, "{:?}", outcome.reading.statistics);
        for thread in outcome.threads.iter().filter(|thread| thread.kernel) {
            assert!(thread.system > 0 && thread.user == 0 && thread.ended.is_none(), "{thread:?}");
        }
        assert_accounts_add_up(&outcome, &[("reads", 0)]);
    }
}

#[test]
fn the_reclaimer_of_a_node_without_cpus_takes_an_idle_one_of_any() {
    let machine = machine(&[3, 0], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let memory = simulation.memory();
    let file = memory.create_file(4096).expect("a free object");
    let space = memory.new_space().expect("a frame");
    simulation.spawn("reads", 0, 0, &space, read_file(file)).expect("a stack");
    let outcome = run_clean(&simulation);
    let of_slow =
        outcome.threads.iter().find(|thread| thread.name == "reclaim/1").expect("one for each node");
    assert!(of_slow.system > 0, "{of_slow:?}");
    // The program never lost its CPU.
    assert_accounts_add_up(&outcome, &[("reads", 0)]);
}

#[test]
fn the_reclaimer_preempts_a_program_if_no_cpu_is_idle() {
    let machine = machine(&[1], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let memory = simulation.memory();
    let file = memory.create_file(4096).expect("a free object");
    let space = memory.new_space().expect("a frame");
    simulation.spawn("reads", 0, 0, &space, read_file(file)).expect("a stack");
    let outcome = run_clean(&simulation);
    let statistics = outcome.reading.statistics;
    assert!(statistics.reclaimed_background > statistics.reclaimed_direct, "{statistics:?}");
    let busy: Picoseconds = outcome.threads.iter().map(|thread| thread.user + thread.system).sum();
    // The reclaimer may be in the middle of a turn when the program ends. That turn is not yet in its account.
    assert!((outcome.elapsed - busy) < machine.costs.time_slice, "{outcome:?}");
    assert_eq!(outcome.reading.counters.interrupts, 0, "there is no other CPU to interrupt");
}

#[test]
fn every_picosecond_of_a_thread_is_accounted_for() {
    for schedule in SCHEDULES {
        let machine = machine(&[4], 2048);
        let simulation = simulation(&machine, schedule);
        let memory = simulation.memory();
        let file = memory.create_file(2048).expect("a free object");
        let space = memory.new_space().expect("a frame");
        // Three threads contend for everything except two rights: the right to store, for which a thread sleeps while
        // the page is written out, and the right to map, for which it sleeps as well. The fourth CPU is the
        // reclaimer's.
        for cpu in 0..3 {
            let base = memory.map_shared(&space, file, 0, Pages::new(2048), true).expect("room for the file");
            simulation
                .spawn(format!("reads/{cpu}"), cpu, u64::from(cpu) * US, &space, move |program| {
                    for page in 0..2048 {
                        program.load(at(base, page), 16).expect("a mapped page");
                    }
                })
                .expect("a stack");
        }
        let outcome = run_clean(&simulation);
        assert!(outcome.reading.lock_waits > 100 && outcome.reading.answer_wait > 0, "{outcome:?}");
        assert_accounts_add_up(&outcome, &[("reads/0", 0), ("reads/1", US), ("reads/2", 2 * US)]);
    }
}

#[test]
fn an_interrupt_on_an_idle_cpu_is_charged_to_no_thread() {
    let machine = machine(&[2], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    simulation
        .spawn("unmaps", 0, 0, &space, |program| {
            for _ in 0..10 {
                let base = program
                    .system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)))
                    .expect("room");
                program.store(base, 1, 0).expect("a mapped page");
                // This frees page-table pages, so the idle CPU must leave the space.
                program
                    .system_call(|memory, space| memory.unmap(space, base, Pages::new(1)))
                    .expect("a mapped page");
            }
        })
        .expect("a stack");
    simulation.spawn("early", 1, 0, &space, compute(1)).expect("a stack");
    let other = simulation.memory().new_space().expect("a frame");
    simulation.spawn("late", 1, 500 * US, &other, compute(10)).expect("a stack");
    let outcome = run_clean(&simulation);
    assert_eq!(outcome.reading.counters.interrupts, 1);
    let late = outcome.threads.iter().find(|thread| thread.name == "late").expect("it ran");
    assert_eq!((late.user, late.system), (10 * US, arrival(&machine)));
}

#[test]
fn a_flush_costs_later_misses() {
    let pages = 32;
    let misses = |flushes: bool| {
        let machine = machine(&[2], 4096);
        let simulation = simulation(&machine, Schedule::Batched);
        let file = simulation.memory().create_file(pages as u32).expect("a free object");
        let space = simulation.memory().new_space().expect("a frame");
        simulation
            .spawn("reads", 0, 0, &space, move |program| {
                let base = program
                    .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false))
                    .expect("room for the file");
                for _ in 0..2000 {
                    for page in 0..pages {
                        program.load(at(base, page), 8).expect("a mapped page");
                    }
                }
            })
            .expect("a stack");
        simulation
            .spawn("flushes", 1, 0, &space, move |program| {
                for _ in 0..20 {
                    let base = program
                        .system_call(|memory, space| memory.map_anonymous(space, Pages::new(40)))
                        .expect("room");
                    for page in 0..40 {
                        program.store(at(base, page), 1, 0).expect("a mapped page");
                    }
                    if flushes {
                        program
                            .system_call(|memory, space| memory.discard(space, base, Pages::new(40)))
                            .expect("mapped pages");
                    }
                }
            })
            .expect("a stack");
        run_clean(&simulation)
    };
    let (without, with) = (misses(false), misses(true));
    assert_eq!(with.reading.counters.interrupts, 20);
    // The reader's pages fit its TLB. After each full flush it misses each of them once more.
    assert_eq!(with.reading.misses_load, without.reading.misses_load + 20 * pages);
    assert!(ended(&with, "reads") > ended(&without, "reads") + 20 * FAR);
}

#[test]
fn a_flush_of_one_page_costs_a_miss_of_that_page() {
    let machine = machine(&[2], 4096);
    let simulation = simulation(&machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    let shared = Rc::new(Cell::new(0));
    let base = shared.clone();
    simulation
        .spawn("reads", 0, 0, &space, move |program| {
            let address = program
                .system_call(|memory, space| memory.map_anonymous(space, Pages::new(16)))
                .expect("room");
            base.set(address);
            for _ in 0..2000 {
                for page in 0..16 {
                    program.load(at(address, page), 8).expect("a mapped page");
                }
            }
        })
        .expect("a stack");
    simulation
        .spawn("discards", 1, 100 * US, &space, move |program| {
            for _ in 0..20 {
                program
                    .system_call(|memory, space| memory.discard(space, at(shared.get(), 7), Pages::new(1)))
                    .expect("a mapped page");
                program.compute(20 * US);
            }
        })
        .expect("a stack");
    let outcome = run_clean(&simulation);
    // Each discard costs two misses: one before the fault, and one in the retried access.
    assert_eq!(outcome.reading.misses_load, 2 * 16 + 2 * 20);
    assert_eq!(outcome.reading.counters.flushes_page, 2 * 20);
}
