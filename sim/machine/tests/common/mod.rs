//! Small machines, and helpers for the programs that run on them.

// Every test binary uses a part of this.
#![allow(dead_code)]

#[path = "../../../../memory/tests/common/guards.rs"]
pub(crate) mod guards;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use ceasefire::Schedule;
use ceasefire_machine::config::{builtin, Effect, Latency, Machine, Node, Picoseconds, TlbLevel, Topology};
use ceasefire_machine::{Options, Outcome, Program, Rule, Simulation, TraceFormat, TraceOutput};
use ceasefire_memory::PAGE_BYTES;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// A microsecond.
pub(crate) const US: Picoseconds = 1_000_000;
/// A second.
pub(crate) const SECOND: Picoseconds = 1_000_000 * US;
/// The latency between any two CPUs of [`machine`].
pub(crate) const FAR: Picoseconds = 104_000;
/// All schedules.
pub(crate) const SCHEDULES: [Schedule; 3] = [Schedule::PerPage, Schedule::Batched, Schedule::Lazy];

/// A machine whose CPUs are all equally far from each other, with `kib` of memory on each node.
pub(crate) fn machine(cpus_of_nodes: &[u16], kib: u64) -> Machine {
    let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
    let mut machine = machine.without(&Effect::ALL);
    let mut first = 0;
    let mut node = |&cpus: &u16| {
        let numbers = (first..first + cpus).collect();
        first += cpus;
        Node { cpus: numbers, bytes: kib << 10, tier: 0 }
    };
    let nodes = cpus_of_nodes.iter().map(&mut node).collect();
    machine.topology = Topology::new(nodes).expect("a valid topology");
    machine.latency = Latency::uniform(first, FAR);
    machine
}

/// The same machine with a TLB of a few entries.
pub(crate) fn with_small_tlb(mut machine: Machine) -> Machine {
    machine.tlb.l1 = TlbLevel::new(8, 4).expect("valid");
    machine.tlb.l2 = TlbLevel::new(16, 4).expect("valid");
    machine
}

/// The time before a thread's first instruction on a CPU that has not run its space before.
pub(crate) fn arrival(machine: &Machine) -> Picoseconds {
    machine.costs.context_switch + machine.costs.root_load + machine.costs.invalidate_asid
}

/// The same on the last of several CPUs that come to a space at once, `earlier` of them before it: its CPU waits for the
/// line of the set of CPUs until each of them has had it, and then for that of the count of references.
pub(crate) fn arrival_after(earlier: u64, machine: &Machine) -> Picoseconds {
    arrival(machine) + (earlier + 1) * FAR
}

pub(crate) fn simulation(machine: &Machine, schedule: Schedule) -> Simulation {
    Simulation::new(machine, Options::new(schedule)).expect("the machine fits the host")
}

pub(crate) fn run(simulation: &Simulation) -> Outcome {
    simulation.run(|_, _| true).expect("no trace to be written")
}

/// A program's time, in nanoseconds.
pub(crate) fn now(program: &Program) -> u64 {
    use ceasefire::Platform as _;
    program.memory().platform().now()
}

/// Runs, and asserts that no rule was broken.
pub(crate) fn run_clean(simulation: &Simulation) -> Outcome {
    let outcome = run(simulation);
    let broken: Vec<String> = outcome.broken.iter().map(ToString::to_string).collect();
    assert_eq!(outcome.violations, 0, "{broken:#?}, {:#?}", outcome.misuses);
    outcome
}

/// The broken rules, each once.
pub(crate) fn rules(outcome: &Outcome) -> Vec<Rule> {
    let mut rules: Vec<Rule> = outcome.broken.iter().map(|violation| violation.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// The time at which the thread called `name` ended.
pub(crate) fn ended(outcome: &Outcome, name: &str) -> Picoseconds {
    let thread = outcome.threads.iter().find(|thread| thread.name == name).expect("a thread of that name");
    thread.ended.expect("it ended")
}

/// The address of page `page` of a mapping at `base`.
pub(crate) fn at(base: u64, page: u64) -> u64 {
    base + page * PAGE_BYTES
}

/// Random numbers that are the same in every run. The number in it is the seed of all that follow.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let number = SplitMix64::seed_from_u64(self.0).next_u64();
        // The step of the generator's state.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number % bound
    }
}

/// A trace that can be read while and after the machine writes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// This sink as the output of a run.
    pub(crate) fn output(&self, format: TraceFormat) -> TraceOutput {
        TraceOutput::new(self.clone(), format)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("a trace is text")
    }

    /// The time in picoseconds and the CPU of each event whose line contains `what`.
    pub(crate) fn lines(&self, what: &str) -> Vec<(Picoseconds, usize)> {
        let text = self.text();
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let (micros, nanos) = words.next()?.split_once('.')?;
            let time = micros.parse::<u64>().ok()? * US + nanos.parse::<u64>().ok()? * 1000;
            Some((time, words.next()?.parse().ok()?))
        };
        text.lines()
            .filter(|line| !line.starts_with('#') && line.contains(what))
            .map(|line| parse(line).unwrap_or_else(|| panic!("not a trace line: {line}")))
            .collect()
    }
}
