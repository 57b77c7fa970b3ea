//! What each effect of the hardware and the kernel adds to the time of a program.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;

use crate::common::{at, ended, machine, run_clean, simulation, FAR, US};
use ceasefire::Schedule;
use ceasefire_machine::config::{IdleState, Machine, Picoseconds, Smt, Storage, TierMemory};
use ceasefire_machine::{Program, Simulation};
use ceasefire_memory::Pages;

type Body = Box<dyn FnOnce(&Program)>;

/// The times at which the programs of one space end, each on its own CPU.
fn ends<const N: usize>(machine: &Machine, bodies: [Body; N]) -> [Picoseconds; N] {
    let simulation = simulation(machine, Schedule::Batched);
    let space = simulation.memory().new_space().expect("a frame");
    for (cpu, body) in bodies.into_iter().enumerate() {
        simulation.spawn(format!("{cpu}"), cpu as u16, 0, &space, body).expect("a stack");
    }
    let outcome = run_clean(&simulation);
    std::array::from_fn(|cpu| ended(&outcome, &cpu.to_string()))
}

/// The time at which a program ends that reads `pages` pages of a file from a device, one after the other. Each takes
/// the device 100 us.
fn reads(machine: &Machine, pages: u64) -> Picoseconds {
    let storage = Storage { queue_depth: NonZeroU32::new(1).expect("1"), read: 100 * US, write: 100 * US };
    let machine = Machine { storage: Some(storage), ..machine.clone() };
    let simulation: Simulation = simulation(&machine, Schedule::Batched);
    let file = simulation.memory().open_stored_file(pages as u32).expect("a free object");
    let space = simulation.memory().new_space().expect("a frame");
    let body = move |program: &Program| {
        let base = program
            .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false))
            .expect("room");
        for page in 0..pages {
            program.load(at(base, page), 1).expect("a stored page");
        }
    };
    simulation.spawn("0", 0, 0, &space, body).expect("a stack");
    ended(&run_clean(&simulation), "0")
}

#[test]
fn a_cpu_wakes_up_after_each_wait_for_the_device() {
    let awake = machine(&[1], 4096);
    let state = |residency, exit| IdleState { residency: residency * US, exit: exit * US };
    let sleepy = Machine { idle: vec![state(20, 3), state(90, 7), state(200, 50)], ..awake.clone() };
    let none = reads(&awake, 1);
    assert_eq!(reads(&sleepy, 1) - none, 7 * US, "a device takes 100 us: the second state pays");
    let shallow = Machine { idle: vec![state(200, 50)], ..awake.clone() };
    assert_eq!(reads(&shallow, 1), none, "no state pays");
}

#[test]
fn an_interrupt_waits_until_its_target_is_awake() {
    let awake = machine(&[2], 4096);
    let sleepy = Machine { idle: vec![IdleState { residency: US, exit: 9 * US }], ..awake.clone() };
    // A flush with page tables reaches lazy CPUs too: the space's thread on CPU 1 has ended.
    let unmaps = || -> [Body; 2] {
        [
            Box::new(|program| {
                let base = program
                    .system_call(|memory, space| memory.map_anonymous(space, Pages::new(4)))
                    .expect("room");
                program.load(base, 1).expect("a mapped page");
                program.compute(50 * US);
                program
                    .system_call(|memory, space| memory.unmap(space, base, Pages::new(4)))
                    .expect("mapped");
            }),
            Box::new(|program| program.compute(20 * US)),
        ]
    };
    let [quick, _] = ends(&awake, unmaps());
    let [slow, _] = ends(&sleepy, unmaps());
    assert_eq!(slow - quick, 9 * US);
}

#[test]
fn a_walk_to_another_node_takes_as_long_as_its_memory_says() {
    let near = machine(&[1, 1], 4096);
    let far_walk = Some(near.costs.walk_memory + 70_000);
    let far = Machine { memory: vec![TierMemory { tier: 0, far_walk, page: None }], ..near.clone() };
    // CPU 0 makes the tables, on its own node. CPU 1 walks them.
    let walks = || -> [Body; 2] {
        let shared = Rc::new(Cell::new(0));
        let base = shared.clone();
        [
            Box::new(move |program| {
                base.set(
                    program
                        .system_call(|memory, space| memory.map_anonymous(space, Pages::new(64)))
                        .expect("room"),
                );
                for page in 0..64 {
                    program.store(at(base.get(), page), 1, 1).expect("a mapped page");
                }
            }),
            Box::new(move |program| {
                program.compute(500 * US);
                for page in 0..64 {
                    program.load(at(shared.get(), page), 1).expect("a mapped page");
                }
            }),
        ]
    };
    let (quick, slow) = (ends(&near, walks()), ends(&far, walks()));
    assert_eq!(quick[0], slow[0], "its tables are on its own node");
    assert_eq!(slow[1] - quick[1], 64 / 8 * 70_000, "one line of entries for eight pages");
}

#[test]
fn memory_that_zeroes_too_many_pages_makes_cpus_wait() {
    let free = machine(&[2], 4096);
    let page = Some(10 * US);
    let busy = Machine { memory: vec![TierMemory { tier: 0, far_walk: None, page }], ..free.clone() };
    let touch = |program: &Program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(32))).expect("room");
        for page in 0..32 {
            program.store(at(base, page), 1, 1).expect("a mapped page");
        }
    };
    let bodies = || -> [Body; 2] { [Box::new(touch), Box::new(touch)] };
    let last = |machine| *ends(machine, bodies()).iter().max().expect("two");
    assert!(last(&free) < 32 * 10 * US);
    assert!(last(&busy) >= 2 * 32 * 10 * US, "64 pages, one after the other");
}

#[test]
fn a_tick_takes_its_time_from_the_program() {
    let none = machine(&[1], 4096);
    let ticks = Machine { tick: 3 * US, ..none.clone() };
    let computes = || -> [Body; 1] {
        [Box::new(|program| {
            for _ in 0..410 {
                program.compute(100 * US);
            }
        })]
    };
    assert_eq!(ends(&ticks, computes())[0] - ends(&none, computes())[0], 10 * 3 * US, "41 ms, a tick each 4");
}

#[test]
fn beside_the_other_thread_of_its_core_a_cpu_computes_slower_and_waits_as_long_for_memory() {
    let alone = machine(&[2], 4096);
    let core = Machine { smt: Some(Smt { apart: 1, slowdown: 200 }), ..alone.clone() };
    // The other thread works until the first one has touched all of its pages.
    let bodies = |pages: u64| -> [Body; 2] {
        [
            Box::new(move |program| {
                program.compute(100 * US);
                let base = program
                    .system_call(|memory, space| memory.map_anonymous(space, Pages::new(64)))
                    .expect("room");
                for page in 0..pages {
                    program.store(at(base, page), 1, 1).expect("a mapped page");
                }
            }),
            Box::new(|program| program.compute(10_000 * US)),
        ]
    };
    let per_page = |machine: &Machine| ends(machine, bodies(33))[0] - ends(machine, bodies(1))[0];
    let (whole, slowed) = (per_page(&alone), per_page(&core));
    let memory = 32 * alone.costs.frame_zero;
    assert!(slowed < 2 * whole - memory, "{slowed}, {whole} alone");
    assert!(slowed > whole + FAR);
}
