//! A simulation: a machine with its memory manager, and programs to run on it.

use std::rc::Rc;

use ceasefire_memory::shadow::Shadow;
use ceasefire_memory::{Config, Memory, NodeId, NodeLayout, ObjectId, SpaceHandle, PAGE_BYTES};

use crate::config::{Machine, Picoseconds};
use crate::hardware::contents::Contents;
use crate::hardware::ram::Ram;
use crate::measure::reading::Reading;
use crate::measure::series::Series;
use crate::measure::trace::Trace;
use crate::oracle::judge::Oracle;
use crate::oracle::shadow::Watch;
use crate::run::error::{RunError, SetupError};
use crate::run::options::Options;
use crate::run::outcome::{Outcome, ThreadTime};
use crate::run::program::Program;
use crate::schedule::scheduler;
use crate::world::speculate::Speculation;
use crate::world::state::{Sim, World};
use crate::world::task::{Kind, Sleep, Stop};
use crate::world::timeline::{END, NEVER};

/// The number of turns of CPUs between two reports of progress.
const TURNS: u64 = 1 << 14;

/// A machine with its memory manager, ready to run programs.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) sim: Sim,
    memory: Rc<Memory<Sim>>,
}

impl Simulation {
    /// Sets a machine up, with all memory free, all CPUs idle and background reclaim asleep.
    ///
    /// # Errors
    /// [`SetupError`] if the machine, the options and the host do not fit together.
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
        config.lazy.payment = options.payment;
        config.lazy.tick = (options.tick / 1000).max(1);
        (options.configure)(&mut config);
        let capabilities = Sim::promises(&machine.processor, options.broadcast).map_err(SetupError::Asids)?;
        let mut world = World::new(
            machine.clone(),
            options.slack,
            options.tick,
            Ram::new(total).map_err(SetupError::Host)?,
            options.contents.then(|| Contents::new(total)),
            options.oracle.then(|| Oracle::new(total, machine.topology.cpu_count() as usize)),
            Trace::to(options.trace, machine),
        );
        world.capabilities = capabilities;
        (world.look_every, world.wide) = (options.look_every, options.wide);
        world.speculation = Speculation::new(machine.processor.speculate, options.seed);
        world.watch = options.shadow.then(|| Watch::new(Shadow::new(&config)));
        let sim = Sim::new(world);
        let memory = Rc::new(Memory::new(sim.clone(), config)?);
        // The cell is set only here.
        let _ = sim.memory.set(Rc::downgrade(&memory));
        // The machine has booted: every CPU is online, and no time has passed.
        for cpu in 0..machine.topology.cpu_count() as usize {
            sim.cpus.turn_to(cpu);
            memory.engine().online();
        }
        sim.cpus.turn_to(0);
        let simulation = Self { sim, memory };
        for node in 0..machine.topology.nodes().len() {
            simulation.add_reclaimer(node as u16)?;
        }
        Ok(simulation)
    }

    /// The memory manager, to set up files before the run and to inspect it afterwards.
    pub fn memory(&self) -> &Rc<Memory<Sim>> {
        &self.memory
    }

    /// From now on the holes of a file read as [`stored_word`](crate::stored_word)s, not as zeros, as those of a
    /// filesystem that makes up their contents. This takes no more time than zeros. Without contents it does nothing.
    pub fn mark_holes(&self, file: ObjectId) {
        if let Some(contents) = &self.sim.contents {
            contents.mark_holes(file);
        }
    }

    /// Starts a program's thread in `space` on a CPU at a time. A thread that cannot go on, because a fault cannot be
    /// resolved, should return.
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
        program.start(name.into(), cpu, start, body)
    }

    /// Runs until every program has ended. `progress` is called from time to time with the simulated time and the
    /// number of accesses so far. It ends the run early by returning false.
    ///
    /// # Errors
    /// [`RunError`] if the trace cannot be written, or the limit of simulated time is reached.
    ///
    /// # Panics
    /// If all threads wait for each other: a deadlock in the code under test.
    pub fn run(&self, mut progress: impl FnMut(Picoseconds, u64) -> bool) -> Result<Outcome, RunError> {
        let sim = &self.sim;
        let (mut left, mut too_long) = (TURNS, false);
        let mut series = Series::new();
        let mut due = series.due().min(END);
        sim.standing.set(false);
        sim.trace.open();
        while sim.alive.get() > 0 {
            left -= sim.take_turns(due, left);
            if left == 0 {
                left = TURNS;
                if !progress(sim.cpu().clock.get(), sim.tallies.accesses.get()) {
                    break;
                }
            }
            let now = sim.earliest();
            if now < due || sim.alive.get() == 0 {
                continue;
            }
            assert!(now != NEVER, "deadlock: {} threads wait and no event is left", sim.alive.get());
            too_long = now >= END;
            if too_long {
                break;
            }
            series.take(now, &sim.reading());
            due = series.due().min(END);
        }
        let written = sim.trace.finish();
        let outcome = self.outcome(series);
        if sim.alive.get() == 0 {
            // Background reclaim may be in the middle of a batch.
            while sim.take_turns(NEVER, TURNS) > 0 {}
        }
        sim.standing.set(true);
        written.map_err(RunError::Trace)?;
        if too_long {
            return Err(RunError::TooLong);
        }
        Ok(outcome)
    }

    /// Adds a kernel thread that reclaims a node's memory each time it is woken.
    fn add_reclaimer(&self, node: u16) -> Result<(), SetupError> {
        let (sim, memory) = (self.sim.clone(), Rc::downgrade(&self.memory));
        let id = scheduler::add(&self.sim, format!("reclaim/{node}"), Kind::Kernel(node), move || {
            while let Some(memory) = memory.upgrade() {
                memory.reclaim_node(NodeId(node));
                drop(memory);
                sim.running.stop(Stop::Sleep(Sleep::AtRest));
            }
        })
        .map_err(SetupError::Host)?;
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
            reading: Reading { time: elapsed, ..self.sim.reading() },
            series,
            speculated: world.speculation.as_ref().map_or(0, Speculation::filled),
            stale_hits: world.oracle.as_ref().map_or(0, Oracle::stale_hits),
            violations: world.oracle.as_ref().map_or(0, Oracle::violations)
                + world.watch.as_ref().map_or(0, Watch::count),
            broken: world.oracle.as_ref().map_or_else(Vec::new, Oracle::kept),
            misuses: world.watch.as_ref().map_or_else(Vec::new, Watch::kept),
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Threads that have not ended hold the machine, and the machine holds them. Removing them frees both.
        let mut tasks = std::mem::take(&mut *self.sim.tasks.borrow_mut());
        for cpu in &*self.sim.cpus {
            if let Some(id) = cpu.task.take() {
                tasks[id.0].coroutine = cpu.paused.take();
            }
        }
        drop(tasks);
    }
}
