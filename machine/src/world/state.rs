//! The machine's state and its clockwork.
//!
//! Every CPU has its own clock. What it does takes effect at once and moves that clock; at each point where CPUs can
//! notice each other (a lock, an access to memory, a flush) the CPU that is furthest behind goes on. Each thread runs
//! as a coroutine on a stack of its own, so the code under test is ordinary code that may be interrupted between any
//! two such points. One host thread runs everything: nothing is atomic, nothing depends on the host's timing, and the
//! same seed gives the same run.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::rc::{Rc, Weak};

use ceasefire::{Capabilities, Cpu, CpuId, CpuSet, LOOK_EVERY, WIDE};
use ceasefire_memory::{FrameNumber, HeldLocks, Memory, SpaceHandle, PAGE_BYTES};

use crate::config::{Machine, Picoseconds, Storage};
use crate::hardware::contents::Contents;
use crate::hardware::device::Device;
use crate::hardware::may_hold::MayHold;
use crate::hardware::numbers::KERNEL_ROOT;
use crate::hardware::outdated::{Broadcast, Outdated};
use crate::hardware::prices::Prices;
use crate::hardware::ram::Ram;
use crate::hardware::tlb::Tlb;
use crate::measure::reading::Reading;
use crate::measure::spent::Doing;
use crate::measure::tallies::Tallies;
use crate::measure::trace::Trace;
use crate::oracle::judge::Oracle;
use crate::oracle::shadow::Watch;
use crate::world::task::{Running, Task, TaskId};
use crate::world::timeline::{Timeline, NEVER};
use crate::world::timer::Timer;

/// One CPU.
#[derive(Debug)]
pub(crate) struct CpuState {
    /// How far it has come.
    pub(crate) clock: Cell<Picoseconds>,
    /// When its thread goes on: [`NEVER`] while it waits for something without a time yet.
    pub(crate) wake: Cell<Picoseconds>,
    /// How many reasons there are for interrupts to be off.
    pub(crate) off: Cell<u32>,
    /// How many reasons there are for its thread to stay here.
    pub(crate) pins: Cell<u32>,
    /// Since when they have been on.
    pub(crate) on_since: Cell<Picoseconds>,
    /// When the interrupt that is under way arrives.
    pub(crate) interrupt: Cell<Picoseconds>,
    /// When its timer ticks next: [`NEVER`] while it is idle.
    pub(crate) next_tick: Cell<Picoseconds>,
    /// How many ticks it has taken.
    pub(crate) ticks: Cell<u64>,
    /// When the latest of the answers to its request arrives.
    pub(crate) answered_at: Cell<Picoseconds>,
    /// It has no thread to run.
    pub(crate) idle: Cell<bool>,
    /// The thread that it runs.
    pub(crate) task: Cell<Option<TaskId>>,
    /// Threads that wait for it.
    pub(crate) ready: RefCell<VecDeque<TaskId>>,
    /// Threads that sleep until a time and go on here, the earliest first.
    pub(crate) sleepers: RefCell<VecDeque<(Picoseconds, TaskId)>>,
    /// When another thread gets its turn, if one waits.
    pub(crate) slice_end: Cell<Picoseconds>,
    /// A thread was woken that should run soon.
    pub(crate) preempt: Cell<bool>,
    /// Time spent since the thread came, in the program and in the kernel.
    pub(crate) user: Cell<Picoseconds>,
    pub(crate) system: Cell<Picoseconds>,
    /// What its time is charged to.
    pub(crate) doing: Cell<Doing>,
    pub(crate) node: u16,
    /// The other thread of its core.
    pub(crate) sibling: Option<u16>,
    pub(crate) tlb: RefCell<Tlb>,
    /// What it translates through: the frame of the top-level table and the ASID.
    pub(crate) root: Cell<u32>,
    pub(crate) asid: Cell<u16>,
    /// The line of page-table entries that its walker read last.
    pub(crate) walked_line: Cell<u64>,
    /// How often anything was invalidated here.
    pub(crate) invalidations: Cell<u64>,
    /// The invalidations of all CPUs that it has started and not waited for.
    pub(crate) broadcasts: RefCell<Vec<Broadcast>>,
    /// When the interconnect is done with the last of them.
    pub(crate) broadcast_at: Cell<Picoseconds>,
    pub(crate) engine: Cpu<ceasefire_memory::SpaceHandle<Sim>>,
    /// The locks of the thread that it runs; no thread leaves a CPU with any.
    pub(crate) held: HeldLocks,
}

impl CpuState {
    /// Whether its thread may leave it: nothing ties the one to the other.
    pub(crate) fn may_be_left(&self) -> bool {
        self.held.is_empty() && self.off.get() == 0 && self.pins.get() == 0
    }

    /// When it will take its next interrupt, as things are.
    pub(crate) fn next_interrupt(&self) -> Picoseconds {
        if self.off.get() == 0 && self.interrupt.get() != NEVER {
            self.interrupt.get().max(self.on_since.get())
        } else {
            NEVER
        }
    }
}

/// A machine in motion.
#[derive(Debug)]
pub struct World {
    pub(crate) machine: Machine,
    pub(crate) capabilities: Capabilities,
    /// When somebody looks whether a space deserves a global ASID, and how many CPUs have to run it.
    pub(crate) look_every: u64,
    pub(crate) wide: u32,
    /// Which CPUs may hold entries of which ASID.
    pub(crate) may_hold: RefCell<MayHold>,
    /// What broadcasts have invalidated.
    pub(crate) outdated: RefCell<Outdated>,
    /// How many moments there were, if no oracle counts them.
    moments: Cell<u64>,
    /// When the interconnect can take the next broadcast.
    pub(crate) interconnect: Cell<Picoseconds>,
    pub(crate) prices: Prices,
    pub(crate) cpus: Box<[CpuState]>,
    pub(crate) timeline: RefCell<Timeline>,
    pub(crate) timer: Timer,
    /// The CPU whose turn it is.
    pub(crate) here: Cell<usize>,
    /// The time of the next CPU's event.
    pub(crate) horizon: Cell<Picoseconds>,
    /// How far a CPU may run ahead of the next before it lets that one go on.
    pub(crate) slack: Picoseconds,
    pub(crate) running: Running,
    pub(crate) tasks: RefCell<Vec<Task<SpaceHandle<Sim>>>>,
    /// The CPUs that are idle.
    pub(crate) resting: RefCell<CpuSet>,
    /// When the first of the threads in each CPU's queue may run.
    pub(crate) queued: RefCell<Timeline>,
    /// It is being set up or looked at between runs, which takes no time.
    pub(crate) standing: Cell<bool>,
    /// Threads of programs that have not ended.
    pub(crate) alive: Cell<usize>,
    /// The background reclaimers' threads, by node.
    pub(crate) reclaimers: RefCell<Vec<TaskId>>,
    /// Threads that wait for a frame's page, in the order in which they came.
    pub(crate) waiters: RefCell<BTreeMap<u32, Vec<TaskId>>>,
    pub(crate) ram: Ram,
    /// What pages hold, if that is kept.
    pub(crate) contents: Option<Contents>,
    /// The device of files and swap, if it takes any time.
    pub(crate) storage: Option<(Storage, RefCell<Device>)>,
    /// The first frame after each node's.
    node_ends: Box<[u32]>,
    pub(crate) memory: OnceCell<Weak<Memory<Sim>>>,
    pub(crate) oracle: Option<Oracle>,
    pub(crate) watch: Option<Watch>,
    pub(crate) trace: Trace,
    pub(crate) tallies: Tallies,
}

impl World {
    pub(crate) fn new(
        machine: Machine,
        slack: Picoseconds,
        tick: Picoseconds,
        ram: Ram,
        contents: Option<Contents>,
        oracle: Option<Oracle>,
        trace: Trace,
    ) -> Self {
        let siblings = machine.smt.map_or_else(Vec::new, |smt| smt.siblings(&machine.topology));
        let cpus: Box<[CpuState]> = (0..machine.topology.cpu_count())
            .map(|cpu| CpuState {
                clock: Cell::new(0),
                wake: Cell::new(NEVER),
                off: Cell::new(0),
                pins: Cell::new(0),
                on_since: Cell::new(0),
                interrupt: Cell::new(NEVER),
                next_tick: Cell::new(NEVER),
                ticks: Cell::new(0),
                answered_at: Cell::new(0),
                idle: Cell::new(true),
                task: Cell::new(None),
                ready: RefCell::default(),
                sleepers: RefCell::default(),
                slice_end: Cell::new(0),
                preempt: Cell::new(false),
                user: Cell::new(0),
                system: Cell::new(0),
                doing: Cell::new(Doing::Kernel),
                node: machine.topology.node_of(cpu),
                sibling: siblings.get(usize::from(cpu)).copied().flatten(),
                tlb: RefCell::new(Tlb::new(&machine.tlb)),
                root: Cell::new(KERNEL_ROOT),
                asid: Cell::new(0),
                walked_line: Cell::new(NEVER),
                invalidations: Cell::new(0),
                broadcasts: RefCell::default(),
                broadcast_at: Cell::new(0),
                engine: Cpu::new(),
                held: HeldLocks::new(),
            })
            .collect();
        let frames = machine.topology.nodes().iter().map(|node| (node.bytes / PAGE_BYTES) as u32);
        let node_ends = frames.scan(0, |end, frames| {
            *end += frames;
            Some(*end)
        });
        Self {
            node_ends: node_ends.collect(),
            capabilities: Capabilities::default(),
            look_every: LOOK_EVERY,
            wide: WIDE,
            may_hold: RefCell::default(),
            outdated: RefCell::default(),
            moments: Cell::new(0),
            interconnect: Cell::new(0),
            prices: Prices::new(&machine.costs),
            timer: Timer::new(tick, cpus.len()),
            resting: RefCell::new(CpuId::all(cpus.len()).collect()),
            queued: RefCell::new(Timeline::new(cpus.len())),
            cpus,
            timeline: RefCell::new(Timeline::new(machine.topology.cpu_count() as usize)),
            here: Cell::new(0),
            horizon: Cell::new(NEVER),
            slack,
            running: Running::default(),
            tasks: RefCell::default(),
            standing: Cell::new(true),
            alive: Cell::new(0),
            reclaimers: RefCell::default(),
            waiters: RefCell::default(),
            ram,
            contents,
            storage: machine.storage.map(|storage| (storage, RefCell::new(Device::new(storage.queue_depth)))),
            memory: OnceCell::new(),
            oracle,
            watch: None,
            trace,
            tallies: Tallies::default(),
            machine,
        }
    }

    /// The CPU whose turn it is.
    pub(crate) fn cpu(&self) -> &CpuState {
        &self.cpus[self.here.get()]
    }

    /// The memory manager under test.
    ///
    /// # Panics
    /// Before it was set up or after it was dropped; nothing runs then.
    pub(crate) fn memory(&self) -> Rc<Memory<Sim>> {
        self.memory
            .get()
            .and_then(Weak::upgrade)
            .expect("the memory manager lives as long as the machine runs")
    }

    /// What has been counted so far.
    pub(crate) fn reading(&self) -> Reading {
        let memory = self.memory();
        Reading::new(self.cpu().clock.get(), &self.tallies, memory.counters(), memory.statistics())
    }

    /// The node whose memory a frame is.
    pub(crate) fn node_of_frame(&self, frame: FrameNumber) -> u16 {
        self.node_ends.partition_point(|&end| end <= frame.get()) as u16
    }

    /// This CPU translates through other tables from now on.
    pub(crate) fn set_root(&self, root: u32) {
        let before = self.cpu().root.replace(root);
        if let Some(oracle) = &self.oracle {
            oracle.loads(self.here.get(), before, root);
        }
    }

    /// How long a line or a message takes between two CPUs.
    pub(crate) fn between(&self, one: usize, other: usize) -> Picoseconds {
        self.machine.latency.pair(one as u16, other as u16)
    }

    /// How long this CPU works on what takes `time` alone: longer while the other thread of its core works too.
    fn slowed(&self, time: Picoseconds) -> Picoseconds {
        match (&self.machine.smt, self.cpu().sibling) {
            (Some(smt), Some(other)) if !self.cpus[usize::from(other)].idle.get() => smt.slowed(time),
            _ => time,
        }
    }

    /// A moment later than all before.
    pub(crate) fn moment(&self) -> u64 {
        if let Some(oracle) = &self.oracle {
            return oracle.tick();
        }
        self.moments.set(self.moments.get() + 1);
        self.moments.get()
    }

    /// The CPU works in the kernel for that long, or longer beside the other thread of its core.
    pub(crate) fn spend(&self, time: Picoseconds) {
        self.stall(self.slowed(time));
    }

    /// The CPU waits in the kernel for that long: for a line, for other CPUs.
    pub(crate) fn stall(&self, time: Picoseconds) {
        if self.standing.get() {
            return;
        }
        let cpu = self.cpu();
        cpu.clock.set(cpu.clock.get() + time);
        cpu.system.set(cpu.system.get() + time);
        self.tallies.spent.charge(cpu.doing.get(), time);
    }

    /// The CPU can do nothing else until `time`.
    pub(crate) fn spend_until(&self, time: Picoseconds) {
        let now = self.cpu().clock.get();
        if time > now {
            self.stall(time - now);
        }
    }

    /// The program computes for that long, or longer beside the other thread of its core.
    pub(crate) fn compute(&self, time: Picoseconds) {
        let (time, cpu) = (self.slowed(time), self.cpu());
        cpu.clock.set(cpu.clock.get() + time);
        cpu.user.set(cpu.user.get() + time);
        self.tallies.spent.charge(Doing::User, time);
    }

    /// Time that passes on this CPU in `body` is charged to `doing`, unless something inside says otherwise. The thread may
    /// be on another CPU afterwards.
    pub(crate) fn during<R>(&self, doing: Doing, body: impl FnOnce() -> R) -> R {
        let before = self.cpu().doing.replace(doing);
        let result = body();
        self.cpu().doing.set(before);
        result
    }
}

/// A handle to a simulated machine.
#[derive(Debug, Clone)]
pub struct Sim(Rc<World>);

impl Sim {
    pub(crate) fn new(world: World) -> Self {
        Self(Rc::new(world))
    }
}

impl Deref for Sim {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}
