//! `tlb-flush2`: threads of one program that flush single pages all the time (BROADCAST; will-it-scale
//! `tlb_flush2_threads`).
//!
//! Each thread has its own CPU. In each round it maps 1 MiB of anonymous memory, runs one loop for each page of it, and
//! unmaps the whole. A loop stores to the page, gives it back with madvise(DONTNEED), and loads from it, which must
//! find zero. So each loop is two faults, one allocated frame, and a flush of one page on every CPU that runs the
//! program. The load would reveal a kernel without that flush.
//!
//! The threads share the space's lock, taken shared three times per loop and exclusively twice in 256 loops, and the
//! lock of the node's lists of pages. The second lock is taken more or less often, depending on the time at which new
//! pages are listed, which can be chosen.
//!
//! The paper counts the loops of all threads in 5 s, after 5 s of warm-up. The scale applies to both times. Each thread
//! begins its first round at a random page, so the rounds of different threads do not stay in step.
//!
//! `tlb-flush2-processes` is not from a paper. It has many processes of four threads each, more processes than global
//! ASIDs, and more threads than CPUs. A thread computes between its loops. The warm-up is twice as long, since at first
//! all threads compete for the state that the whole machine shares. The experiment shows which processes get an ASID
//! when there are too few, and that no process starves.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::config::Machine;
use ceasefire_machine::{Options, Program, Reading, Simulation};
use ceasefire_memory::{Config, FaultError, LruDrain, Pages, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{
    Experiment, Finished, Footprint, Frames, Mechanism, RunError, Setup, Started, Sweep,
};
use crate::measurement::PerProcess;
use crate::measurement::Verdict;

/// The pages that a thread maps at a time: 1 MiB.
const PAGES: u64 = 256;
/// The measured time at scale 1: 5 s, in picoseconds.
const WINDOW: u64 = 5_000_000_000_000;
/// The number of new pages that a CPU of Linux 6.13 collects before it lists them (`PAGEVEC_SIZE`).
const FOLIO_BATCH: usize = 31;

/// The simulated memory for each CPU, at any scale: the frames that the CPU keeps, and its page tables.
const BYTES_PER_CPU: u64 = 2 << 20;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "tlb-flush2",
    paper: "BROADCAST: R. van Riel, 2025, patch series version 14",
    description: "threads of one program that each flush one page after the other",
    machines: &["milan-36", "milan-72"],
    mechanisms: &[Mechanism::Batched, Mechanism::Broadcast],
    scale: 1.0 / 256.0,
    // The scale is that of the measured time alone.
    faithful_from: 0.0,
    repeats: 5,
    by_default: true,
    nodes: 1,
    windowed: true,
    sweep: Some(sweep),
    crowded: false,
    footprint: Footprint {
        // The scale does not apply to the memory.
        bytes_per_cpu: 1,
        bytes_per_node: 0,
        frames: |machine, _| Frames::of(u64::from(machine.topology.cpu_count()) * BYTES_PER_CPU),
        contents_bytes: Some(|machine, _| u64::from(machine.topology.cpu_count()) * BYTES_PER_CPU),
    },
    start: |setup| start(setup, None),
};

pub(crate) const EXPERIMENT_PROCESSES: Experiment = Experiment {
    name: "tlb-flush2-processes",
    paper: "none: the workload of BROADCAST in more processes than there are global ASIDs",
    description: "processes of four threads that each flush one page after the other",
    machines: &["milan-8192"],
    mechanisms: &[Mechanism::Batched, Mechanism::Broadcast],
    scale: 1.0 / 64.0,
    repeats: 1,
    by_default: false,
    sweep: Some(|machine| Sweep {
        threads: vec![(u32::from(machine.topology.cpu_count()) * 5 / 2).min(u16::MAX.into()) as u16],
        lru_drains: vec![LruDrain::Batched],
    }),
    crowded: true,
    start: |setup| start(setup, Some(PER_PROCESS)),
    ..EXPERIMENT
};

/// The threads of a process in `tlb-flush2-processes`.
const PER_PROCESS: u16 = 4;
/// The time for which they compute between two loops: 200 us, in picoseconds. All CPUs together then make 25 million
/// loops per second. That is more than twice the rate of broadcasts that the interconnect carries, one after the other.
const BETWEEN: u64 = 200_000_000;

/// The paper's sweep. On the smaller machine, as many threads as CPUs, with both values of `lru_drain`; on the larger,
/// powers of two and all CPUs, with new pages listed in batches.
fn sweep(machine: &Machine) -> Sweep {
    let cpus = machine.topology.cpu_count();
    if machine.name == "milan-72" && cpus == 72 {
        let threads = vec![1, 2, 4, 8, 16, 32, 64, 72];
        return Sweep { threads, lru_drains: vec![LruDrain::Batched] };
    }
    Sweep { threads: vec![cpus], lru_drains: vec![LruDrain::Eager, LruDrain::Batched] }
}

/// The state that the threads share.
struct Test {
    begin: u64,
    end: u64,
    loops: Cell<u64>,
    /// The reading and the number of loops when the first thread reached the beginning and the end of the measured
    /// time.
    first: Cell<Option<(Reading, u64)>>,
    last: Cell<Option<(Reading, u64)>>,
    verdict: Cell<Verdict>,
    done: Cell<f64>,
    /// The number of failed threads, and the error of the first.
    failed: Cell<Option<(u16, FaultError)>>,
}

fn start(setup: Setup, per_process: Option<u16>) -> Result<Started, RunError> {
    let needed = u64::from(setup.machine.topology.cpu_count()) * BYTES_PER_CPU;
    let part = (needed as f64 / setup.machine.topology.bytes() as f64).min(1.0);
    let machine = setup.machine.scaled(part).map_err(RunError::Machine)?;
    let drain = setup.lru_drain;
    let configure = move |config: &mut Config| {
        (config.lru_batch, config.lru_drain) = (FOLIO_BATCH, drain);
    };
    let simulation = Simulation::new(&machine, Options { configure: Box::new(configure), ..setup.options })?;
    let window = (WINDOW as f64 * setup.scale) as u64;
    let warm_up = if per_process.is_some() { 2 * window } else { window };
    let test = Rc::new(Test {
        begin: warm_up,
        end: warm_up + window,
        loops: Cell::new(0),
        first: Cell::new(None),
        last: Cell::new(None),
        verdict: Cell::new(Verdict::default()),
        done: Cell::new(0.0),
        failed: Cell::new(None),
    });
    let (threads, cpus) = (setup.threads, machine.topology.cpu_count());
    let members = per_process.unwrap_or(threads);
    let between = per_process.map_or(0, |_| BETWEEN);
    let (contents, scale) = (setup.contents, setup.scale);
    let mut processes = Vec::new();
    for number in 0..threads {
        if number % members == 0 {
            processes.push((simulation.memory().new_space()?, Rc::new(Cell::new(0))));
        }
        let Some((space, own)) = processes.last() else { unreachable!("the first thread begins a process") };
        let first = Random::of_thread(setup.seed, number.into()).below(PAGES);
        let thread = Thread { test: test.clone(), own: own.clone(), first, between, contents };
        simulation.spawn(format!("tlb_flush2/{number}"), number % cpus, 0, space, move |program| {
            if let Err(error) = thread.flush_pages(program) {
                let (others, first) = thread.test.failed.get().unwrap_or((0, error));
                thread.test.failed.set(Some((others + 1, first)));
            }
        })?;
    }
    let loops: Vec<Rc<Cell<u64>>> = processes.into_iter().map(|(_, own)| own).collect();
    let done = test.clone();
    Ok(Started {
        simulation,
        starts: vec![0; threads.into()],
        progress: Box::new(move |_| done.done.get()),
        finish: Box::new(move |_| {
            if let Some((failed, error)) = test.failed.get() {
                return Err(RunError::ThreadsFailed { failed, threads, error });
            }
            let window = test.first.get().zip(test.last.get());
            let count = window.map_or(0, |((_, before), (_, after))| after - before);
            if count == 0 {
                return Err(RunError::NothingMeasured { scale });
            }
            Ok(Finished {
                window: window.map(|((before, _), (after, _))| (before, after)),
                per_process: per_process.map(|_| PerProcess::of(loops.iter().map(|own| own.get()))),
                ..Finished::new(count, test.verdict.get())
            })
        }),
    })
}

impl Test {
    /// Counts a thread's loop, and returns whether the thread must go on.
    fn count(&self, program: &Program) -> bool {
        self.loops.set(self.loops.get() + 1);
        let now = program.now();
        self.done.set(now as f64 / self.end as f64);
        if now >= self.begin && self.first.get().is_none() {
            self.first.set(Some((program.reading(), self.loops.get())));
        }
        if now >= self.end && self.last.get().is_none() {
            self.last.set(Some((program.reading(), self.loops.get())));
        }
        now < self.end
    }
}

/// One thread of a program.
struct Thread {
    test: Rc<Test>,
    /// The loops that its process has done within the measured time.
    own: Rc<Cell<u64>>,
    /// The page at which its first round begins.
    first: u64,
    /// The time for which it computes after each loop.
    between: u64,
    contents: bool,
}

impl Thread {
    fn flush_pages(&self, program: &Program) -> Result<(), FaultError> {
        let mut from = self.first;
        loop {
            let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(PAGES)));
            let base = base.map_err(|_| FaultError::OutOfMemory)?;
            for page in from..PAGES {
                let address = base + page * PAGE_BYTES;
                program.store(address, 1, !address)?;
                let given_back =
                    program.system_call(|memory, space| memory.discard(space, address, Pages::new(1)));
                given_back.map_err(|_| FaultError::NotMapped(address))?;
                let found = program.load(address, 1)?;
                if self.contents {
                    self.test.verdict.set(self.test.verdict.get() + Verdict::of(found == 0));
                }
                if !self.test.count(program) {
                    return Ok(());
                }
                if self.test.first.get().is_some() && self.test.last.get().is_none() {
                    self.own.set(self.own.get() + 1);
                }
                if self.between > 0 {
                    program.compute(self.between);
                }
            }
            from = 0;
            let unmapped = program.system_call(|memory, space| memory.unmap(space, base, Pages::new(PAGES)));
            unmapped.map_err(|_| FaultError::OutOfMemory)?;
        }
    }
}
