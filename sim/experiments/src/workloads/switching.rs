//! `switching`: CPUs that switch back and forth between two spaces, and unmaps beside them.
//!
//! A CPU that leaves a space may keep its place in the space's set of CPUs, with its reference. Then it writes no line
//! that other CPUs write when it comes back, but each flush of the space looks at it. Linux made this choice in commit
//! 209954cbc7d0. The three experiments show both sides of it. `CEASEFIRE_PLACES`, set when the engine is built, is the
//! number of spaces in whose sets a CPU is at most.
//!
//! All three have two processes with a thread of each on every CPU. A thread computes for a short time, loads from
//! a page of its process, and gives the CPU to the other.
//! - `switching` counts these turns.
//! - `switching-unmap` times unmaps of a page, again and again, by a thread of the first process that has CPU 0 for
//!   itself. On average half of the other CPUs run its process, so an unmap interrupts them.
//! - `switching-left` times the same where the other CPUs ran the first process once and now run only the second. No
//!   unmap needs to interrupt any of them.
//!
//! At first all CPUs compete for the lines of both spaces, to take their places. The measurement begins when every
//! thread has had its second turn, or has left for good. The scale applies to the measured time.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::config::Linux;
use ceasefire_machine::{Program, Reading, Simulation};
use ceasefire_memory::{FaultError, Pages, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{Experiment, Finished, Footprint, Frames, Mechanism, RunError, Setup, Started};
use crate::measurement::{Latencies, Reference};

/// The measured time at scale 1, in picoseconds: 0.5 ms of turns, 20 ms of unmaps.
const TURNS_FOR: u64 = 500_000_000;
const UNMAPS_FOR: u64 = 20_000_000_000;
/// The greatest time for which a thread computes in a turn, in picoseconds: 8 us where turns are counted, 400 us beside
/// unmaps.
const COUNTED_TURN: u64 = 8_000_000;
const TURN: u64 = 400_000_000;
/// The same where turns are counted, while other threads have not had their second turn; and the time from then until
/// the measurement begins: 100 us.
const WAIT: u64 = 100_000_000;
/// The greatest time between two unmaps: 200 us.
const PAUSE: u64 = 200_000_000;
/// The simulated memory for each CPU, at any scale: the frames that the CPU keeps, and page tables.
const BYTES_PER_CPU: u64 = 2 << 20;

/// What the other CPUs do, and what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All CPUs take turns, which are counted.
    Turns,
    /// CPU 0 unmaps, the others take turns.
    Unmaps,
    /// CPU 0 unmaps, the others have left its process.
    Left,
}

/// The experiments that run this workload.
pub(super) fn experiments() -> Vec<Experiment> {
    vec![EXPERIMENT, EXPERIMENT_UNMAP, EXPERIMENT_LEFT]
}

const EXPERIMENT: Experiment = Experiment {
    name: "switching",
    paper: "none: Linux commit 209954cbc7d0, which leaves a space's set of CPUs late, gives other figures",
    description: "two processes whose threads take turns on every CPU",
    machines: &["2-socket-intel", "milan-8192"],
    mechanisms: &[Mechanism::Batched],
    parameters: &[],
    kernel: Linux::NEWEST,
    scale: 1.0,
    faithful_from: 0.0,
    repeats: 1,
    overview: None,
    nodes: 1,
    windowed: true,
    sweep: None,
    crowded: false,
    footprint: Footprint {
        // The scale does not apply to the memory.
        bytes_per_cpu: 1,
        bytes_per_node: 0,
        frames: &|machine, _| Frames::of(u64::from(machine.topology.cpu_count()) * BYTES_PER_CPU),
        // No page is ever unmapped, so no missing flush could make a load wrong.
        contents_bytes: None,
    },
    fits: None,
    start: &|setup| start(setup, Kind::Turns),
};

const EXPERIMENT_UNMAP: Experiment = Experiment {
    name: "switching-unmap",
    description: "the latency of unmaps in one of two processes whose threads take turns on the other CPUs",
    footprint: Footprint { contents_bytes: Some(&|_, _| 3 * PAGE_BYTES), ..EXPERIMENT.footprint },
    start: &|setup| start(setup, Kind::Unmaps),
    ..EXPERIMENT
};

const EXPERIMENT_LEFT: Experiment = Experiment {
    name: "switching-left",
    description: "the latency of unmaps in a process that ran on the other CPUs and has left them",
    start: &|setup| start(setup, Kind::Left),
    ..EXPERIMENT_UNMAP
};

/// The state that the threads share.
struct Test {
    kind: Kind,
    measured_for: u64,
    /// The number of threads that take turns and have not had their second, or have not left.
    cold: Cell<usize>,
    /// The time at which the last of them had.
    warm_at: Cell<u64>,
    turns: Cell<u64>,
    /// The reading and the number of turns at the beginning of the measured time, and those at its end.
    first: Cell<Option<(Reading, u64)>>,
    last: Cell<Option<(Reading, u64)>>,
    latencies: Latencies,
    done: Cell<f64>,
    /// The first thread that failed ends all.
    failed: Cell<bool>,
}

fn start(setup: Setup, kind: Kind) -> Result<Started, RunError> {
    let cpus = setup.machine.topology.cpu_count();
    let needed = u64::from(cpus) * BYTES_PER_CPU;
    let part = (needed as f64 / setup.machine.topology.bytes() as f64).min(1.0);
    let machine = setup.machine.scaled(part).map_err(RunError::Machine)?;
    let simulation = Simulation::new(&machine, setup.options)?;
    let unmaps = kind != Kind::Turns;
    let mut places: Vec<(u16, usize)> =
        (u16::from(unmaps)..cpus).flat_map(|cpu| [(cpu, 0), (cpu, 1)]).collect();
    let measured_for = (if unmaps { UNMAPS_FOR } else { TURNS_FOR }) as f64 * setup.scale;
    let test = Rc::new(Test {
        kind,
        measured_for: measured_for as u64,
        cold: Cell::new(places.len()),
        warm_at: Cell::new(0),
        turns: Cell::new(0),
        first: Cell::new(None),
        last: Cell::new(None),
        latencies: Latencies::new(),
        done: Cell::new(0.0),
        failed: Cell::new(false),
    });
    let processes = [0, 1].map(|number| Page::new(number, setup.contents));
    let fresh = Reference::new(2, 1, setup.contents);
    let spaces = [simulation.memory().new_space()?, simulation.memory().new_space()?];
    if unmaps {
        places.insert(0, (0, 0));
    }
    let threads = places.len();
    for (number, (cpu, process)) in places.into_iter().enumerate() {
        let (test, page) = (test.clone(), processes[process].clone());
        let mut random = Random::of_thread(setup.seed, number);
        let unmapper = (unmaps && number == 0).then(|| fresh.clone());
        simulation.spawn(format!("{process}/{cpu}"), cpu, 0, &spaces[process], move |program| {
            let ended = match &unmapper {
                Some(reference) => unmap(program, &test, reference, &mut random),
                None => take_turns(program, &test, &page, process, &mut random),
            };
            if ended.is_err() {
                test.failed.set(true);
            }
        })?;
    }
    let (done, scale) = (test.clone(), setup.scale);
    Ok(Started {
        simulation,
        starts: vec![0; threads],
        progress: Box::new(move |_| done.done.get()),
        finish: Box::new(move |_| {
            let window = test.first.get().zip(test.last.get());
            let turns = window.map_or(0, |((_, before), (_, after))| after - before);
            let latency = unmaps.then(|| test.latencies.summary());
            let operations = latency.map_or(turns, |latency| latency.count);
            if test.failed.get() || operations == 0 {
                return Err(RunError::NothingMeasured { scale });
            }
            let turns = processes[0].reference.verdict() + processes[1].reference.verdict();
            let verdict = turns + fresh.verdict();
            let window = window.map(|((before, _), (after, _))| (before, after));
            Ok(Finished { window, latency, ..Finished::new(operations, verdict) })
        }),
    })
}

/// The page of a process. The first thread that has a turn maps it and stores to it.
#[derive(Clone)]
struct Page {
    taken: Rc<Cell<bool>>,
    /// Set once the page has been stored to.
    base: Rc<Cell<Option<u64>>>,
    reference: Reference,
}

impl Page {
    fn new(number: u32, contents: bool) -> Self {
        let reference = Reference::new(number, 1, contents);
        Self { taken: Rc::default(), base: Rc::default(), reference }
    }

    fn load(&self, program: &Program) -> Result<(), FaultError> {
        if !self.taken.replace(true) {
            let base = map(program)?;
            self.reference.is_at(base);
            self.reference.store(program, base)?;
            self.base.set(Some(base));
        }
        self.base.get().map_or(Ok(()), |base| self.reference.load(program, base))
    }
}

impl Test {
    /// Counts a turn, if this is one, and returns whether the measured time is over. It begins a
    /// little after the last thread has become warm.
    fn is_over(&self, program: &Program, turn: bool) -> bool {
        self.turns.set(self.turns.get() + u64::from(turn));
        let now = program.now();
        match self.first.get() {
            None if self.cold.get() == 0 && now >= self.warm_at.get() + WAIT => {
                self.first.set(Some((program.reading(), self.turns.get())));
            }
            Some((first, _)) if self.last.get().is_none() => {
                let passed = now.saturating_sub(first.time);
                self.done.set(passed as f64 / self.measured_for as f64);
                if passed >= self.measured_for {
                    self.last.set(Some((program.reading(), self.turns.get())));
                }
            }
            _ => {}
        }
        self.last.get().is_some() || self.failed.get()
    }

    fn warm(&self, program: &Program) {
        self.cold.set(self.cold.get() - 1);
        self.warm_at.set(self.warm_at.get().max(program.now()));
    }
}

fn map(program: &Program) -> Result<u64, FaultError> {
    let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)));
    base.map_err(|_| FaultError::OutOfMemory)
}

/// A thread that takes turns with the other on its CPU.
fn take_turns(
    program: &Program,
    test: &Test,
    page: &Page,
    process: usize,
    random: &mut Random,
) -> Result<(), FaultError> {
    for turn in 0u64.. {
        let longest = match test.kind {
            Kind::Turns if turn > 1 && test.cold.get() > 0 => WAIT,
            Kind::Turns => COUNTED_TURN,
            Kind::Unmaps | Kind::Left => TURN,
        };
        program.compute(random.below(longest));
        page.load(program)?;
        if turn == 1 {
            test.warm(program);
            if test.kind == Kind::Left && process == 0 {
                return Ok(());
            }
        }
        if test.is_over(program, true) {
            break;
        }
        program.yield_cpu();
    }
    Ok(())
}

/// The thread whose unmaps are timed.
fn unmap(
    program: &Program,
    test: &Test,
    reference: &Reference,
    random: &mut Random,
) -> Result<(), FaultError> {
    while !test.is_over(program, false) {
        program.compute(random.below(PAUSE));
        let base = map(program)?;
        // Its loads find the zeros of a new page, also those that the CPU could make before the store.
        reference.is_new_at(base);
        reference.load_held(program, base);
        reference.store(program, base)?;
        reference.load(program, base)?;
        let (begun, measured) = (program.now(), test.first.get().is_some());
        let unmapped = program.system_call(|memory, space| memory.unmap(space, base, Pages::new(1)));
        unmapped.map_err(|_| FaultError::NotMapped(base))?;
        if measured {
            test.latencies.add(program.now() - begun);
        }
    }
    Ok(())
}
