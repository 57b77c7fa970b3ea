//! `migrate`: moving a program's pages back and forth between two nodes while its threads use them (BATCH-MIGRATE; pmbench
//! and migratepages).
//!
//! One program, a thread on each CPU of the first node. They first store to every page of a range of anonymous memory, and
//! then load from and store to random words of it, half and half, until the test is over. Meanwhile a thread on a CPU of
//! the second node moves the whole program to the second node, back, and so on: the paper's script runs migratepages in a
//! loop beside pmbench. Its parameters are not published; these are pmbench's defaults (uniform, 50 % loads) with as many
//! threads as one socket has CPUs and a range too large for any cache.
//!
//! `migrate-huge` is the same with pages of 2 MiB.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::{Options, Program, Simulation};
use ceasefire_memory::{FaultError, MigrateError, NodeId, HUGE_BYTES, PAGE_BYTES};

use crate::experiment::Experiment;
use crate::mechanism::Mechanism;
use crate::plan::{Finished, Plan, RunError, Started};
use crate::random::Random;
use crate::reference::Reference;

/// The range that the threads use, at full size: 4 GiB.
const BYTES: u64 = 4 << 30;
/// How often all of it is moved.
const ROUNDS: u64 = 4;
/// What pmbench does around each timed access: two reads of the time-stamp counter of some 25 ns each, a random number and
/// an entry in its histogram; and the access itself, which misses every cache: 80.8 ns from the near node, 140.4 from the
/// far (MLC on Cascade Lake), 110 on average. In picoseconds.
const AROUND_ACCESS: u64 = 190_000;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "migrate",
    paper: PAPER,
    description: "one program's pages moved between two nodes while its threads use them",
    machines: &["2-socket-intel", "128-core-arm64"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched],
    scale: 1.0 / 64.0,
    bytes_per_cpu: 1 << 20,
    contents_bytes: |plan| 2 * (BYTES as f64 * plan.scale) as u64,
    start: |plan| start(plan, false),
};

pub(crate) const EXPERIMENT_HUGE: Experiment = Experiment {
    name: "migrate-huge",
    description: "the same with pages of 2 MiB, each flushed on its own",
    machines: &["2-socket-intel"],
    start: |plan| start(plan, true),
    ..EXPERIMENT
};

const PAPER: &str = "BATCH-MIGRATE: Y. Huang, 2023, Linux commit 7e12beb8ca2a";

/// What the threads share.
struct Test {
    base: Cell<u64>,
    pages: u64,
    /// Threads that have stored to their part of the range.
    warm: Cell<usize>,
    /// Pages moved so far.
    moved: Cell<u64>,
    over: Cell<bool>,
    reference: Reference,
}

fn start(plan: &Plan, huge: bool) -> Result<Started, RunError> {
    let machine = plan.scaled_machine()?;
    let contents = plan.keeps_contents();
    let options = Options {
        oracle: plan.oracle,
        contents,
        trace: plan.open_trace()?,
        ..Options::new(plan.mechanism.schedule())
    };
    let simulation = Simulation::new(&machine, options)?;
    let space = simulation.memory().new_space()?;
    let unit = if huge { HUGE_BYTES } else { PAGE_BYTES };
    let pages = ((BYTES as f64 * plan.scale) as u64 / unit).max(1) * unit / PAGE_BYTES;
    let nodes = machine.topology.nodes();
    let users = nodes[0].cpus.clone();
    let mover = nodes.get(1).and_then(|node| node.cpus.first());
    let mover = *mover.filter(|_| !users.is_empty()).ok_or(RunError::Nodes { needed: 2 })?;
    let test = Rc::new(Test {
        base: Cell::new(0),
        pages,
        warm: Cell::new(0),
        moved: Cell::new(0),
        over: Cell::new(false),
        reference: Reference::new(pages * PAGE_BYTES, contents),
    });
    let threads = users.len();
    let mut starts = Vec::new();
    for (number, &cpu) in users.iter().enumerate() {
        let (test, seed) = (test.clone(), plan.seed.wrapping_mul(0x1_0000).wrapping_add(number as u64));
        starts.push(0);
        simulation.spawn(format!("pmbench/{number}"), cpu, 0, &space, move |program| {
            // A failed access ends the thread; the mover then waits in vain and the run is reported as unfinished.
            let _ = use_pages(program, &test, (number, threads), &mut Random::new(seed), huge);
        })?;
    }
    let window = Rc::new(Cell::new(None));
    let (inside, measured) = (test.clone(), window.clone());
    starts.push(0);
    simulation.spawn("migratepages", mover, 0, &space, move |program| {
        while inside.warm.get() < threads {
            program.compute(1_000_000);
        }
        let before = program.reading();
        for round in 0..ROUNDS {
            let (from, to) = (NodeId((round % 2) as u16), NodeId(((round + 1) % 2) as u16));
            let moved = match program.system_call(|memory, space| memory.migrate_space(space, from, to)) {
                Ok(migrated) | Err(MigrateError::Full { migrated, .. }) => migrated.moved,
                Err(MigrateError::NoNode(_)) => 0,
            };
            inside.moved.set(inside.moved.get() + moved);
        }
        measured.set(Some((before, program.reading())));
        inside.over.set(true);
    })?;
    let planned = pages * ROUNDS;
    let done = test.clone();
    Ok(Started {
        simulation,
        starts,
        progress: Box::new(move |_| done.moved.get() as f64 / planned as f64),
        finish: Box::new(move |_| {
            let operations = test.moved.get();
            let window = window.take();
            if window.is_none() || operations == 0 {
                return Err(RunError::Unfinished { done: operations, planned });
            }
            Ok(Finished { operations, window, verdict: test.reference.verdict() })
        }),
    })
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
            let base = memory.map_anonymous(space, test.pages).ok()?;
            if huge {
                memory.advise_huge(space, base, bytes, true).ok()?;
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
            test.reference.load(program, address, 1)?;
        } else {
            test.reference.store(program, address)?;
        }
        program.compute(AROUND_ACCESS);
    }
    Ok(())
}
