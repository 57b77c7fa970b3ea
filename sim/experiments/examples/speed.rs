//! Measures the simulator's speed, for `cargo xtask bench`. The output is a line per figure, `name value unit bound
//! direction`, separated by tabs.
//!
//! The workload is `mmap-read` with one page per fault (no fault-around, no read-ahead). So the numbers of faults,
//! pages and reclaimed pages differ only by the memory's size. Each figure is the best of a few runs, because a shared
//! host can only slow a run down.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use ceasefire_experiments::{Experiment, Mechanism, Plan};
use ceasefire_machine::config::builtin;
use ceasefire_machine::{Options, Simulation};
use ceasefire_memory::{NodeId, Pages, PAGE_BYTES};

/// Faults per second of wall time on one core.
fn faults_per_second(machine: &str, scale: f64, mechanism: ceasefire::Schedule, oracle: bool) -> f64 {
    let machine = builtin(machine).expect("a built-in machine").expect("a valid file");
    let machine = machine.scaled(scale).expect("a scale above 0");
    let options = Options {
        oracle,
        configure: Box::new(|config| (config.fault_around, config.read_ahead) = (1, 1)),
        ..Options::new(mechanism)
    };
    let simulation = Simulation::new(&machine, options).expect("a machine that fits the host");
    let cpus = machine.topology.cpu_count();
    let pages = 10 * machine.topology.bytes() / PAGE_BYTES / u64::from(cpus);
    for cpu in 0..cpus {
        let file = simulation.memory().create_file(pages as u32).expect("a free object");
        let space = simulation.memory().new_space().expect("memory for a table");
        let body = move |program: &ceasefire_machine::Program| {
            let base = program
                .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false));
            let base = base.expect("room in an empty space");
            for page in 0..pages {
                program.load(base + page * PAGE_BYTES, 512).expect("memory that can be reclaimed");
            }
        };
        simulation.spawn("reader", cpu, u64::from(cpu) * 1_000_000, &space, body).expect("a stack");
    }
    let begun = Instant::now();
    let outcome = simulation.run(|_, _| true).expect("no trace");
    outcome.reading.statistics.faults as f64 / begun.elapsed().as_secs_f64()
}

/// Pages moved between two nodes per second of wall time on one core. One thread moves a program back and forth. The
/// program's other threads compute, so every flush has CPUs to reach.
fn pages_migrated_per_second(mechanism: ceasefire::Schedule) -> f64 {
    const PAGES: u64 = 1 << 15;
    const ROUNDS: u16 = 20;
    let machine = builtin("2-socket-intel").expect("a built-in machine").expect("a valid file");
    let machine = machine.scaled(1.0 / 128.0).expect("a scale above 0");
    let options = Options { oracle: false, ..Options::new(mechanism) };
    let simulation = Simulation::new(&machine, options).expect("a machine that fits the host");
    let space = simulation.memory().new_space().expect("memory for a table");
    let over = Rc::new(Cell::new(false));
    let taken = Rc::new(Cell::new(0.0));
    for cpu in 1..machine.topology.cpu_count() / 2 {
        let over = over.clone();
        let body = move |program: &ceasefire_machine::Program| {
            while !over.get() {
                program.compute(1_000_000_000);
            }
        };
        simulation.spawn("computes", cpu, 0, &space, body).expect("a stack");
    }
    let measured = taken.clone();
    let body = move |program: &ceasefire_machine::Program| {
        let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(PAGES)));
        let base = base.expect("room in an empty space");
        for page in 0..PAGES {
            program.store(base + page * PAGE_BYTES, 1, 1).expect("free memory");
        }
        let begun = Instant::now();
        for round in 0..ROUNDS {
            let (from, to) = (NodeId(round % 2), NodeId((round + 1) % 2));
            let migrated = program.system_call(|memory, space| memory.migrate_space(space, from, to));
            assert_eq!(migrated.expect("room on the other node").moved, PAGES);
        }
        measured.set(begun.elapsed().as_secs_f64());
        over.set(true);
    };
    simulation.spawn("migratepages", 0, 0, &space, body).expect("a stack");
    simulation.run(|_, _| true).expect("no trace");
    (PAGES * u64::from(ROUNDS)) as f64 / taken.get()
}

/// The mechanisms that differ in their schedule of flushes.
const SCHEDULES: [Mechanism; 3] = [Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy];

/// Stores, system calls and loads of `tlb-flush2` per second of wall time on one core. Each loop has three. Loops of
/// the warm-up, which is as long as the measured time, are included.
fn loop_operations_per_second(machine: &str, threads: u16, mechanism: Mechanism, scale: f64) -> f64 {
    let plan = Plan {
        mechanism,
        threads: Some(threads),
        scale,
        oracle: false,
        shadow: false,
        ..plan("tlb-flush2", machine)
    };
    let report = plan.run(|_| ()).expect("a run");
    3.0 * 2.0 * report.operations as f64 / report.wall_s
}

fn plan(experiment: &str, machine: &str) -> Plan {
    let machine = builtin(machine).expect("a built-in machine").expect("a valid file");
    Plan::new(Experiment::find(experiment).expect("an experiment"), machine)
}

fn best(runs: u32, run: impl Fn() -> f64) -> f64 {
    (0..runs).map(|_| run()).fold(0.0, f64::max)
}

fn main() {
    for mechanism in SCHEDULES {
        let rate = best(3, || pages_migrated_per_second(mechanism.schedule()));
        println!("pages migrated, 2-socket-intel, {mechanism}\t{rate:.0}\t1/s\t2000000\tmin");
    }
    for machine in ["1-socket", "4-node-48-cpu"] {
        for mechanism in SCHEDULES {
            let schedule = mechanism.schedule();
            let scale = if machine == "1-socket" { 1.0 / 64.0 } else { 1.0 / 256.0 };
            let without = best(3, || faults_per_second(machine, scale, schedule, false));
            let with = best(3, || faults_per_second(machine, scale, schedule, true));
            println!("faults with reclaim, {machine}, {mechanism}\t{without:.0}\t1/s\t1500000\tmin");
            println!("the same with the oracle on\t{with:.0}\t1/s\t-\tmin");
            println!("slowdown by the oracle, {machine}, {mechanism}\t{:.2}\tx\t2.5\tmax", without / with);
        }
    }
    // The paper's experiment itself, at a small size.
    for mechanism in SCHEDULES {
        let plan = Plan {
            mechanism,
            scale: 1.0 / 64.0,
            oracle: false,
            shadow: false,
            ..plan("mmap-read", "4-node-48-cpu")
        };
        let rate = best(2, || {
            let report = plan.run(|_| ()).expect("a run");
            report.operations as f64 / report.wall_s
        });
        println!("pages read, mmap-read, 4-node-48-cpu, {mechanism}\t{rate:.0}\t1/s\t-\tmin");
    }
    for (machine, threads, scale, asked) in
        [("milan-72", 72, 1.0 / 128.0, 5_000_000), ("milan-8192", 8192, 1.0 / 16.0, 1_000_000)]
    {
        for mechanism in [Mechanism::Batched, Mechanism::Broadcast] {
            // Interrupts to thousands of CPUs are slow in the simulator too.
            if mechanism.broadcasts() || threads < 1000 {
                let rate = best(2, || loop_operations_per_second(machine, threads, mechanism, scale));
                println!("loop operations, {machine}, {mechanism}\t{rate:.0}\t1/s\t{asked}\tmin");
            }
        }
    }
}
