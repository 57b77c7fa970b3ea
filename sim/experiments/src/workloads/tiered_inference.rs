//! `tiered-inference`: three language models that together do not fit into fast and slow memory (LUF; llama.cpp).
//!
//! There are three processes of fifteen threads. Each process maps its model, 70 GB of weights, shared and read-only.
//! For every token a process reads all of its weights in the order of the file, layer by layer. Each thread takes a
//! slice of the layer; when all threads are done, they go on to the next layer. For each page of weights, a thread
//! loads every word of the page and of the activations that it is multiplied with, three pages that stay in memory. It
//! stores to its own page of results, and executes a loop of a few pages of code.
//!
//! The models are larger than fast and slow memory together and are read in a circle, so the page needed next is
//! always the one that left memory first. Hence every page comes from the device once per token. Later, reclaim moves
//! it from fast to slow memory, and drops it there. Meanwhile each process hides its weights bit by bit to find out
//! which are used, as NUMA balancing does. A hidden page that is used in slow memory comes back to fast memory.
//!
//! The scale applies to memory and models. The first token fills the memory; all tokens after it are measured.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::Platform;
use ceasefire_machine::config::Linux;
use ceasefire_machine::{Program, Reading, Simulation};
use ceasefire_memory::{FaultError, ObjectId, Pages, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, Overview, RunError, Setup, Started};
use crate::measurement::Verdict;

/// The number of models that run at a time.
const PROCESSES: u64 = 3;
/// The threads of each process (llama.cpp's `-t 15`).
const THREADS: u64 = 15;
/// The size of a model at scale 1, in bytes.
const MODEL: u64 = 70 << 30;
/// The layers of a model of 70 billion parameters. Smaller scales have fewer layers, so a slice is as long as at scale
/// 1.
const LAYERS: f64 = 80.0;
/// The tokens of one answer at scale 1 (LUF).
const TOKENS: f64 = 24.0;
/// The minimum number of tokens: one to fill the memory, three to measure.
const LEAST_TOKENS: u64 = 4;
/// The loads from each page of weights: 4096 bytes in steps of 8.
const LOADS: u32 = 512;
/// The pages of activations: a vector of 8192 bytes with its factors (llama.cpp's Q8).
const ACTIVATIONS: u64 = 3;
/// The loads from each page of activations for a page of weights. Together they are as many as those from the weights.
const ACTIVATION_LOADS: u32 = LOADS / ACTIVATIONS as u32;
/// The pages of code that the loop executes for a page of weights.
const LOOP: u64 = 3;
/// The bytes of a process's weights that are hidden at a time (Linux: `scan_size_mb`), and the period in nanoseconds
/// (`scan_period_min_ms`). Both shrink with the scale, so the rate stays the same.
const SCAN_BYTES: f64 = (256 << 20) as f64;
const SCAN_PERIOD: f64 = 1e9;
/// The interval at which a waiting thread checks for the others: 20 us, in picoseconds. In llama.cpp it spins.
const LOOK: u64 = 20_000_000;

/// All threads start within 1 ms, in picoseconds.
const STARTS: u64 = 1_000_000_000;

/// The experiments that run this workload.
pub(super) fn experiments() -> Vec<Experiment> {
    vec![EXPERIMENT]
}

const EXPERIMENT: Experiment = Experiment {
    name: "tiered-inference",
    paper: "LUF: B. Park, 2024, patch series version 10",
    description: "three models that stream more read-only weights than fast and slow memory hold",
    machines: &["xeon-6430-cxl"],
    // Run time: 0.95 at 1/256, 0.995 at 1/32. Larger runs take days.
    faithful_from: 1.0,
    repeats: 3,
    overview: Some(Overview { scale: 1.0 / 256.0, repeats: 2 }),
    mechanisms: &[Mechanism::Batched, Mechanism::Lazy],
    parameters: &[],
    kernel: Linux::V6_9,
    scale: 1.0 / 256.0,
    nodes: 1,
    windowed: true,
    sweep: None,
    crowded: false,
    // Each page of weights faults, and a fault flushes what its space owes. So a CPU never loads through an entry that
    // a missing flush left, and comparing loads would show nothing.
    footprint: Footprint { contents_bytes: None, ..Footprint::WHOLE_MEMORY },
    fits: None,
    start: &start,
};

/// A point at which threads wait for each other.
#[derive(Debug)]
struct Barrier {
    size: u64,
    waiting: Cell<u64>,
    round: Cell<u64>,
}

impl Barrier {
    fn new(size: u64) -> Self {
        Self { size, waiting: Cell::new(0), round: Cell::new(0) }
    }

    /// Waits until all threads have arrived. The last one calls `last` before the others go on. Returns early once a
    /// thread has `failed`.
    fn meet(&self, program: &Program, failed: &Cell<bool>, last: impl FnOnce()) {
        let round = self.round.get();
        self.waiting.set(self.waiting.get() + 1);
        if self.waiting.get() == self.size {
            last();
            self.waiting.set(0);
            self.round.set(round + 1);
        }
        while self.round.get() == round && !failed.get() {
            program.compute(LOOK);
        }
    }
}

/// The state that all processes share.
#[derive(Debug)]
struct Test {
    /// The program's code.
    code: ObjectId,
    /// The pages of a model.
    pages: u64,
    layers: u64,
    tokens: u64,
    threads: u64,
    /// The number of pages hidden at a time, and the period in nanoseconds.
    scan: (u64, u64),
    all: Barrier,
    /// Whether memory ran out for a thread. The others then stop too.
    failed: Cell<bool>,
    before: Cell<Option<Reading>>,
    after: Cell<Option<Reading>>,
}

/// One process.
#[derive(Debug)]
struct Process {
    model: ObjectId,
    team: Barrier,
    /// The addresses of weights, code and buffers.
    weights: Cell<u64>,
    code: Cell<u64>,
    buffers: Cell<u64>,
    /// The page of weights to hide next, and the time at which it is due, in nanoseconds.
    scan: Cell<(u64, u64)>,
}

fn start(setup: Setup) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let cpus = u64::from(machine.topology.cpu_count());
    let simulation = Simulation::new(&machine, setup.options)?;
    let memory = simulation.memory();
    let threads = (cpus / PROCESSES).clamp(1, THREADS);
    let pages = ((MODEL as f64 * setup.scale) as u64 / PAGE_BYTES).max(1);
    let test = Rc::new(Test {
        code: memory.open_stored_file(LOOP as u32)?,
        pages,
        layers: (LAYERS * setup.scale).ceil() as u64,
        tokens: ((TOKENS * setup.scale) as u64).max(LEAST_TOKENS),
        threads,
        scan: (((SCAN_BYTES * setup.scale) as u64 / PAGE_BYTES).max(1), (SCAN_PERIOD * setup.scale) as u64),
        all: Barrier::new(PROCESSES * threads),
        failed: Cell::new(false),
        before: Cell::new(None),
        after: Cell::new(None),
    });
    let (mut starts, mut random) = (Vec::new(), Random::new(setup.seed));
    for number in 0..PROCESSES {
        let process = Rc::new(Process {
            model: memory.open_stored_file(pages as u32)?,
            team: Barrier::new(threads),
            weights: Cell::new(0),
            code: Cell::new(0),
            buffers: Cell::new(0),
            // The processes do not scan at the same moment.
            scan: Cell::new((0, test.scan.1 * (number + 1) / PROCESSES)),
        });
        let space = memory.new_space()?;
        for thread in 0..threads {
            // The processes' threads are interleaved over all CPUs.
            let cpu = (thread * PROCESSES + number) * cpus / (threads * PROCESSES);
            let (test, process) = (test.clone(), process.clone());
            let start = random.below(STARTS);
            starts.push(start);
            simulation.spawn(
                format!("llama/{number}/{thread}"),
                cpu as u16,
                start,
                &space,
                move |program| {
                    if generate(program, &test, &process, thread).is_err() {
                        test.failed.set(true);
                    }
                },
            )?;
        }
    }
    let each = u64::from(LOADS) + ACTIVATIONS * u64::from(ACTIVATION_LOADS) + 1;
    let planned = PROCESSES * test.tokens * pages * each;
    Ok(Started {
        simulation,
        starts,
        progress: Box::new(move |accesses| accesses as f64 / planned as f64),
        finish: Box::new(move |outcome| {
            let operations = PROCESSES * (test.tokens - 1);
            let window = test.before.get().zip(test.after.get()).filter(|_| !test.failed.get());
            if window.is_none() {
                let done = outcome.reading.accesses / (pages * each);
                return Err(RunError::Unfinished { done, planned: PROCESSES * test.tokens });
            }
            Ok(Finished { window, ..Finished::new(operations, Verdict::default()) })
        }),
    })
}

/// One thread of a process.
fn generate(program: &Program, test: &Test, process: &Process, thread: u64) -> Result<(), FaultError> {
    if thread == 0 {
        process.map(program, test).ok_or(FaultError::OutOfMemory)?;
    }
    process.team.meet(program, &test.failed, || ());
    for token in 0..test.tokens {
        for layer in 0..test.layers {
            let part = |layer: u64| layer * test.pages / test.layers;
            let (first, length) = (part(layer), part(layer + 1) - part(layer));
            for page in first + thread * length / test.threads..first + (thread + 1) * length / test.threads {
                if test.failed.get() {
                    return Ok(());
                }
                process.multiply(program, thread, page)?;
                if thread == 0 {
                    process.scan(program, test);
                }
            }
            process.team.meet(program, &test.failed, || ());
        }
        if token == 0 {
            test.all.meet(program, &test.failed, || test.before.set(Some(program.reading())));
        }
    }
    test.all.meet(program, &test.failed, || test.after.set(Some(program.reading())));
    Ok(())
}

impl Process {
    /// Maps the model, the code and the buffers.
    fn map(&self, program: &Program, test: &Test) -> Option<()> {
        program.system_call(|memory, space| {
            self.weights.set(memory.map_shared(space, self.model, 0, Pages::new(test.pages), false).ok()?);
            self.code.set(memory.map_shared(space, test.code, 0, Pages::new(LOOP), false).ok()?);
            self.buffers.set(memory.map_anonymous(space, Pages::new(ACTIVATIONS + test.threads)).ok()?);
            Some(())
        })
    }

    /// Multiplies one page of weights with the activations.
    fn multiply(&self, program: &Program, thread: u64, page: u64) -> Result<(), FaultError> {
        for code in 0..LOOP {
            program.fetch(self.code.get() + code * PAGE_BYTES, 0)?;
        }
        program.load(self.weights.get() + page * PAGE_BYTES, LOADS)?;
        for activation in 0..ACTIVATIONS {
            program.load(self.buffers.get() + activation * PAGE_BYTES, ACTIVATION_LOADS)?;
        }
        program.store(self.buffers.get() + (ACTIVATIONS + thread) * PAGE_BYTES, 1, page)
    }

    /// Hides the next weights, if they are due (Linux: `task_numa_work`).
    fn scan(&self, program: &Program, test: &Test) {
        let (next, due) = self.scan.get();
        let now = program.memory().platform().now();
        if now < due {
            return;
        }
        let (pages, period) = test.scan;
        let count = pages.min(test.pages - next);
        // The range is mapped, so the call cannot fail.
        let _ = program.system_call(|memory, space| {
            memory.hint(space, self.weights.get() + next * PAGE_BYTES, Pages::new(count))
        });
        self.scan.set(((next + count) % test.pages, now + period));
    }
}
