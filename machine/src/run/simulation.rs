//! Setting up a machine, running programs on it, and what came of it.

use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

use ceasefire::{BroadcastError, Schedule, Settle, LOOK_EVERY, WIDE};
use ceasefire_memory::shadow::{Misuse, Shadow};
use ceasefire_memory::{
    Config, ConfigError, Memory, NodeId, NodeLayout, OutOfMemory, SpaceHandle, PAGE_BYTES,
};

use crate::config::{Machine, Picoseconds};
use crate::hardware::contents::Contents;
use crate::hardware::ram::Ram;
use crate::measure::reading::Reading;
use crate::measure::series::Series;
use crate::measure::trace::Trace;
use crate::oracle::judge::{Oracle, Violation};
use crate::oracle::shadow::Watch;
use crate::platform::Sim;
use crate::run::program::Program;
use crate::world::state::{World, NEVER};
use crate::world::task::{Kind, Sleep, Stop, Task, TaskId};
use crate::world::timeline::END;

/// The most that a CPU runs ahead of the others unless told otherwise.
const MOST_SLACK: Picoseconds = 2_000_000;

/// Linux's default, `CONFIG_HZ=250`: 4 ms.
const TICK: Picoseconds = 4_000_000_000;

/// How a machine is run.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
pub struct Options {
    /// When the kernel's own unmaps are flushed.
    pub schedule: Schedule,
    /// Whether the kernel turns the processor's broadcasts on, where it has ASIDs. Without it only a processor broadcasts whose
    /// file says that its kernel always does ([`Processor::broadcast_asids`](crate::config::Processor::broadcast_asids)).
    pub broadcast: bool,
    /// After how many flushes of a space somebody looks whether it deserves a global ASID, where the kernel turns broadcasts
    /// on; 0 for never.
    pub look_every: u64,
    /// How many CPUs have to run it then to get one.
    pub wide: u32,
    /// Whether the oracle watches. Without it a run is faster and reports no violation whatever happens.
    pub oracle: bool,
    /// Whether the memory manager's own [shadow record](ceasefire_memory::shadow) watches too. On in builds with debug
    /// assertions unless told otherwise; it takes no simulated time.
    pub shadow: bool,
    /// Whether pages keep their bytes, in frames and on devices. Without, loads give zeros, and a run needs far less of
    /// the host's memory.
    pub contents: bool,
    /// How far, in picoseconds, a CPU may run ahead of the one that is furthest behind before that one goes on. 0 is
    /// exact; more saves switches between them. `None`: as long as an interrupt takes at least, since nothing else of
    /// what another CPU does reaches this one by itself, but at most 2 us, so that the order in which CPUs come to a
    /// lock stays right to within that.
    pub slack: Option<Picoseconds>,
    /// What settles the debts of [`Schedule::Lazy`].
    pub settle: Settle,
    /// How often, in picoseconds, the timer of a CPU that runs threads ticks; 0 for never.
    pub tick: Picoseconds,
    /// Changes the memory manager's setup before it starts. Nodes and frame numbers stay as the machine has them.
    pub configure: Box<dyn FnOnce(&mut Config)>,
    /// Where each flush and interrupt is written, one line each.
    pub trace: Option<Box<dyn Write>>,
}

impl Options {
    /// The oracle on, no contents, no trace, Linux's choices.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            broadcast: false,
            look_every: LOOK_EVERY,
            wide: WIDE,
            oracle: true,
            shadow: cfg!(debug_assertions),
            contents: false,
            slack: None,
            settle: Settle::Free,
            tick: TICK,
            configure: Box::new(|_| {}),
            trace: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schedule", &self.schedule)
            .field("broadcast", &self.broadcast)
            .field("look_every", &self.look_every)
            .field("wide", &self.wide)
            .field("oracle", &self.oracle)
            .field("shadow", &self.shadow)
            .field("contents", &self.contents)
            .field("slack", &self.slack)
            .field("tick", &self.tick)
            .finish_non_exhaustive()
    }
}

/// Why a machine cannot be set up.
#[derive(Debug)]
pub enum SetupError {
    /// It has more memory than frame numbers reach.
    TooLarge {
        /// How many frames.
        frames: u64,
    },
    /// The host does not give enough addresses.
    Host(io::Error),
    /// It has too few ASIDs to broadcast under.
    Asids(BroadcastError),
    /// The memory manager cannot be set up as it was asked to be.
    Config(ConfigError),
    /// The machine has not enough memory to start at all.
    OutOfMemory,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { frames } => {
                write!(f, "{frames} frames of memory: at most {} can be simulated", u32::MAX - 1)
            }
            Self::Host(error) => write!(f, "the host gives no memory for the machine: {error}"),
            // Of `processor.asid_space` x86 keeps the first for the kernel, and leaves the last unused.
            Self::Asids(error) => {
                write!(f, "processor.asid_space, less the 2 that x86 does not use: {error}")
            }
            Self::Config(error) => error.fmt(f),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

impl std::error::Error for SetupError {}

impl From<ConfigError> for SetupError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::TooManyFrames { frames, .. } => Self::TooLarge { frames },
            ConfigError::OutOfMemory => Self::OutOfMemory,
            other => Self::Config(other),
        }
    }
}

/// Why there is no outcome of a run.
#[derive(Debug)]
pub enum RunError {
    /// The trace could not be written.
    Trace(io::Error),
    /// Programs still run after five hours of simulated time.
    TooLong,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => write!(f, "the trace cannot be written: {error}"),
            Self::TooLong => {
                let most = END / 1_000_000_000_000;
                write!(f, "programs still run after {most} s of simulated time, the most that there is")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// What a thread took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// The name it was started with.
    pub name: String,
    /// It runs in the kernel alone.
    pub kernel: bool,
    /// Time in the program.
    pub user: Picoseconds,
    /// Time in the kernel, interrupts that it was interrupted for included.
    pub system: Picoseconds,
    /// When it ended; `None` for the kernel's own, which never do.
    pub ended: Option<Picoseconds>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// When the last program ended.
    pub elapsed: Picoseconds,
    /// What each thread took.
    pub threads: Vec<ThreadTime>,
    /// What was counted in all.
    pub reading: Reading,
    /// How that came about over time.
    pub series: Series,
    /// Uses of an entry whose flush was still owed, which the rules allow. 0 with the oracle off.
    pub stale_hits: u64,
    /// How often the oracle saw a rule broken, and the shadow record a flush missing. 0 with both off.
    pub violations: u64,
    /// The first few of the oracle's.
    pub broken: Vec<Violation>,
    /// The first few of the shadow record's.
    pub misuses: Vec<Misuse>,
}

/// A machine with its memory manager, ready to run programs.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) sim: Sim,
    memory: Rc<Memory<Sim>>,
}

impl Simulation {
    /// Sets a machine up: all memory free, all CPUs idle, the background reclaimers asleep.
    ///
    /// # Errors
    /// [`SetupError`] if machine and host do not fit together.
    pub fn new(machine: &Machine, options: Options) -> Result<Self, SetupError> {
        let frames_of = |bytes: u64| bytes / PAGE_BYTES;
        let frames: u64 = machine.topology.nodes().iter().map(|node| frames_of(node.bytes)).sum();
        let total = u32::try_from(frames).ok().filter(|&total| total < u32::MAX);
        let total = total.ok_or(SetupError::TooLarge { frames })?;
        let nodes: Vec<NodeLayout> = machine
            .topology
            .nodes()
            .iter()
            .map(|node| NodeLayout { frames: frames_of(node.bytes) as u32, tier: node.tier })
            .collect();
        let mut config = Config::new(nodes, machine.topology.cpu_count() as usize, options.schedule);
        config.lazy.settle = options.settle;
        config.lazy.tick = (options.tick / 1000).max(1);
        (options.configure)(&mut config);
        let capabilities = Sim::promises(&machine.processor, options.broadcast).map_err(SetupError::Asids)?;
        let mut world = World::new(
            machine.clone(),
            options.slack.unwrap_or_else(|| {
                (machine.costs.interrupt_send + machine.costs.interrupt_deliver).min(MOST_SLACK)
            }),
            options.tick,
            Ram::new(total).map_err(SetupError::Host)?,
            options.contents.then(Contents::default),
            options.oracle.then(|| Oracle::new(total, machine.topology.cpu_count() as usize)),
            Trace::to(options.trace),
        );
        world.capabilities = capabilities;
        (world.look_every, world.wide) = (options.look_every, options.wide);
        world.watch = options.shadow.then(|| Watch::new(Shadow::new(&config, capabilities)));
        let sim = Sim::new(world);
        let memory = Rc::new(Memory::new(sim.clone(), config)?);
        // Set once, here.
        let _ = sim.memory.set(Rc::downgrade(&memory));
        let simulation = Self { sim, memory };
        for node in 0..machine.topology.nodes().len() {
            simulation.add_reclaimer(node as u16)?;
        }
        Ok(simulation)
    }

    /// The memory manager, for setting up files before the run and looking at it afterwards.
    pub fn memory(&self) -> &Rc<Memory<Sim>> {
        &self.memory
    }

    /// Starts a program's thread in `space` on a CPU at a time. A thread that cannot go on (a fault that cannot be
    /// resolved) should return; whatever it returns is its own business.
    ///
    /// # Errors
    /// [`SetupError::Host`] if the host has no room for its stack.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn spawn(
        &self,
        name: impl Into<String>,
        cpu: u16,
        start: Picoseconds,
        space: &SpaceHandle<Sim>,
        body: impl FnOnce(&Program) + 'static,
    ) -> Result<(), SetupError> {
        let program = Program { sim: self.sim.clone(), memory: self.memory.clone(), space: space.clone() };
        spawn(program, name.into(), cpu, start, body)
    }

    /// Runs until every program has ended. `progress` is called now and then with the simulated time and the pages
    /// looked at so far; it ends the run early by returning false.
    ///
    /// # Errors
    /// [`RunError`] if the trace could not be written, or simulated time is over.
    ///
    /// # Panics
    /// If all threads wait for each other: a deadlock in the code under test.
    pub fn run(&self, mut progress: impl FnMut(Picoseconds, u64) -> bool) -> Result<Outcome, RunError> {
        let sim = &self.sim;
        let (mut steps, mut too_long) = (0u64, false);
        let mut series = Series::new();
        sim.standing.set(false);
        sim.trace.open();
        while sim.alive.get() > 0 {
            let now = sim.earliest();
            too_long = (END..NEVER).contains(&now);
            if too_long {
                break;
            }
            if series.due() <= now && now != NEVER {
                series.take(now, &Reading::of(sim, &self.memory));
            }
            assert!(sim.step(), "deadlock: {} threads wait and nothing will happen", sim.alive.get());
            steps += 1;
            if steps.is_multiple_of(1 << 14) && !progress(sim.cpu().clock.get(), sim.tallies.accesses.get()) {
                break;
            }
        }
        let written = sim.trace.finish();
        let outcome = self.outcome(series);
        if sim.alive.get() == 0 {
            // Background reclaim may be in the middle of a batch.
            while sim.step() {}
        }
        sim.standing.set(true);
        written.map_err(RunError::Trace)?;
        if too_long {
            return Err(RunError::TooLong);
        }
        Ok(outcome)
    }

    /// A thread that reclaims a node's memory whenever it is woken.
    fn add_reclaimer(&self, node: u16) -> Result<(), SetupError> {
        let (sim, memory) = (self.sim.clone(), Rc::downgrade(&self.memory));
        let id = add(&self.sim, format!("reclaim/{node}"), Kind::Kernel(node), move || {
            while let Some(memory) = memory.upgrade() {
                memory.reclaim_node(NodeId(node));
                drop(memory);
                sim.running.stop(Stop::Sleep(Sleep::AtRest));
            }
        })?;
        self.sim.reclaimers.borrow_mut().push(id);
        Ok(())
    }

    fn outcome(&self, series: Series) -> Outcome {
        let world: &World = &self.sim;
        let threads: Vec<ThreadTime> = world
            .tasks
            .borrow()
            .iter()
            .map(|task| ThreadTime {
                name: task.name.clone(),
                kernel: matches!(task.kind, Kind::Kernel(_)),
                user: task.user,
                system: task.system,
                ended: task.ended,
            })
            .collect();
        let elapsed = threads.iter().filter_map(|thread| thread.ended).max().unwrap_or(0);
        Outcome {
            elapsed,
            threads,
            reading: Reading { time: elapsed, ..Reading::of(&self.sim, &self.memory) },
            series,
            stale_hits: world.oracle.as_ref().map_or(0, Oracle::stale_hits),
            violations: world.oracle.as_ref().map_or(0, Oracle::violations)
                + world.watch.as_ref().map_or(0, Watch::count),
            broken: world.oracle.as_ref().map_or_else(Vec::new, Oracle::kept),
            misuses: world.watch.as_ref().map_or_else(Vec::new, Watch::kept),
        }
    }
}

/// Starts a thread of a program on a CPU at a time.
///
/// # Panics
/// If there is no such CPU.
pub(crate) fn spawn(
    program: Program,
    name: String,
    cpu: u16,
    start: Picoseconds,
    body: impl FnOnce(&Program) + 'static,
) -> Result<(), SetupError> {
    let sim = program.sim.clone();
    assert!((cpu as usize) < sim.cpus.len(), "CPU {cpu} of {}", sim.cpus.len());
    let id = add(&sim, name, Kind::Program(program.space.clone()), move || body(&program))?;
    sim.alive.set(sim.alive.get() + 1);
    sim.start_on(id, cpu as usize, start);
    Ok(())
}

/// Adds a thread that sleeps.
fn add(sim: &Sim, name: String, kind: Kind, body: impl FnOnce() + 'static) -> Result<TaskId, SetupError> {
    let task = Task::new(sim, name, kind, body).map_err(SetupError::Host)?;
    let mut tasks = sim.tasks.borrow_mut();
    tasks.push(task);
    Ok(TaskId(tasks.len() - 1))
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Threads that have not ended hold the machine, and the machine holds them: taking them out lets both go.
        let tasks = std::mem::take(&mut *self.sim.tasks.borrow_mut());
        drop(tasks);
    }
}
