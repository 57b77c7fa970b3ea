//! The scenarios of `ceasefire-conformance` on the simulated machine, with every mechanism.
//!
//! The oracle checks the same runs.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use ceasefire::Schedule;
use ceasefire_conformance::{check, scenarios, Ability, Away, Cpu, Failed, Job, Kernel, Stage, Verdict};
use ceasefire_machine::config::{builtin, Machine};
use ceasefire_machine::{Options, Program, Simulation};
use ceasefire_memory::{Pages, Placement, Protection};

use crate::common::guards::{self, Guard};
use crate::common::{at, machine, run, SCHEDULES, US};

const CPUS: u16 = 4;
const ROUNDS: u32 = 20;
/// The address of the first page under test. Mappings without an address of their own lie far below.
const BASE: u64 = 1 << 40;
/// It has no addresses of the kernel, and programs cannot turn interrupts off. Their memory is no file's, so it is written
/// out before it is taken: `luf` tests that.
const LACKING: [Ability; 3] = [Ability::KernelRanges, Ability::InterruptsOff, Ability::Evict];
/// Pages of free memory that are used at a time.
const REUSED: u64 = 32;

/// The simulated machine. Each job runs on a new one.
struct Simulated {
    schedule: Schedule,
    broadcast: bool,
    without: &'static [Guard],
    /// Rules that the oracle has seen broken.
    broken: Cell<u64>,
}

impl Simulated {
    fn new(schedule: Schedule, broadcast: bool) -> Self {
        Self { schedule, broadcast, without: &[], broken: Cell::new(0) }
    }

    fn hardware(&self) -> Machine {
        let mut hardware = machine(&[CPUS], 16 << 10);
        if self.broadcast {
            hardware.processor = builtin("milan-36").expect("a listed name").expect("a valid file").processor;
        }
        hardware
    }
}

/// A CPU of it.
struct Simulant {
    program: Program,
    number: usize,
    /// A thread of another space runs on this CPU, whenever this one gives way.
    accompanied: Cell<bool>,
    over: Rc<Cell<bool>>,
}

fn place(page: usize) -> u64 {
    at(BASE, page as u64)
}

fn failed<E: std::fmt::Debug>(error: E) -> Failed {
    panic!("{error:?}: the machine has memory for every call of a scenario");
}

impl Cpu for Simulant {
    fn number(&self) -> usize {
        self.number
    }

    fn pause(&self) {
        self.program.compute(US);
    }

    fn map(&self, page: usize, word: u64) -> Result<(), Failed> {
        let one = Pages::new(1);
        let fresh = self.program.system_call(|memory, space| memory.map_anonymous(space, one));
        let fresh = fresh.map_err(failed)?;
        self.program.store(fresh, 1, word).map_err(failed)?;
        let to = Placement::At(place(page));
        let moved = self.program.system_call(|memory, space| memory.remap(space, fresh, one, one, to));
        moved.map(drop).map_err(failed)
    }

    fn unmap(&self, ranges: &[Range<usize>]) -> Result<(), Failed> {
        ranges.iter().try_for_each(|range| {
            let (start, pages) = (place(range.start), Pages::new(range.len() as u64));
            self.program.system_call(|memory, space| memory.unmap(space, start, pages)).map_err(failed)
        })
    }

    fn protect(&self, page: usize) -> Result<(), Failed> {
        let one = Pages::new(1);
        let call = self
            .program
            .system_call(|memory, space| memory.protect(space, place(page), one, Protection::Read));
        call.map_err(failed)
    }

    fn load(&self, page: usize) -> Option<u64> {
        self.program.load(place(page), 1).ok()
    }

    fn store(&self, page: usize, word: u64) -> bool {
        self.program.store(place(page), 1, word).is_ok()
    }

    fn reuse(&self, word: u64) -> Result<(), Failed> {
        let pages = Pages::new(REUSED);
        let start = self.program.system_call(|memory, space| memory.map_anonymous(space, pages));
        let start = start.map_err(failed)?;
        for page in 0..REUSED {
            self.program.store(at(start, page), 1, word).map_err(failed)?;
        }
        self.program.system_call(|memory, space| memory.unmap(space, start, pages)).map_err(failed)
    }

    fn away(&self, to: Away, until: &dyn Fn() -> bool) {
        let leave = || match to {
            Away::Idle => self.program.sleep(20 * US),
            Away::OtherSpace => self.program.yield_cpu(),
        };
        if to == Away::OtherSpace && !self.accompanied.replace(true) {
            let other = self.program.memory().new_space().expect("a frame");
            let over = self.over.clone();
            let accompany = move |program: &Program| {
                while !over.get() {
                    program.compute(US);
                    program.yield_cpu();
                }
            };
            self.program.spawn("other", self.number as u16, &other, accompany).expect("a stack");
        }
        leave();
        while !until() {
            leave();
        }
    }

    fn remap(&self, from: usize, to: usize) -> Result<(), Failed> {
        let (one, to) = (Pages::new(1), Placement::At(place(to)));
        let call = self.program.system_call(|memory, space| memory.remap(space, place(from), one, one, to));
        call.map(drop).map_err(failed)
    }
}

impl Kernel for Simulated {
    type Cpu = Simulant;

    fn cpus(&self) -> usize {
        CPUS.into()
    }

    fn run(&self, job: Job<Simulant>) {
        let options = Options { contents: true, broadcast: self.broadcast, ..Options::new(self.schedule) };
        let simulation = Simulation::new(&self.hardware(), options).expect("the machine fits the host");
        guards::remove(simulation.memory(), self.without.iter().copied());
        let space = simulation.memory().new_space().expect("a frame");
        let (over, ended) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        for number in 0..CPUS {
            let (over, ended) = (over.clone(), ended.clone());
            let act = move |program: &Program| {
                let (program, accompanied) = (program.clone(), Cell::new(false));
                job.run(&Simulant { program, number: number.into(), accompanied, over: over.clone() });
                ended.set(ended.get() + 1);
                over.set(ended.get() == CPUS);
            };
            simulation.spawn(format!("cpu{number}"), number, 0, &space, act).expect("a stack");
        }
        let outcome = run(&simulation);
        self.broken.set(self.broken.get() + outcome.violations);
        if self.without.is_empty() {
            assert_eq!(outcome.violations, 0, "{:#?}", outcome.broken);
        }
    }

    fn lacks(&self, ability: Ability) -> bool {
        LACKING.contains(&ability)
    }
}

fn stage() -> &'static Stage {
    Box::leak(Box::default())
}

/// Every mechanism: the schedules, with interrupts and with broadcasts.
fn mechanisms() -> impl Iterator<Item = Simulated> {
    SCHEDULES
        .into_iter()
        .flat_map(|schedule| [false, true].map(|broadcast| Simulated::new(schedule, broadcast)))
}

#[test]
fn every_mechanism_conforms() {
    let stage = stage();
    for kernel in mechanisms() {
        for scenario in scenarios() {
            let verdict = check(&kernel, stage, &scenario, ROUNDS);
            let mechanism = (kernel.schedule, kernel.broadcast);
            match verdict {
                Verdict::Passed { accesses } => {
                    assert!(accesses >= ROUNDS.into(), "{}: {verdict}", scenario.name);
                }
                Verdict::Lacks(ability) => {
                    assert!(LACKING.contains(&ability), "{}: {verdict}", scenario.name);
                }
                other => panic!("{} with {mechanism:?}: {other}", scenario.name),
            }
        }
    }
}

/// Without a guard the scenarios find what the oracle sees.
#[cfg(ceasefire_sabotage)]
#[test]
fn a_guard_that_is_gone_is_missed() {
    use crate::common::guards::Engine;

    let stage = stage();
    for (guard, broadcast) in
        [(&[Guard::Engine(Engine::GatherFlush)], false), (&[Guard::Engine(Engine::Transition)], true)]
    {
        let kernel = Simulated { without: guard, ..Simulated::new(Schedule::Batched, broadcast) };
        let verdicts = scenarios().map(|scenario| (scenario.name, check(&kernel, stage, &scenario, ROUNDS)));
        let found = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Broken(_)));
        let found: Vec<&str> = found.map(|(name, _)| *name).collect();
        println!("without {guard:?}: {found:?}, oracle {}", kernel.broken.get());
        assert!(!found.is_empty(), "{guard:?}: {verdicts:?}");
        assert!(kernel.broken.get() > 0, "{guard:?}");
    }
}
