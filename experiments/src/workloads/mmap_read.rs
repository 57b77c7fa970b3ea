//! `mmap-read`: reading ten times the memory through mmap (BATCH-RECLAIM; vm-scalability `lru-file-mmap-read`).
//!
//! There are as many single-threaded processes as CPUs. Each reads once through its own sparse file (`stream`).
//! Together the files are ten times the machine's memory, so nine pages of ten are reclaimed from a process that runs
//! on another CPU.
//!
//! `small-machine` is the same on a small virtual machine, as a reviewer of lazy flushes requested. It has few CPUs to
//! interrupt, and so little memory that deferred flushes soon fall due. Its programs also use private memory, which
//! leaves less for the files: with each page that they read, they store to a word of that memory or load one.

use std::cell::Cell;
use std::ops::Add;
use std::rc::Rc;

use ceasefire_machine::{Options, Program, Simulation};
use ceasefire_memory::{Config, FaultError, Pages, PAGE_BYTES};

use super::random::Random;
use super::stream::{Stream, LOADS};
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started, LUF};
use crate::measurement::{Reference, Verdict};

/// The size of all files together, in multiples of the memory.
const TIMES_MEMORY: u64 = 10;
/// The time between the starts of two processes, in picoseconds: the shell starts one after the other, about 1 ms each.
/// The scale shrinks this time as it shrinks the work.
const START_INTERVAL: u64 = 1_000_000_000;
/// The number of new pages that a CPU of Linux 4.2 collects before it lists them (`PAGEVEC_SIZE`).
const PAGEVEC: usize = 14;
/// The private memory of all programs together is the memory divided by this.
const OWN_PART: u64 = 16;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mmap-read",
    paper: "BATCH-RECLAIM: M. Gorman, 2015, Linux commit 72b252aed506",
    description: "one process per CPU, together reading ten times the memory through mmap",
    machines: &["4-node-48-cpu", "1-socket"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy],
    scale: 1.0 / 128.0,
    // Elapsed time of the four nodes: 0.705 at 1/128, 0.723 at 1/64, 0.735 at 1/32, 0.749 at 1.
    faithful_from: 1.0 / 32.0,
    repeats: 3,
    by_default: true,
    nodes: 1,
    windowed: false,
    sweep: None,
    crowded: false,
    footprint: Footprint::WHOLE_MEMORY,
    start: |setup| start(setup, false),
};

pub(crate) const EXPERIMENT_SMALL: Experiment = Experiment {
    name: "small-machine",
    paper: LUF,
    description: "the workload of mmap-read, with some stores, on a small virtual machine",
    machines: &["small-vm"],
    scale: 1.0,
    faithful_from: 0.0,
    repeats: 5,
    by_default: false,
    start: |setup| start(setup, true),
    ..EXPERIMENT
};

fn start(setup: Setup, stores: bool) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let cpus = machine.topology.cpu_count();
    let simulation = Simulation::new(
        &machine,
        Options { configure: Box::new(|config: &mut Config| config.lru_batch = PAGEVEC), ..setup.options },
    )?;
    let each = machine.topology.bytes() / PAGE_BYTES / u64::from(cpus);
    let pages = TIMES_MEMORY * machine.topology.bytes() / PAGE_BYTES / u64::from(cpus);
    let mut random = Random::new(setup.seed);
    let interval = (START_INTERVAL as f64 * setup.scale) as u64;
    let mut starts = Vec::new();
    let verdict = Rc::new(Cell::new(Verdict::default()));
    let mut heaps = Vec::new();
    for cpu in 0..cpus {
        let stream = Stream::new(&simulation, pages, &verdict)?;
        let space = simulation.memory().new_space()?;
        let start = u64::from(cpu) * interval + random.below(interval.max(1));
        starts.push(start);
        let heap = stores.then(|| {
            let pages = (each / OWN_PART).max(1);
            let words = Reference::new(cpu.into(), pages, setup.contents);
            Heap { words, base: 0, pages, random: Random::of_thread(setup.seed, cpu.into()) }
        });
        heaps.extend(heap.iter().map(|heap| heap.words.clone()));
        simulation.spawn(format!("reader/{cpu}"), cpu, start, &space, move |program| {
            if read_all(program, &stream, pages, heap).is_ok() {
                program.system_call(|memory, space| memory.exit(space.clone()));
            }
        })?;
    }
    let accesses_per_page = u64::from(LOADS) + u64::from(stores);
    let planned = pages * u64::from(cpus);
    Ok(Started {
        simulation,
        starts,
        progress: Box::new(move |accesses| accesses as f64 / (planned * accesses_per_page) as f64),
        finish: Box::new(move |outcome| {
            let done = outcome.reading.accesses / accesses_per_page;
            if done < planned {
                return Err(RunError::Unfinished { done, planned });
            }
            let verdict = heaps.iter().map(Reference::verdict).fold(verdict.get(), Verdict::add);
            Ok(Finished::new(planned, verdict))
        }),
    })
}

/// Reads through the file once and uses the program's private memory meanwhile.
fn read_all(
    program: &Program,
    stream: &Stream,
    pages: u64,
    mut heap: Option<Heap>,
) -> Result<(), FaultError> {
    if let Some(heap) = &mut heap {
        heap.map(program)?;
    }
    let mut used = Ok(());
    stream.read(program, |read| {
        if let (Some(heap), true) = (&mut heap, read > 0) {
            used = heap.touch(program);
        }
        used.is_ok() && read < pages
    })?;
    used
}

/// The private memory of a program.
struct Heap {
    words: Reference,
    base: u64,
    pages: u64,
    random: Random,
}

impl Heap {
    fn map(&mut self, program: &Program) -> Result<(), FaultError> {
        let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(self.pages)));
        self.base = base.map_err(|_| FaultError::OutOfMemory)?;
        self.words.is_at(self.base);
        Ok(())
    }

    /// Stores to a random word, or loads one.
    fn touch(&mut self, program: &Program) -> Result<(), FaultError> {
        let address = self.base + self.random.below(self.pages * PAGE_BYTES / 8) * 8;
        if self.random.next() & 1 == 0 {
            self.words.load(program, address)
        } else {
            self.words.store(program, address)
        }
    }
}
