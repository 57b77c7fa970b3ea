//! A scenario: a known bug as a program for a few CPUs, the guard that excludes it, and the rule that breaks without.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use ceasefire::sabotage::Guard;
use ceasefire::{Bounds, Broadcast, Capabilities, Engine, Holders, Payment};
use ceasefire_atomics::Ordering;

use crate::hardware::{Broken, Hardware, Memories, Model};
use crate::kernel::Kernel;
use crate::platform::Adverse;
use crate::promise::Promise;
use crate::rule::Rule;
use crate::schedule::{self, give_up, Ran};
use crate::sites::Access;

/// What a scenario takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// A guard of the engine.
    Guard(Guard),
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
};

thread_local! {
    /// The kernel whose CPUs run on this thread of the host.
    static KERNEL: RefCell<Option<Rc<Kernel>>> = const { RefCell::new(None) };
}

fn kernel() -> Option<Rc<Kernel>> {
    KERNEL.with_borrow(Clone::clone)
}

fn handle_unmasked() {
    if let Some(kernel) = kernel() {
        kernel.read_if_allowed();
    }
}

fn handle_interrupt() {
    if let Some(kernel) = kernel() {
        kernel.engine.handle_interrupt();
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
        self.programs.len() - self.devices
    }

    /// Sets up the machine and runs it to its end, inside a run of the scheduler.
    fn play(&self, removed: &'static [Removed], recorded: bool) {
        let model = Model {
            cpus: self.cpus(),
            devices: self.devices,
            capabilities: self.capabilities(),
            elsewhere: self.elsewhere,
            unmasked: self.unmasked,
            eagerness: [1, 2, 4, 16][schedule::below(4) as usize],
            removed,
        };
        let exchanged = removed.iter().find_map(|removed| match removed {
            Removed::Order(pair) => Some(*pair),
            _ => None,
        });
        ceasefire_atomics::exchange(exchanged.unwrap_or(0));
        let hardware = Rc::new(Hardware::new(model, recorded, (handle_interrupt, handle_unmasked)));
        ceasefire_atomics::install(Some(Rc::new(Memories(Rc::clone(&hardware)))));
        let bounds = if self.lazy {
            Bounds::new(AGE, TICK, Payment::Free).unwrap_or(Bounds::STRICT)
        } else {
            Bounds::STRICT
        };
        let engine = Engine::new(Adverse::new(Rc::clone(&hardware))).with_bounds(bounds);
        for removed in removed {
            if let Removed::Guard(guard) = removed {
                engine.remove_guard(*guard);
            }
        }
        let kernel = Rc::new(Kernel::new(engine));
        KERNEL.set(Some(Rc::clone(&kernel)));
        (0..self.cpus()).for_each(|cpu| hardware.act(cpu, || kernel.engine.online()));
        (self.before)(&kernel);
        hardware.start();
        let threads: Vec<_> =
            self.programs.iter().map(|&program| shuttle::thread::spawn(move || act(program))).collect();
        for thread in threads {
            // A program that panics has said so.
            let _ = thread.join();
        }
        hardware.end();
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

/// Runs the program of the CPU that this coroutine is.
fn act(program: Program) {
    let Some(kernel) = kernel() else { return };
    let run = catch_unwind(AssertUnwindSafe(|| program(&kernel)));
    if let Err(panic) = run {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let hardware = kernel.hardware();
        hardware.break_rule(Rule::Ends, hardware.me(), text.unwrap_or("it panicked").to_owned());
        give_up();
        return;
    }
    // A CPU that has ended its program still answers interrupts, and takes the last ones.
    kernel.hardware().retire();
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
        let kernel = KERNEL.take();
        let Some(kernel) = kernel else {
            return Self { ran, broken: None, digest: 0, timeline: String::new() };
        };
        let hardware = kernel.hardware();
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
