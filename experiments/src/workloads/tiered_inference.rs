//! `tiered-inference`: three language models that together do not fit into fast and slow memory (LUF; llama.cpp).
//!
//! Three processes of fifteen threads. Each maps its model, 70 GB of weights, shared and read-only. For every token a process
//! goes through all of its weights in the order of the file: layer by layer, each thread a slice of the layer, and when all
//! have theirs, on to the next. A thread loads each word of a page of weights with what is to be multiplied with it, the
//! activations, three pages that stay; stores to its own page of results; and executes a loop of a few pages of code.
//!
//! The models are larger than fast and slow memory together and are read in a circle, so the page that is needed next is
//! always the one that left first: every page comes from the device, once a token. Reclaim moves it from fast to slow memory
//! later and drops it there. Meanwhile each process hides its weights bit by bit to see which are used, as NUMA balancing
//! does; a hidden page that is used in slow memory comes back to fast memory.
//!
//! The scale is that of memory and models. The first token fills the memory; what is measured is all tokens after it.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::Platform;
use ceasefire_machine::{Program, Reading, Simulation};
use ceasefire_memory::{FaultError, ObjectId, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started};
use crate::measurement::Verdict;

/// How many models are run at a time.
const PROCESSES: u64 = 3;
/// Threads of each (llama.cpp's `-t 15`).
const THREADS: u64 = 15;
/// Bytes of a model, at full size.
const MODEL: u64 = 70 << 30;
/// Layers of a model of 70 billion parameters. Fewer at smaller scales: a slice is as long as in the full size.
const LAYERS: f64 = 80.0;
/// Tokens that are evaluated for one answer (LUF), at full size.
const TOKENS: f64 = 24.0;
/// The fewest that are: one to fill the memory, three to measure.
const LEAST_TOKENS: u64 = 4;
/// Loads from each page of weights: 4096 bytes in steps of 8.
const LOADS: u32 = 512;
/// Pages of activations: a vector of 8192 bytes with its factors (llama.cpp's Q8).
const ACTIVATIONS: u64 = 3;
/// Loads from each of them for a page of weights: together as many as from that.
const ACTIVATION_LOADS: u32 = LOADS / ACTIVATIONS as u32;
/// Pages of code that the loop runs through for a page of weights.
const LOOP: u64 = 3;
/// How much of a process's weights is hidden at a time (Linux: `scan_size_mb`), and how often (`scan_period_min_ms`), in
/// nanoseconds. Both shrink with the scale, so that it is as much a second.
const SCAN_BYTES: f64 = (256 << 20) as f64;
const SCAN_PERIOD: f64 = 1e9;
/// How often who waits for the others looks: in llama.cpp all the time. 20 us, in picoseconds.
const LOOK: u64 = 20_000_000;

/// All threads start within 1 ms, in picoseconds.
const STARTS: u64 = 1_000_000_000;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "tiered-inference",
    paper: "LUF: B. Park, 2024, patch series version 10",
    description: "three models that stream more read-only weights than fast and slow memory hold",
    machines: &["xeon-6430-cxl"],
    by_default: true,
    mechanisms: &[Mechanism::Batched, Mechanism::Lazy],
    scale: 1.0 / 256.0,
    nodes: 1,
    windowed: true,
    sweep: None,
    crowded: false,
    footprint: Footprint::WHOLE_MEMORY,
    start,
};

/// Threads that go on together.
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

    /// Waits until all are here; `last` is what the last of them does first. Returns early once one has `failed`.
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

/// What all processes share.
#[derive(Debug)]
struct Test {
    /// The program's code.
    code: ObjectId,
    /// Pages of a model.
    pages: u64,
    layers: u64,
    tokens: u64,
    threads: u64,
    /// Pages hidden at a time, and how often, in nanoseconds.
    scan: (u64, u64),
    all: Barrier,
    /// Memory ran out for one of the threads: the others stop too.
    failed: Cell<bool>,
    before: Cell<Option<Reading>>,
    after: Cell<Option<Reading>>,
    verdict: Cell<Verdict>,
}

/// One process.
#[derive(Debug)]
struct Process {
    model: ObjectId,
    team: Barrier,
    /// Where weights, code and buffers are mapped.
    weights: Cell<u64>,
    code: Cell<u64>,
    buffers: Cell<u64>,
    /// The page of weights that is hidden next, and when, in nanoseconds.
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
        verdict: Cell::new(Verdict::default()),
    });
    let (mut starts, mut random) = (Vec::new(), Random::new(setup.seed));
    for number in 0..PROCESSES {
        let process = Rc::new(Process {
            model: memory.open_stored_file(pages as u32)?,
            team: Barrier::new(threads),
            weights: Cell::new(0),
            code: Cell::new(0),
            buffers: Cell::new(0),
            // Not all at the same moment.
            scan: Cell::new((0, test.scan.1 * (number + 1) / PROCESSES)),
        });
        let space = memory.new_space()?;
        for thread in 0..threads {
            // Spread over all CPUs: those of the processes lie between each other.
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
            Ok(Finished { window, ..Finished::new(operations, test.verdict.get()) })
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
                process.multiply(program, test, thread, page)?;
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
            self.weights.set(memory.map_shared(space, self.model, 0, test.pages, false).ok()?);
            self.code.set(memory.map_shared(space, test.code, 0, LOOP, false).ok()?);
            self.buffers.set(memory.map_anonymous(space, ACTIVATIONS + test.threads).ok()?);
            Some(())
        })
    }

    /// What a thread does with one page of weights.
    fn multiply(&self, program: &Program, test: &Test, thread: u64, page: u64) -> Result<(), FaultError> {
        for code in 0..LOOP {
            program.fetch(self.code.get() + code * PAGE_BYTES, 0)?;
        }
        program.load_then(self.weights.get() + page * PAGE_BYTES, LOADS, |value| {
            let Verdict { compared, wrong } = test.verdict.get();
            // What the device holds of a model is zeros.
            test.verdict.set(Verdict { compared: compared + 1, wrong: wrong + u64::from(value != 0) });
        })?;
        for activation in 0..ACTIVATIONS {
            program.load(self.buffers.get() + activation * PAGE_BYTES, ACTIVATION_LOADS)?;
        }
        program.store(self.buffers.get() + (ACTIVATIONS + thread) * PAGE_BYTES, 1, page)
    }

    /// Hides the next weights, if it is time (Linux: `task_numa_work`).
    fn scan(&self, program: &Program, test: &Test) {
        let (next, due) = self.scan.get();
        let now = program.memory().platform().now();
        if now < due {
            return;
        }
        let (pages, period) = test.scan;
        let count = pages.min(test.pages - next);
        // It is mapped, so nothing can be wrong with the range.
        let _ = program.system_call(|memory, space| {
            memory.hint(space, self.weights.get() + next * PAGE_BYTES, count * PAGE_BYTES)
        });
        self.scan.set(((next + count) % test.pages, now + period));
    }
}
