//! Schedules: which CPU takes the next step, and every other choice of a run, from one number.
//!
//! A seed determines the run. Shuttle runs each CPU as a coroutine on one thread of the host and asks a scheduler at
//! each step. A run prefers to stay on one CPU, by an amount that its seed chooses: long stretches find what needs one
//! CPU to get far while another stands still, short ones what needs many exchanges.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use rand_xoshiro::rand_core::{Rng, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// A run that takes more steps makes no progress.
const MOST_STEPS: u32 = 200_000;

/// What the scheduler and the run tell each other. A thread of the host runs one run at a time.
#[derive(Debug)]
struct Progress {
    /// The number of the run.
    run: Cell<u32>,
    random: RefCell<SplitMix64>,
    steps: Cell<u32>,
    given_up: Cell<bool>,
    running: Cell<bool>,
}

thread_local! {
    static PROGRESS: Progress = Progress {
        run: Cell::new(0),
        random: RefCell::new(SplitMix64::seed_from_u64(0)),
        steps: Cell::new(0),
        given_up: Cell::new(false),
        running: Cell::new(false),
    };
}

/// Ends the run at its next step: what follows tells nothing more.
pub(crate) fn give_up() {
    PROGRESS.with(|progress| progress.given_up.set(true));
}

/// Whether a run is under way on this thread of the host.
pub(crate) fn is_running() -> bool {
    PROGRESS.with(|progress| progress.running.get())
}

/// The number of the run on this thread of the host.
pub(crate) fn run() -> u32 {
    PROGRESS.with(|progress| progress.run.get())
}

/// The steps of the run so far.
pub(crate) fn steps() -> u32 {
    PROGRESS.with(|progress| progress.steps.get())
}

/// The next random number of the run.
pub(crate) fn random() -> u64 {
    PROGRESS.with(|progress| progress.random.borrow_mut().next_u64())
}

/// A random number below `bound`, which is at least 1.
pub(crate) fn below(bound: u32) -> u32 {
    (((random() >> 32) * u64::from(bound)) >> 32) as u32
}

/// The things in their order or in the reverse.
pub(crate) fn in_some_order<T>(things: impl Iterator<Item = T>) -> Vec<T> {
    let mut things: Vec<T> = things.collect();
    if below(2) == 0 {
        things.reverse();
    }
    things
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) seed: u64,
    pub(crate) steps: u32,
    /// It was ended because it made no progress.
    pub(crate) endless: bool,
}

struct Seeded<E> {
    seeds: Range<u64>,
    running: Option<u64>,
    /// The CPU changes at one step in this many.
    patience: u32,
    ended: E,
}

impl<E: FnMut(Ran) -> bool> Seeded<E> {
    /// The run that has just ended, if there was one, decides whether another follows.
    fn goes_on(&mut self) -> bool {
        let Some(seed) = self.running.take() else { return true };
        let steps = PROGRESS.with(|progress| {
            progress.running.set(false);
            progress.steps.get()
        });
        (self.ended)(Ran { seed, steps, endless: steps > MOST_STEPS })
    }
}

impl<E: FnMut(Ran) -> bool> Scheduler for Seeded<E> {
    fn new_execution(&mut self) -> Option<Schedule> {
        if !self.goes_on() {
            self.seeds.end = self.seeds.start;
        }
        let seed = self.seeds.next()?;
        self.running = Some(seed);
        PROGRESS.with(|progress| {
            progress.run.set(progress.run.get().wrapping_add(1));
            progress.random.replace(SplitMix64::seed_from_u64(seed));
            progress.steps.set(0);
            progress.given_up.set(false);
            progress.running.set(true);
        });
        self.patience = 1 << below(7);
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, yields: bool) -> Option<TaskId> {
        let (steps, given_up) = PROGRESS.with(|progress| {
            progress.steps.set(progress.steps.get() + 1);
            (progress.steps.get(), progress.given_up.get())
        });
        if given_up || steps > MOST_STEPS {
            return None;
        }
        let stays = current.filter(|current| runnable.iter().any(|task| task.id() == *current));
        if let Some(current) = stays {
            if runnable.len() == 1 || (!yields && below(self.patience) != 0) {
                return Some(current);
            }
        }
        // A CPU that waits lets another go first.
        let others = runnable.iter().filter(|task| !yields || Some(task.id()) != stays);
        let chosen = below(others.clone().count() as u32) as usize;
        others.map(|task| task.id()).nth(chosen)
    }

    fn next_u64(&mut self) -> u64 {
        random()
    }
}

/// Runs `body` once for each seed, until `ended` returns false. `ended` is called after each run, outside it.
pub(crate) fn each(
    seeds: Range<u64>,
    body: impl Fn() + Send + Sync + 'static,
    ended: impl FnMut(Ran) -> bool + 'static,
) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::None;
    config.silence_warnings = true;
    let scheduler = Seeded { seeds, running: None, patience: 1, ended };
    Runner::new(scheduler, config).run(body);
}
