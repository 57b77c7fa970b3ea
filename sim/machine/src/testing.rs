//! Small machines for tests, and page tables that the memory manager would not write.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ceasefire::{PageSize, Schedule};
use ceasefire_memory::{Entry, FrameNumber, Machine as _, Pages, Table, PAGE_BYTES, PAGE_SHIFT};

use crate::config::{builtin, Effect, Latency, Machine, Node, Picoseconds, Topology};
use crate::{Options, Outcome, Program, Rule, Simulation};

pub(crate) const US: Picoseconds = 1_000_000;
/// The latency between any two CPUs.
pub(crate) const FAR: Picoseconds = 104_000;

/// One node of `cpus`, all equally far from each other.
pub(crate) fn machine(cpus: u16) -> Machine {
    let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
    let mut machine = machine.without(&Effect::ALL);
    let node = Node { cpus: (0..cpus).collect(), bytes: 4 << 20, tier: 0 };
    machine.topology = Topology::new(vec![node]).expect("a valid topology");
    machine.latency = Latency::uniform(cpus, FAR);
    machine
}

/// The start and the body of a thread.
pub(crate) type Thread = (Picoseconds, Box<dyn FnOnce(&Program)>);

pub(crate) fn thread(start: Picoseconds, body: impl FnOnce(&Program) + 'static) -> Thread {
    (start, Box::new(body))
}

pub(crate) fn now(program: &Program) -> Picoseconds {
    program.sim.cpu().clock.get()
}

/// The bits of an entry (Intel SDM volume 3, section 4.5).
pub(crate) const PRESENT: u64 = 1;
pub(crate) const WRITABLE: u64 = 1 << 1;
pub(crate) const USER: u64 = 1 << 2;
pub(crate) const LARGE: u64 = 1 << 7;
/// The bit that the memory manager sets in an entry that it hides.
pub(crate) const HIDDEN: u64 = 1 << 9;

/// The first of 512 frames that the memory manager does not use in a short test.
pub(crate) const FRAME: u32 = 2048;

/// One node of `cpus` with 16 MiB.
pub(crate) fn roomy(cpus: u16) -> Machine {
    let mut machine = machine(cpus);
    let node = Node { cpus: (0..cpus).collect(), bytes: 16 << 20, tier: 0 };
    machine.topology = Topology::new(vec![node]).expect("a valid topology");
    machine
}

/// One page-table entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// The first address that it translates.
    pub(crate) address: u64,
    table: FrameNumber,
    index: usize,
}

impl Slot {
    /// The entry of `size` for `address`. The page tables above it must exist.
    pub(crate) fn of(program: &Program, address: u64, size: PageSize) -> Self {
        let level = match size {
            PageSize::KIB_4 => 0,
            _ => 1,
        };
        let table = (level + 1..4).rev().fold(program.space.root(), |table, level| {
            let entry: Entry = program.sim.table(table).get(Table::index(address, level));
            assert!(entry.present(), "no table of level {} for {address:#x}", level - 1);
            entry.frame()
        });
        Self { address: address & !(size.bytes() - 1), table, index: Table::index(address, level) }
    }

    /// A private small page that has been stored to, with its own page tables.
    pub(crate) fn small(program: &Program) -> Self {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room");
        program.store(base, 1, 0).expect("a mapped page");
        Self::of(program, base, PageSize::KIB_4)
    }

    /// A huge page that leads to [`FRAME`], unknown to the memory manager.
    pub(crate) fn huge(program: &Program) -> Self {
        let beside = Self::small(program).address;
        let slot = Self::of(program, beside ^ 1 << PageSize::MIB_2.shift(), PageSize::MIB_2);
        slot.set(program, u64::from(FRAME) << PAGE_SHIFT | PRESENT | WRITABLE | USER | LARGE);
        slot
    }

    pub(crate) fn get(self, program: &Program) -> u64 {
        program.sim.ram.words(self.table)[self.index].load(Ordering::Relaxed)
    }

    pub(crate) fn set(self, program: &Program, entry: u64) {
        program.sim.ram.words(self.table)[self.index].store(entry, Ordering::Relaxed);
    }

    /// The address of a page in a huge page.
    pub(crate) fn at(self, page: u64) -> u64 {
        self.address + page * PAGE_BYTES
    }
}

/// Runs threads of one space, each on its own CPU, without slack.
pub(crate) fn run_on(machine: &Machine, threads: Vec<Thread>) -> Outcome {
    run_as(machine, Options::new(Schedule::Batched), threads)
}

fn run_as(machine: &Machine, options: Options, threads: Vec<Thread>) -> Outcome {
    let simulation = Simulation::new(machine, options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    for (cpu, (start, body)) in threads.into_iter().enumerate() {
        simulation.spawn(format!("{cpu}"), cpu as u16, start, &space, body).expect("a stack");
    }
    simulation.run(|_, _| true).expect("no trace")
}

/// Runs one thread alone.
pub(crate) fn alone(body: impl FnOnce(&Program) + 'static) -> Outcome {
    run_on(&roomy(1), vec![thread(0, body)])
}

/// Runs one thread alone on a machine whose pages have contents.
pub(crate) fn alone_with_contents(body: impl FnOnce(&Program) + 'static) -> Outcome {
    let options = Options { contents: true, ..Options::new(Schedule::Batched) };
    run_as(&roomy(1), options, vec![thread(0, body)])
}

/// The rules reported broken so far, and the addresses.
pub(crate) fn broken(program: &Program) -> Vec<(Rule, Option<u64>)> {
    let oracle = program.sim.oracle.as_ref().expect("it watches");
    oracle.kept().iter().map(|violation| (violation.rule, violation.address)).collect()
}

/// Notes of threads, in order.
pub(crate) type Notes<T> = Rc<RefCell<Vec<T>>>;
