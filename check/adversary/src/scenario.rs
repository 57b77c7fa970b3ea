//! A scenario: a known bug as a program for a few CPUs, the guard that excludes it, and the rule that breaks without.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use ceasefire::sabotage::Guard;
use ceasefire::{Bounds, Broadcast, Capabilities, Engine, Holders, Payment, Schedule};
use ceasefire_atomics::Ordering;
use ceasefire_memory::{Config, Lazy};

use crate::hardware::{Broken, Hardware, Memories, Model};
use crate::kernel::{Kernel, Small, FRAMES};
use crate::manager::{Manager, Record};
use crate::platform::Adverse;
use crate::promise::Promise;
use crate::rule::Rule;
use crate::schedule::{self, give_up, Ran};
use crate::sites::Access;
use crate::tables::Tables;

/// What a scenario takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// A guard of the engine.
    Guard(Guard),
    /// A guard of the memory manager.
    Manager(ceasefire_memory::sabotage::Guard),
    /// A promise of the hardware or of the platform.
    Promise(Promise),
    /// The ordering of an access, down to this one.
    Ordering(Access, Ordering),
    /// The order of two statements, in a copy of the engine: see `swaps`.
    Order(u32),
}

impl Removed {
    /// Its name on the command line.
    pub fn name(self) -> String {
        let name = match self {
            Self::Guard(guard) => format!("{guard:?}"),
            Self::Manager(guard) => format!("{guard:?}"),
            Self::Promise(promise) => format!("{promise:?}"),
            Self::Ordering(Access { site, .. }, to) => return format!("{site}={to:?}"),
            Self::Order(pair) => return format!("pair {pair}"),
        };
        let mut words = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !words.is_empty() {
                words.push('-');
            }
            words.extend(letter.to_lowercase());
        }
        words
    }
}

/// How flushes are carried on the scenario's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// By interrupts, with ASIDs.
    Interrupts,
    /// By interrupts; every switch flushes.
    NoAsids,
    /// By broadcasts for every space (Arm).
    Broadcasts,
    /// By broadcasts for spaces that many CPUs run, by interrupts for others (x86).
    Both,
    /// By broadcasts, on hardware whose entries carry no ASIDs.
    Untagged,
}

/// A program of one CPU, or of the device.
pub(crate) type Program = fn(&Kernel);

/// A known bug, as a schedule that can be searched for.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name: the entry of the record of bugs, and a few words.
    pub name: &'static str,
    /// Where the bug was: the system, and the fix.
    pub source: &'static str,
    /// What excludes it, and the rules of which one breaks without. Where two guards exclude it, both are taken away.
    pub guards: &'static [(&'static [Removed], &'static [Rule])],
    pub(crate) carried: Carried,
    pub(crate) lazy: bool,
    pub(crate) elsewhere: bool,
    pub(crate) unmasked: bool,
    pub(crate) devices: usize,
    /// Runs before the CPUs start, as CPU 0.
    pub(crate) before: Program,
    /// One program for each CPU, and then one for the device.
    pub(crate) programs: &'static [Program],
    /// The memory manager in place of the small kernel.
    pub(crate) manager: Option<Managing>,
}

/// A program of one CPU on the memory manager.
pub(crate) type ManagedProgram = fn(&Manager);

/// What runs on the memory manager.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Managing {
    pub(crate) config: fn() -> Config,
    /// Runs before the CPUs start, as CPU 0.
    pub(crate) before: ManagedProgram,
    /// One program for each CPU.
    pub(crate) programs: &'static [ManagedProgram],
}

/// A scenario on CPUs that interrupt each other, with no device.
pub(crate) const PLAIN: Scenario = Scenario {
    name: "",
    source: "",
    guards: &[],
    carried: Carried::Interrupts,
    lazy: false,
    elsewhere: false,
    unmasked: false,
    devices: 0,
    before: |_| (),
    programs: &[],
    manager: None,
};

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

/// The age that debts may reach in a lazy scenario, and the time between two ticks, in nanoseconds.
pub(crate) const AGE: u64 = 2 * TICK;
pub(crate) const TICK: u64 = 100;

impl Scenario {
    fn capabilities(&self) -> Capabilities {
        let every = Broadcast::new(9, 2, Holders::Every).ok();
        let wide = Broadcast::new(9, 2, Holders::Wide).ok();
        let (asids, broadcast) = match self.carried {
            Carried::Interrupts => (true, None),
            Carried::NoAsids => (false, None),
            Carried::Broadcasts => (true, every),
            Carried::Both => (true, wide),
            Carried::Untagged => (false, every),
        };
        Capabilities { clean_stores_walk: true, asids, broadcast }
    }

    fn cpus(&self) -> usize {
        self.manager.map_or(self.programs.len() - self.devices, |managing| managing.programs.len())
    }

    fn bounds(&self) -> Bounds {
        if self.lazy {
            Bounds::new(AGE, TICK, Payment::Free).unwrap_or(Bounds::STRICT)
        } else {
            Bounds::STRICT
        }
    }

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
    /// The configuration for so many CPUs. With `lazy`, debts wait.
    fn configure(&self, cpus: usize, lazy: bool) -> Config {
        let mut config = (self.config)();
        config.cpus = cpus;
        if lazy {
            config.schedule = Schedule::Lazy;
            config.lazy = Lazy { max_age: AGE, tick: TICK, ..config.lazy };
        }
        config
    }

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
