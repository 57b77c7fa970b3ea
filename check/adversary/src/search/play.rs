//! Plays a scenario: sets its machine up, runs a coroutine for each CPU, and takes the machine apart.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use ceasefire::Engine;

use super::scenario::{ManagedProgram, Managing, Program, Scenario};
use crate::hardware::memories::Memories;
use crate::hardware::platform::Adverse;
use crate::hardware::{Broken, Hardware, Model};
use crate::model::removed::Removed;
use crate::model::rule::Rule;
use crate::model::schedule::{self, give_up, Ran};
use crate::subject::kernel::tables::Tables;
use crate::subject::kernel::{Kernel, Small, FRAMES};
use crate::subject::manager::{Manager, Record};

/// What runs on the machine.
#[derive(Debug, Clone)]
enum Running {
    Kernel(Rc<Kernel>),
    Manager(Rc<Manager>),
}

impl Running {
    fn hardware(&self) -> &Hardware {
        match self {
            Self::Kernel(kernel) => kernel.hardware(),
            Self::Manager(manager) => manager.hardware(),
        }
    }
}

thread_local! {
    /// The kernel whose CPUs run on this thread of the host.
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

fn running() -> Option<Running> {
    RUNNING.with_borrow(Clone::clone)
}

fn handle_unmasked() {
    if let Some(Running::Kernel(kernel)) = running() {
        kernel.read_if_allowed();
    }
}

fn handle_interrupt() {
    match running() {
        Some(Running::Kernel(kernel)) => kernel.engine.handle_interrupt(),
        Some(Running::Manager(manager)) => manager.memory.engine().handle_interrupt(),
        None => {}
    }
}

impl Scenario {
    /// Sets up the machine and runs it to its end, inside a run of the scheduler.
    fn play(&self, removed: &'static [Removed], recorded: bool) {
        let model = Model {
            cpus: self.cpus(),
            frames: FRAMES,
            devices: self.devices,
            capabilities: self.capabilities(),
            elsewhere: self.elsewhere,
            unmasked: self.unmasked,
            // The record of the memory manager asks when each store was made.
            late: self.manager.is_none(),
            eagerness: [1, 2, 4, 16][schedule::below(4) as usize],
            removed,
        };
        let exchanged = removed.iter().find_map(|removed| match removed {
            Removed::Order(pair) => Some(*pair),
            _ => None,
        });
        ceasefire_atomics::exchange(exchanged.unwrap_or(0));
        let machine = |model: Model, paging| {
            let handlers = (handle_interrupt as fn(), handle_unmasked as fn());
            let hardware = Rc::new(Hardware::new(model, paging, recorded, handlers));
            ceasefire_atomics::install(Some(Rc::new(Memories(Rc::clone(&hardware)))));
            hardware
        };
        match self.manager {
            None => {
                let tables = Rc::new(Tables::new(FRAMES));
                let hardware = machine(model, tables.clone());
                let engine = Engine::new(Adverse::new(hardware, Small)).with_bounds(self.bounds());
                remove_guards(&engine, removed);
                self.play_kernel(Rc::new(Kernel::new(engine, tables)));
            }
            Some(managing) => {
                let config = managing.configure(self.cpus(), self.lazy);
                let frames = config.nodes.iter().map(|node| node.frames as usize).sum();
                let record = Rc::new(Record::new(frames));
                let hardware = machine(Model { frames, ..model }, record.clone());
                let manager = Rc::new(Manager::new(hardware, record, config));
                remove_guards(manager.memory.engine(), removed);
                for removed in removed {
                    if let Removed::Manager(guard) = removed {
                        manager.memory.remove_guard(*guard);
                    }
                }
                managing.play(manager);
            }
        }
    }

    fn play_kernel(&self, kernel: Rc<Kernel>) {
        RUNNING.set(Some(Running::Kernel(kernel.clone())));
        let hardware = kernel.hardware();
        (0..self.cpus()).for_each(|cpu| hardware.act(cpu, || kernel.engine.online()));
        (self.before)(&kernel);
        run_all(hardware, self.programs.iter().map(|&program| Starts::Kernel(program)));
    }

    /// Runs the scenario with each seed until `ended` returns false.
    pub(crate) fn search(
        &self,
        removed: &'static [Removed],
        recorded: bool,
        seeds: std::ops::Range<u64>,
        mut ended: impl FnMut(Outcome) -> bool + 'static,
    ) {
        let scenario = *self;
        schedule::each(seeds, move || scenario.play(removed, recorded), move |ran| ended(Outcome::take(ran)));
    }
}

impl Managing {
    fn play(&self, manager: Rc<Manager>) {
        RUNNING.set(Some(Running::Manager(manager.clone())));
        let hardware = manager.hardware();
        let engine = manager.memory.engine();
        (0..self.programs.len()).for_each(|cpu| hardware.act(cpu, || engine.online()));
        (self.before)(&manager);
        run_all(hardware, self.programs.iter().map(|&program| Starts::Manager(program)));
    }
}

fn remove_guards<P: ceasefire::Platform>(engine: &Engine<P>, removed: &[Removed]) {
    for removed in removed {
        if let Removed::Guard(guard) = removed {
            engine.remove_guard(*guard);
        }
    }
}

/// The program of one CPU.
#[derive(Debug, Clone, Copy)]
enum Starts {
    Kernel(Program),
    Manager(ManagedProgram),
}

/// Starts a coroutine for each program, and waits until all have ended.
fn run_all(hardware: &Hardware, programs: impl Iterator<Item = Starts>) {
    hardware.start();
    let threads: Vec<_> = programs.map(|program| shuttle::thread::spawn(move || act(program))).collect();
    for thread in threads {
        // A program that panics has said so.
        let _ = thread.join();
    }
    hardware.end();
}

/// Runs the program of the CPU that this coroutine is.
fn act(program: Starts) {
    let Some(running) = running() else { return };
    let run = catch_unwind(AssertUnwindSafe(|| match (program, &running) {
        (Starts::Kernel(program), Running::Kernel(kernel)) => program(kernel),
        (Starts::Manager(program), Running::Manager(manager)) => program(manager),
        _ => unreachable!("a scenario starts programs of its own kernel"),
    }));
    if let Err(panic) = run {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let hardware = running.hardware();
        hardware.break_rule(Rule::Ends, hardware.me(), text.unwrap_or("it panicked").to_owned());
        give_up();
        return;
    }
    // A CPU that has ended its program still answers interrupts, and takes the last ones.
    running.hardware().retire();
}

/// The end of one run.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) ran: Ran,
    pub(crate) broken: Option<Broken>,
    pub(crate) digest: u64,
    /// The history, if it was recorded.
    pub(crate) timeline: String,
}

impl Outcome {
    /// Takes the machine of the run that has just ended apart.
    fn take(ran: Ran) -> Self {
        ceasefire_atomics::install(None);
        let Some(running) = RUNNING.take() else {
            return Self { ran, broken: None, digest: 0, timeline: String::new() };
        };
        let hardware = running.hardware();
        let endless =
            ran.endless.then(|| Broken { rule: Rule::Ends, what: format!("after {} steps", ran.steps) });
        let timeline = hardware.timeline.borrow();
        Self {
            ran,
            broken: hardware.broken().or(endless),
            digest: timeline.digest(),
            timeline: timeline.to_string(),
        }
    }
}
