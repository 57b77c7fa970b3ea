//! `migrate`: moving a program's pages back and forth between two nodes while its threads use them (BATCH-MIGRATE;
//! pmbench and migratepages).
//!
//! One program has a thread on each CPU of the first node. The threads first store to every page of a range of
//! anonymous memory. Then they load from and store to random words of it, half and half, until the test is over.
//! Meanwhile a thread on a CPU of the second node moves the whole program to the second node, back, and so on, as the
//! paper's script runs migratepages in a loop beside pmbench. The paper does not publish its parameters. These are
//! pmbench's defaults (uniform, 50 % loads), with as many threads as one socket has CPUs and a range too large for any
//! cache. As in the paper, a fixed time in the middle of the test is measured, so interrupts compare as a rate.
//!
//! The scale applies to the range, and it affects the result. A thread that uses a page under migration sleeps until
//! the page has arrived, and a CPU whose thread sleeps needs no interrupt. The smaller the range, the larger the part
//! of it that is under migration at any time.
//!
//! `migrate-huge` is the same with pages of 2 MiB.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::config::Linux;
use ceasefire_machine::{Program, Reading, Simulation};
use ceasefire_memory::{FaultError, NodeId, Pages, HUGE_BYTES, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{Experiment, Overview, Finished, Footprint, Frames, Mechanism, RunError, Setup, Started};
use crate::measurement::Reference;

/// The size of the range at scale 1: 4 GiB.
const BYTES: u64 = 4 << 30;
/// The measured time: 20 ms, in picoseconds.
const DURATION: u64 = 20_000_000_000;
/// The interval at which the measuring thread reads the clock.
const TICK: u64 = DURATION / 20;
/// The time of pmbench's work around each timed access, and of the access itself, in picoseconds. The work is two reads
/// of the time-stamp counter of some 25 ns each, a random number, and an entry in its histogram. The access misses
/// every cache: 80.8 ns from the near node, 140.4 from the far (MLC on Cascade Lake), 110 on average.
const AROUND_ACCESS: u64 = 190_000;

/// The experiments that run this workload.
pub(super) fn experiments() -> Vec<Experiment> {
    vec![EXPERIMENT, EXPERIMENT_HUGE]
}

const EXPERIMENT: Experiment = Experiment {
    name: "migrate",
    paper: "BATCH-MIGRATE: Y. Huang, 2023, Linux commit 7e12beb8ca2a",
    description: "one program's pages moved between two nodes while its threads use them",
    machines: &["2-socket-intel", "128-core-arm64"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched],
    parameters: &[],
    kernel: Linux::V6_3,
    scale: 1.0,
    // Interrupts: 0.0003 at 1/8, 0.012 at 1. A smaller range has more of its pages under migration.
    faithful_from: 1.0,
    repeats: 2,
    overview: Some(Overview { scale: 1.0 / 4.0, repeats: 2 }),
    nodes: 2,
    windowed: true,
    sweep: None,
    crowded: false,
    footprint: FOOTPRINT,
    fits: None,
    start: &|setup| start(setup, false),
};

const EXPERIMENT_HUGE: Experiment = Experiment {
    name: "migrate-huge",
    scale: 1.0 / 8.0,
    overview: Some(Overview { scale: 1.0 / 8.0, repeats: 2 }),
    faithful_from: 0.0,
    repeats: 5,
    description: "the workload of migrate with pages of 2 MiB, each flushed on its own",
    machines: &["2-socket-intel"],
    // At any scale, one page of 2 MiB must fit on either node.
    // No test can remove the flush of a single huge page, and so show that a load would find it missing. So none is
    // compared.
    footprint: Footprint { bytes_per_cpu: 2 * HUGE_BYTES, contents_bytes: None, ..FOOTPRINT },
    start: &|setup| start(setup, true),
    ..EXPERIMENT
};

const FOOTPRINT: Footprint = Footprint {
    bytes_per_cpu: 1 << 20,
    // The range moves as a whole. Page tables and the kernel's free reserve take a quarter more.
    bytes_per_node: BYTES + BYTES / 4,
    frames: &|machine, scale| Frames {
        used: (2.0 * BYTES as f64 * scale) as u64 / PAGE_BYTES,
        ..Frames::of_machine(machine, scale)
    },
    contents_bytes: Some(&|_, scale| 2 * (BYTES as f64 * scale) as u64),
};

/// The state that the threads share.
struct Test {
    base: Cell<u64>,
    pages: u64,
    /// The number of threads that have stored to their part of the range.
    warm: Cell<usize>,
    /// The fraction of the measured time that has passed.
    done: Cell<f64>,
    over: Cell<bool>,
    reference: Reference,
}

fn start(setup: Setup, huge: bool) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let contents = setup.contents;
    let simulation = Simulation::new(&machine, setup.options)?;
    let space = simulation.memory().new_space()?;
    let unit = if huge { HUGE_BYTES } else { PAGE_BYTES };
    let pages = ((BYTES as f64 * setup.scale) as u64 / unit).max(1) * unit / PAGE_BYTES;
    let nodes = setup.nodes;
    let cpus = |node: NodeId| &machine.topology.nodes()[node.index()].cpus;
    // The mover and the clock do not use the range, so they run on the other node.
    let (users, others) = (cpus(nodes[0]).clone(), cpus(nodes[1]));
    let (mover, clock) = (others[0], others[others.len() - 1]);
    let test = Rc::new(Test {
        base: Cell::new(0),
        pages,
        warm: Cell::new(0),
        done: Cell::new(0.0),
        over: Cell::new(false),
        reference: Reference::new(0, pages, contents),
    });
    let threads = users.len();
    let mut starts = Vec::new();
    for (number, &cpu) in users.iter().enumerate() {
        let (test, mut random) = (test.clone(), Random::of_thread(setup.seed, number));
        starts.push(0);
        simulation.spawn(format!("pmbench/{number}"), cpu, 0, &space, move |program| {
            // A failed access ends the thread. The mover then waits in vain, and the run is reported as unfinished.
            let _ = use_pages(program, &test, (number, threads), &mut random, huge);
        })?;
    }
    let inside = test.clone();
    starts.push(0);
    simulation.spawn("migratepages", mover, 0, &space, move |program| {
        inside.wait_until_warm(program, threads);
        for round in 0.. {
            if inside.over.get() {
                break;
            }
            let (from, to) = if round % 2 == 0 { (nodes[0], nodes[1]) } else { (nodes[1], nodes[0]) };
            // A page that does not fit stays on its node.
            let _ = program.system_call(|memory, space| memory.migrate_space(space, from, to));
        }
    })?;
    let window = Rc::new(Cell::new(None));
    let (inside, measured) = (test.clone(), window.clone());
    starts.push(0);
    simulation.spawn("clock", clock, 0, &simulation.memory().new_space()?, move |program| {
        inside.wait_until_warm(program, threads);
        let before = program.reading();
        loop {
            program.compute(TICK);
            let passed = program.reading().since(&before).time;
            inside.done.set((passed as f64 / DURATION as f64).min(1.0));
            if passed >= DURATION {
                break;
            }
        }
        measured.set(Some((before, program.reading())));
        inside.over.set(true);
    })?;
    let done = test.clone();
    Ok(Started {
        simulation,
        starts,
        progress: Box::new(move |_| done.done.get()),
        finish: Box::new(move |_| {
            let window: Option<(Reading, Reading)> = window.take();
            let count = window.map_or(0, |(before, after)| after.since(&before).statistics.migrated);
            if count == 0 {
                return Err(RunError::Unfinished { done: 0, planned: test.pages });
            }
            Ok(Finished { window, ..Finished::new(count, test.reference.verdict()) })
        }),
    })
}

impl Test {
    fn wait_until_warm(&self, program: &Program, threads: usize) {
        while self.warm.get() < threads {
            program.compute(1_000_000);
        }
    }
}

/// One thread of pmbench.
fn use_pages(
    program: &Program,
    test: &Test,
    (number, threads): (usize, usize),
    random: &mut Random,
    huge: bool,
) -> Result<(), FaultError> {
    let bytes = test.pages * PAGE_BYTES;
    if number == 0 {
        let base = program.system_call(|memory, space| {
            let base = memory.map_anonymous(space, Pages::new(test.pages)).ok()?;
            if huge {
                memory.advise_huge(space, base, Pages::new(test.pages), true).ok()?;
            }
            Some(base)
        });
        let base = base.ok_or(FaultError::OutOfMemory)?;
        test.reference.is_at(base);
        test.base.set(base);
    }
    while test.base.get() == 0 {
        program.compute(1_000_000);
    }
    let base = test.base.get();
    for page in (number as u64..test.pages).step_by(threads) {
        test.reference.store(program, base + page * PAGE_BYTES)?;
    }
    test.warm.set(test.warm.get() + 1);
    while !test.over.get() {
        let address = base + random.below(bytes / 8) * 8;
        if random.next() & 1 == 0 {
            test.reference.load(program, address)?;
        } else {
            test.reference.store(program, address)?;
        }
        program.compute(AROUND_ACCESS);
    }
    Ok(())
}
