//! `fork-heavy`: processes that fork while others keep reclaim at work, as a shell or a build does beside a scan of
//! files.
//!
//! On half of the CPUs, one process each streams through a file larger than the memory (`stream`). The other CPUs work
//! in pairs. A parent stores to all of its private memory and then forks, again and again, each time onto its partner's
//! CPU. The child loads from and stores to some of its inherited pages, which copies those that it stores to, and
//! exits. Meanwhile the parent stores to some pages and waits for the child. Forks, copies and exits flush at once
//! under every mechanism. But all their frames come from reclaim, whose flushes the mechanism may have deferred. The
//! experiment shows whether forks pay for the readers' gain.
//!
//! The measured time begins when reclaim has begun, and ends with the last fork.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire_machine::config::Linux;
use ceasefire_machine::{Program, Reading, Simulation};
use ceasefire_memory::{FaultError, Memory, Pages, PAGE_BYTES};

use super::random::Random;
use super::stream::Stream;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started, LUF};
use crate::measurement::{Reference, Verdict};

/// The size of each reader's file, in multiples of the memory.
const TIMES_MEMORY: u64 = 2;
/// The private memory of a parent, in pages: 512 KiB, as in a small shell.
const PAGES: u64 = 128;
/// The number of pages that a child loads from, and of those that it stores to.
const LOADED: u64 = 64;
const STORED: u64 = 32;
/// The number of pages that a parent stores to while its child runs.
const PARENT_STORED: u64 = 8;
/// The forks of each parent at scale 1.
const FORKS: u64 = 50_000;
/// The interval at which a parent checks for its child: 1 us, in picoseconds.
const LOOK: u64 = 1_000_000;

/// The experiments that run this workload.
pub(super) fn experiments() -> Vec<Experiment> {
    vec![EXPERIMENT]
}

const EXPERIMENT: Experiment = Experiment {
    name: "fork-heavy",
    paper: LUF,
    description: "processes that fork, touch memory and exit, while others read more than the memory",
    machines: &["1-socket"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy],
    parameters: &[],
    kernel: Linux::V6_9,
    scale: 1.0 / 64.0,
    faithful_from: 0.0,
    repeats: 1,
    overview: None,
    nodes: 1,
    windowed: true,
    sweep: None,
    crowded: false,
    // Parent and child with their page tables, and as much again for the files.
    footprint: Footprint { bytes_per_cpu: 4 << 20, ..Footprint::WHOLE_MEMORY },
    fits: None,
    start: &start,
};

/// The state that the threads share.
#[derive(Debug)]
struct Test {
    /// The number of parents that still fork.
    parents: Cell<u64>,
    /// The number of forks whose child has exited.
    forks: Cell<u64>,
    begun: Cell<Option<Reading>>,
    ended: Cell<Option<Reading>>,
    references: RefCell<Vec<Reference>>,
}

fn start(setup: Setup) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let contents = setup.contents;
    let simulation = Simulation::new(&machine, setup.options)?;
    let cpus = machine.topology.cpu_count();
    // Two CPUs for each parent, and the rest for readers. On fewer than four CPUs, parents and readers share CPUs.
    let pairs = (cpus / 4).max(1);
    let first_reader = (2 * pairs).min(cpus - 1);
    let forks = ((FORKS as f64 * setup.scale) as u64).max(1);
    let test = Rc::new(Test {
        parents: Cell::new(pairs.into()),
        forks: Cell::new(0),
        begun: Cell::new(None),
        ended: Cell::new(None),
        references: RefCell::default(),
    });
    for pair in 0..pairs {
        let reference = Reference::new(pair.into(), PAGES, contents);
        test.references.borrow_mut().push(reference.clone());
        let mut random = Random::of_thread(setup.seed, pair.into());
        let (test, child_cpu) = (test.clone(), (2 * pair + 1) % cpus);
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("parent/{pair}"), 2 * pair, 0, &space, move |program| {
            // The missing forks reveal a failure.
            let _ = fork_all(program, &test, &reference, (forks, child_cpu), &mut random);
            test.parents.set(test.parents.get() - 1);
            if test.parents.get() == 0 {
                test.ended.set(Some(program.reading()));
            }
            program.system_call(|memory, space| memory.exit(space.clone()));
        })?;
    }
    let verdict = Rc::new(Cell::new(Verdict::default()));
    let pages = TIMES_MEMORY * machine.topology.bytes() / PAGE_BYTES;
    for cpu in first_reader..cpus {
        let stream = Stream::new(&simulation, pages, &verdict)?;
        let test = test.clone();
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("reader/{cpu}"), cpu, 0, &space, move |program| {
            if stream.read(program, |_| test.parents.get() > 0).is_ok() {
                program.system_call(|memory, space| memory.exit(space.clone()));
            }
        })?;
    }
    let planned = forks * u64::from(pairs);
    let done = test.clone();
    Ok(Started {
        simulation,
        starts: vec![0; usize::from(pairs) + usize::from(cpus - first_reader)],
        progress: Box::new(move |_| done.forks.get() as f64 / planned as f64),
        finish: Box::new(move |_| {
            let done = test.forks.get();
            let window = test.begun.get().zip(test.ended.get()).filter(|_| done == planned);
            if window.is_none() {
                return Err(RunError::Unfinished { done, planned });
            }
            let references = test.references.borrow();
            let verdict = references.iter().fold(verdict.get(), |sum, range| sum + range.verdict());
            Ok(Finished { window, ..Finished::new(done, verdict) })
        }),
    })
}

/// The program of a parent.
fn fork_all(
    program: &Program,
    test: &Rc<Test>,
    reference: &Reference,
    (forks, child_cpu): (u64, u16),
    random: &mut Random,
) -> Result<(), FaultError> {
    let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(PAGES)));
    let base = base.map_err(|_| FaultError::OutOfMemory)?;
    reference.is_at(base);
    for page in 0..PAGES {
        reference.store(program, base + page * PAGE_BYTES)?;
    }
    while program.memory().statistics().scanned == 0 {
        program.compute(100 * LOOK);
    }
    if test.begun.get().is_none() {
        test.begun.set(Some(program.reading()));
    }
    for _ in 0..forks {
        let child = program.system_call(Memory::fork);
        let child = child.map_err(|_| FaultError::OutOfMemory)?;
        let (copy, mut own) = (reference.copy(), Random::new(random.next()));
        let done = Rc::new(Cell::new(None));
        let told = done.clone();
        let body = move |program: &Program| {
            let used = use_copy(program, &copy, base, &mut own);
            program.system_call(|memory, space| memory.exit(space.clone()));
            told.set(Some(used));
        };
        program.spawn("child", child_cpu, &child, body).map_err(|_| FaultError::OutOfMemory)?;
        drop(child);
        for _ in 0..PARENT_STORED {
            reference.store(program, base + random.below(PAGES) * PAGE_BYTES)?;
        }
        while done.get().is_none() {
            program.compute(LOOK);
        }
        done.get().unwrap_or(Ok(()))?;
        test.forks.set(test.forks.get() + 1);
    }
    Ok(())
}

/// The program of a child. It must load its parent's values from the time of the fork, or those that it stored itself.
fn use_copy(program: &Program, copy: &Reference, base: u64, random: &mut Random) -> Result<(), FaultError> {
    for _ in 0..LOADED {
        copy.load(program, base + random.below(PAGES) * PAGE_BYTES)?;
    }
    for _ in 0..STORED {
        let address = base + random.below(PAGES) * PAGE_BYTES;
        copy.store(program, address)?;
        copy.load(program, address)?;
    }
    Ok(())
}
