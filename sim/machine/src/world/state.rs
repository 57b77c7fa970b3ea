//! The machine's state: the CPUs and everything that they share.
//!
//! Every CPU has its own clock. An operation takes effect at once and advances that clock. At each point where CPUs
//! can notice each other (a lock, an access to memory, a flush) the CPU that is furthest behind goes on. Each thread
//! is a coroutine with its own stack, so the code under test is ordinary code that may be interrupted between any two
//! such points. One host thread runs everything: the state needs no atomics, nothing depends on the host's timing,
//! and the same seed gives the same run.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::rc::{Rc, Weak};

use ceasefire::{Capabilities, Cpu, CpuId, CpuSet, LOOK_EVERY, WIDE};
use ceasefire_memory::{HeldLocks, Memory, SpaceHandle};

use crate::config::{IdleState, Machine, Picoseconds, Storage};
use crate::hardware::contents::Contents;
use crate::hardware::device::Device;
use crate::hardware::may_hold::MayHold;
use crate::hardware::memories::Memories;
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
use crate::world::cpus::Cpus;
use crate::world::places::{Records, Shared};
use crate::world::speculate::Speculation;
use crate::world::task::{Paused, Running, Task, TaskId};
use crate::world::timeline::{Timeline, NEVER};
use crate::world::timer::Timer;

/// One CPU.
#[derive(Debug)]
pub(crate) struct CpuState {
    /// Its own time.
    pub(crate) clock: Cell<Picoseconds>,
    /// The time at which its thread goes on; [`NEVER`] while it waits for an event of unknown time.
    pub(crate) wake: Cell<Picoseconds>,
    /// The number of reasons to keep interrupts off.
    pub(crate) off: Cell<u32>,
    /// The number of reasons to keep its thread on this CPU.
    pub(crate) pins: Cell<u32>,
    /// The time at which interrupts were last turned on.
    pub(crate) on_since: Cell<Picoseconds>,
    /// The time at which the interrupt under way arrives.
    pub(crate) interrupt: Cell<Picoseconds>,
    /// The time of its next timer tick; [`NEVER`] while it is idle.
    pub(crate) next_tick: Cell<Picoseconds>,
    /// The number of ticks that it has taken.
    pub(crate) ticks: Cell<u64>,
    /// The arrival of the latest answer to its request.
    pub(crate) answered_at: Cell<Picoseconds>,
    /// Whether it has no thread to run.
    pub(crate) idle: Cell<bool>,
    /// The time since which it sleeps; [`NEVER`] while it is awake.
    pub(crate) asleep_since: Cell<Picoseconds>,
    /// The thread that it runs.
    pub(crate) task: Cell<Option<TaskId>>,
    /// The coroutine of that thread, unless it is running now.
    pub(crate) paused: Paused,
    /// Threads that wait for it.
    pub(crate) ready: RefCell<VecDeque<TaskId>>,
    /// Threads that sleep until a time and go on here, the earliest first.
    pub(crate) sleepers: RefCell<VecDeque<(Picoseconds, TaskId)>>,
    /// The time at which another thread gets the CPU, if one waits.
    pub(crate) slice_end: Cell<Picoseconds>,
    /// Whether a woken thread should preempt the running one.
    pub(crate) preempt: Cell<bool>,
    /// The time of its thread since it came to this CPU, in the program and in the kernel.
    pub(crate) user: Cell<Picoseconds>,
    pub(crate) system: Cell<Picoseconds>,
    /// The kind of work to which its time is charged.
    pub(crate) doing: Cell<Doing>,
    pub(crate) node: u16,
    /// The other thread of its core.
    pub(crate) sibling: Option<u16>,
    pub(crate) tlb: RefCell<Tlb>,
    /// The frame of the top-level page-table page that it has loaded, and the ASID.
    pub(crate) root: Cell<u32>,
    pub(crate) asid: Cell<u16>,
    /// The line of page-table entries that its walker read last.
    pub(crate) walked_line: Cell<u64>,
    /// The number of its own invalidations.
    pub(crate) invalidations: Cell<u64>,
    /// The broadcasts that it has started and not waited for.
    pub(crate) broadcasts: RefCell<Vec<Broadcast>>,
    /// The time at which the interconnect finishes the last of them.
    pub(crate) broadcast_at: Cell<Picoseconds>,
    pub(crate) engine: Cpu<SpaceHandle<Sim>>,
    pub(crate) records: Records,
    /// The locks of its thread. No thread leaves a CPU with any.
    pub(crate) held: HeldLocks,
}

impl CpuState {
    /// Whether its thread may leave it: the thread holds no lock, is not pinned, and interrupts are on.
    pub(crate) fn may_be_left(&self) -> bool {
        self.held.is_empty() && self.off.get() == 0 && self.pins.get() == 0
    }

    /// The time of its next interrupt, in the current state.
    pub(crate) fn next_interrupt(&self) -> Picoseconds {
        if self.off.get() == 0 && self.interrupt.get() != NEVER {
            self.interrupt.get().max(self.on_since.get())
        } else {
            NEVER
        }
    }
}

/// A machine that runs.
#[derive(Debug)]
pub struct World {
    pub(crate) machine: Machine,
    pub(crate) capabilities: Capabilities,
    /// The number of flushes of a space between two checks of whether it deserves a global ASID, and the number of
    /// CPUs that must run it then.
    pub(crate) look_every: u64,
    pub(crate) wide: u32,
    /// The CPUs that may hold entries of each ASID.
    pub(crate) may_hold: RefCell<MayHold>,
    /// The invalidations by broadcast.
    pub(crate) outdated: RefCell<Outdated>,
    /// The number of moments so far, if no oracle counts them.
    moments: Cell<u64>,
    /// The walkers that fill translations by themselves, if they do.
    pub(crate) speculation: Option<Speculation>,
    /// The time at which the interconnect can take the next broadcast.
    pub(crate) interconnect: Cell<Picoseconds>,
    pub(crate) prices: Prices,
    pub(crate) cpus: Cpus,
    pub(crate) timeline: Timeline,
    pub(crate) timer: Timer,
    /// The time of the next CPU's event.
    pub(crate) horizon: Cell<Picoseconds>,
    /// The lines that CPUs write when they switch.
    pub(crate) shared: Shared,
    /// How far a CPU may run ahead before it lets the next one go on.
    pub(crate) slack: Picoseconds,
    pub(crate) running: Running,
    pub(crate) tasks: RefCell<Vec<Task<SpaceHandle<Sim>>>>,
    /// The CPUs that are idle.
    pub(crate) resting: RefCell<CpuSet>,
    /// The CPUs whose threads spin before they sleep.
    pub(crate) spinning: RefCell<CpuSet>,
    /// For each CPU, the time at which the first thread in its queue may run.
    pub(crate) queued: Timeline,
    /// Whether no run is under way. Setting the machine up and looking at it take no time.
    pub(crate) standing: Cell<bool>,
    /// The number of program threads that have not ended.
    pub(crate) alive: Cell<usize>,
    /// The threads of background reclaim, by node.
    pub(crate) reclaimers: RefCell<Vec<TaskId>>,
    /// Threads that wait for a frame's page, in order of arrival.
    pub(crate) waiters: RefCell<BTreeMap<u32, Vec<TaskId>>>,
    pub(crate) ram: Ram,
    /// The bytes of pages, if the run keeps them.
    pub(crate) contents: Option<Contents>,
    /// The device of files and swap, if it takes time.
    pub(crate) storage: Option<(Storage, RefCell<Device>)>,
    pub(crate) memories: Memories,
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
        let cpus: Vec<CpuState> = (0..machine.topology.cpu_count())
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
                asleep_since: Cell::new(0),
                task: Cell::new(None),
                paused: Paused::default(),
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
                records: Records::default(),
                held: HeldLocks::new(),
            })
            .collect();
        Self {
            memories: Memories::new(&machine),
            capabilities: Capabilities::default(),
            look_every: LOOK_EVERY,
            wide: WIDE,
            may_hold: RefCell::default(),
            outdated: RefCell::default(),
            moments: Cell::new(0),
            speculation: None,
            interconnect: Cell::new(0),
            prices: Prices::new(&machine.costs),
            timer: Timer::new(tick, cpus.len()),
            resting: RefCell::new(CpuId::all(cpus.len()).collect()),
            spinning: RefCell::default(),
            queued: Timeline::new(cpus.len()),
            cpus: Cpus::new(cpus),
            timeline: Timeline::new(machine.topology.cpu_count().into()),
            horizon: Cell::new(NEVER),
            shared: Shared::default(),
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
        self.cpus.current()
    }

    /// Its number.
    pub(crate) fn here(&self) -> usize {
        self.cpus.here()
    }

    /// The memory manager under test.
    ///
    /// # Panics
    /// Before the memory manager is set up or after it is dropped. Nothing runs then.
    pub(crate) fn memory(&self) -> Rc<Memory<Sim>> {
        self.memory
            .get()
            .and_then(Weak::upgrade)
            .expect("the memory manager lives as long as the machine runs")
    }

    /// All counts so far.
    pub(crate) fn reading(&self) -> Reading {
        let memory = self.memory();
        Reading::new(self.cpu().clock.get(), &self.tallies, memory.counters(), memory.statistics())
    }

    /// This CPU loads another root.
    pub(crate) fn set_root(&self, root: u32) {
        self.cpu().root.set(root);
    }

    /// The time that a cache line or a message takes between two CPUs.
    pub(crate) fn between(&self, one: usize, other: usize) -> Picoseconds {
        self.machine.latency.pair(one as u16, other as u16)
    }

    /// The time that this CPU takes for work of `time`: longer while the other thread of its core works too.
    fn slowed(&self, time: Picoseconds) -> Picoseconds {
        match (&self.machine.smt, self.cpu().sibling) {
            (Some(smt), Some(other)) if !self.cpus[usize::from(other)].idle.get() => smt.slowed(time),
            _ => time,
        }
    }

    /// The CPU wakes up if it sleeps. Returns how long that takes, when the wakeup comes at `time`.
    pub(crate) fn wake_up(&self, time: Picoseconds) -> Picoseconds {
        match self.cpu().asleep_since.replace(NEVER) {
            NEVER => 0,
            since => IdleState::exit_after(&self.machine.idle, time.saturating_sub(since)),
        }
    }

    /// A new moment, later than all before.
    pub(crate) fn moment(&self) -> u64 {
        if let Some(oracle) = &self.oracle {
            return oracle.tick();
        }
        self.moments.set(self.moments.get() + 1);
        self.moments.get()
    }

    /// The CPU works in the kernel for `time`, or longer beside the other thread of its core.
    pub(crate) fn spend(&self, time: Picoseconds) {
        self.stall(self.slowed(time));
    }

    /// The CPU waits in the kernel for `time`: for a cache line, for memory, or for other CPUs.
    pub(crate) fn stall(&self, time: Picoseconds) {
        if self.standing.get() {
            return;
        }
        let cpu = self.cpu();
        cpu.clock.set(cpu.clock.get() + time);
        cpu.system.set(cpu.system.get() + time);
        self.tallies.spent.charge(cpu.doing.get(), time);
    }

    /// The CPU waits in the kernel until `time`.
    pub(crate) fn spend_until(&self, time: Picoseconds) {
        let now = self.cpu().clock.get();
        if time > now {
            self.stall(time - now);
        }
    }

    /// The program computes for `time`, or longer beside the other thread of its core.
    pub(crate) fn compute(&self, time: Picoseconds) {
        let (time, cpu) = (self.slowed(time), self.cpu());
        cpu.clock.set(cpu.clock.get() + time);
        cpu.user.set(cpu.user.get() + time);
        self.tallies.spent.charge(Doing::User, time);
    }

    /// Charges the time that passes on this CPU in `body` to `doing`, unless nested work is charged otherwise. The
    /// thread may be on another CPU afterwards.
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
