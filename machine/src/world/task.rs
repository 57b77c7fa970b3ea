//! Threads of the simulated machine, and the scheduler that gives them CPUs.
//!
//! A thread is a coroutine: it runs until it waits, pauses for others that are further behind, or ends. The scheduler
//! is as simple as fairness allows: round robin on each CPU with a time slice; an idle CPU takes a thread that waits
//! elsewhere; and a kernel thread whose slice is over moves to the CPU of its node whose program has had most time, so
//! that it costs all of them the same, as load balancing would.

use std::cell::Cell;
use std::cmp::Reverse;
use std::fmt;
use std::ptr;

use ceasefire::CpuId;
use ceasefire_memory::SpaceHandle;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::config::Picoseconds;
use crate::measure::spent::Doing;
use crate::platform::Sim;
use crate::world::state::{World, NEVER};

/// Bytes of stack for each thread. Only what is touched costs memory.
const STACK: usize = 128 * 1024;

/// A thread, by its place in the list of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId(pub(crate) usize);

/// Why a thread stopped running for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It waits for a time or an event, and keeps the CPU.
    Pause,
    /// Another thread shall have the CPU.
    Preempted,
    /// It sleeps until it is woken.
    Sleep(Sleep),
    /// It sleeps until that time.
    Until(Picoseconds),
}

/// How a thread sleeps that has to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Between two pieces of work: it holds nothing.
    AtRest,
    /// In the middle of one.
    Amid,
}

/// What kind of thread it is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Runs in a program's address space.
    Program(SpaceHandle<Sim>),
    /// Runs in the kernel, on CPUs of this node, or on any if it has none.
    Kernel(u16),
}

/// A thread.
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Boxed, because it is taken out of here for as long as it runs.
    coroutine: Option<Box<Coroutine<(), Stop, (), DefaultStack>>>,
    asleep: Option<Sleep>,
    /// The CPU that it ran on last.
    last: usize,
    /// When it may run first, or again after it slept in the middle of something.
    start: Picoseconds,
    pub(crate) user: Picoseconds,
    pub(crate) system: Picoseconds,
    /// What it was doing when it left its CPU.
    doing: Doing,
    /// When it ended.
    pub(crate) ended: Option<Picoseconds>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Which coroutine runs, seen from inside it.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where the running coroutine gives control back; null outside of any.
    yielder: Cell<*const Yielder<(), Stop>>,
}

impl Default for Running {
    fn default() -> Self {
        Self { yielder: Cell::new(ptr::null()) }
    }
}

/// The running coroutine, put aside while code runs that must not stop it.
#[derive(Debug)]
pub(crate) struct Aside(*const Yielder<(), Stop>);

impl Running {
    /// Whether a thread runs that may be stopped here.
    pub(crate) fn in_task(&self) -> bool {
        !self.yielder.get().is_null()
    }

    /// From here on nothing stops the running thread: an interrupt handler uses its stack.
    pub(crate) fn leave_task(&self) -> Aside {
        Aside(self.yielder.replace(ptr::null()))
    }

    /// Back to the thread.
    pub(crate) fn enter_task(&self, aside: Aside) {
        self.yielder.set(aside.0);
    }

    /// Stops the running thread until it is resumed; keeps its CPU.
    pub(crate) fn pause(&self) {
        self.stop(Stop::Pause);
    }

    /// Stops the running thread until it is resumed.
    ///
    /// # Panics
    /// If no thread runs that could be stopped: an interrupt handler or the scheduler waited for something.
    pub(crate) fn stop(&self, why: Stop) {
        let yielder = self.yielder.replace(ptr::null());
        assert!(
            !yielder.is_null(),
            "something waited where nothing can: in an interrupt or in the scheduler"
        );
        // SAFETY: the pointer was set by the coroutine that runs now (see `Task::new`) and points into its own stack
        // frame, which lives until the coroutine returns; it is set only while that coroutine runs, so this call is on
        // its stack.
        unsafe { &*yielder }.suspend(why);
        self.yielder.set(yielder);
    }
}

impl Task {
    /// A thread that will run `body`.
    pub(crate) fn new(
        sim: &Sim,
        name: String,
        kind: Kind,
        body: impl FnOnce() + 'static,
    ) -> std::io::Result<Self> {
        let world = sim.clone();
        let coroutine = Coroutine::with_stack(DefaultStack::new(STACK)?, move |yielder, ()| {
            world.running.yielder.set(yielder);
            body();
            world.running.yielder.set(ptr::null());
        });
        Ok(Self {
            name,
            kind,
            coroutine: Some(Box::new(coroutine)),
            asleep: Some(Sleep::AtRest),
            last: 0,
            start: 0,
            user: 0,
            system: 0,
            doing: Doing::Kernel,
            ended: None,
        })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let Some(coroutine) = self.coroutine.take() else { return };
        if coroutine.started() && self.asleep != Some(Sleep::AtRest) && !coroutine.done() {
            // Stopped in the middle of the kernel, with locks and half a flush. To unwind it would run the destructors
            // of both, which wait for CPUs that will not run again; so what it holds is lost.
            std::mem::forget(coroutine);
        }
    }
}

/// A CPU by its place.
pub(crate) fn cpu_id(index: usize) -> CpuId {
    // The configuration bounds the number of CPUs.
    CpuId::new(index).unwrap_or_else(|error| unreachable!("{error}"))
}

impl World {
    /// Lets the CPU's thread run until it stops; if it has none, gives it one.
    pub(crate) fn run_task(&self) {
        let cpu = self.cpu();
        let Some(id) = cpu.task.get() else {
            self.next_task();
            return;
        };
        // Out of the list while it runs: it may add threads.
        let coroutine = self.tasks.borrow_mut()[id.0].coroutine.take();
        let Some(mut coroutine) = coroutine else { return };
        let result = coroutine.resume(());
        match result {
            CoroutineResult::Yield(stop) => {
                self.tasks.borrow_mut()[id.0].coroutine = Some(coroutine);
                match stop {
                    Stop::Pause => {}
                    Stop::Preempted => {
                        self.leave(id);
                        self.place(id, cpu.clock.get());
                    }
                    Stop::Sleep(how) => {
                        self.leave(id);
                        let task = &mut self.tasks.borrow_mut()[id.0];
                        task.asleep = Some(how);
                        if how == Sleep::Amid {
                            // Who wakes it may be behind it.
                            task.start = cpu.clock.get();
                        }
                    }
                    Stop::Until(time) => {
                        self.leave(id);
                        let mut sleepers = cpu.sleepers.borrow_mut();
                        let place = sleepers.partition_point(|&(other, _)| other <= time);
                        sleepers.insert(place, (time, id));
                    }
                }
            }
            CoroutineResult::Return(()) => {
                self.leave(id);
                let mut tasks = self.tasks.borrow_mut();
                tasks[id.0].ended = Some(cpu.clock.get());
                if matches!(tasks[id.0].kind, Kind::Program(_)) {
                    self.alive.set(self.alive.get() - 1);
                }
            }
        }
    }

    /// Wakes a thread if it sleeps in that way.
    pub(crate) fn wake_task(&self, id: TaskId, how: Sleep) {
        self.wake_task_at(id, how, self.cpu().clock.get());
    }

    /// The same, but the news reaches an idle CPU at `time`.
    pub(crate) fn wake_task_at(&self, id: TaskId, how: Sleep, time: Picoseconds) {
        let woken = {
            let task = &mut self.tasks.borrow_mut()[id.0];
            let woken = task.asleep.take_if(|asleep| *asleep == how).is_some();
            if woken {
                task.start = task.start.max(time);
            }
            woken
        };
        if woken {
            self.place(id, time);
        }
    }

    /// Lets a new thread start on a CPU at `time`.
    pub(crate) fn start_on(&self, id: TaskId, index: usize, time: Picoseconds) {
        {
            let task = &mut self.tasks.borrow_mut()[id.0];
            (task.asleep, task.start) = (None, time);
        }
        let cpu = &self.cpus[index];
        cpu.ready.borrow_mut().push_back(id);
        self.note_queue(index);
        if cpu.idle.get() {
            self.wake_at(index, time.min(cpu.wake.get()));
        }
    }

    /// Whether a thread has started as far as this CPU's clock goes.
    fn started(&self, id: TaskId) -> bool {
        self.tasks.borrow()[id.0].start <= self.cpu().clock.get()
    }

    /// When the first of the threads that sleep here goes on.
    fn next_sleeper(&self) -> Picoseconds {
        self.cpu().sleepers.borrow().front().map_or(NEVER, |&(time, _)| time)
    }

    /// Whether the thread of this CPU should give way.
    pub(crate) fn should_give_way(&self) -> bool {
        let cpu = self.cpu();
        (cpu.preempt.get() || cpu.clock.get() >= cpu.slice_end.get())
            && (self.next_sleeper() <= cpu.clock.get()
                || cpu.ready.borrow().iter().any(|&id| self.started(id)))
    }

    /// A place where another thread may take over, if no lock is held.
    pub(crate) fn give_way(&self) {
        self.sync();
        if self.running.in_task() && self.cpu().held.is_empty() && self.should_give_way() {
            self.running.stop(Stop::Preempted);
        }
    }

    /// Settles the accounts of a thread that leaves its CPU. What runs there next is decided when the CPU's turn comes
    /// again: until then others may be behind it, whose threads it must not take.
    ///
    /// # Panics
    /// If something ties it to the CPU, such as a lock: the CPU's next thread would seem to hold it.
    fn leave(&self, id: TaskId) {
        let cpu = self.cpu();
        assert!(
            cpu.may_be_left(),
            "a thread leaves its CPU pinned, with interrupts off, or with {:?}",
            cpu.held
        );
        self.during(Doing::Answers, || self.finish_broadcasts());
        let mut tasks = self.tasks.borrow_mut();
        tasks[id.0].last = self.here.get();
        tasks[id.0].user += cpu.user.take();
        tasks[id.0].system += cpu.system.take();
        tasks[id.0].doing = cpu.doing.replace(Doing::Kernel);
        cpu.task.set(None);
        cpu.wake.set(cpu.clock.get());
    }

    /// Gives the CPU its next thread, or leaves it idle.
    fn next_task(&self) {
        let cpu = self.cpu();
        // What it did since its last thread left belongs to nobody.
        cpu.user.set(0);
        cpu.system.set(0);
        // Who slept has had the least time.
        let slept =
            if self.next_sleeper() <= cpu.clock.get() { cpu.sleepers.borrow_mut().pop_front() } else { None };
        let own = slept.map(|(_, id)| id).or_else(|| self.take_from(self.here.get(), |_| true));
        let Some(id) = own.or_else(|| self.steal()) else {
            self.rest();
            cpu.wake.set(self.next_queued(self.here.get()).min(self.next_sleeper()));
            cpu.next_tick.set(NEVER);
            cpu.idle.set(true);
            self.resting.borrow_mut().insert(cpu_id(self.here.get()));
            return;
        };
        if cpu.idle.replace(false) {
            self.resting.borrow_mut().remove(cpu_id(self.here.get()));
        }
        cpu.task.set(Some(id));
        if cpu.next_tick.get() == NEVER {
            cpu.next_tick.set(self.timer.after(self.here.get(), cpu.clock.get()));
        }
        cpu.preempt.set(false);
        self.tallies.switches.set(self.tallies.switches.get() + 1);
        let kind = self.tasks.borrow()[id.0].kind.clone();
        self.spend(self.machine.costs.context_switch);
        match kind {
            Kind::Program(space) => self.run_space(&space),
            Kind::Kernel(_) => self.rest(),
        }
        cpu.doing.set(self.tasks.borrow()[id.0].doing);
        let slice_end = cpu.clock.get() + self.machine.costs.time_slice;
        cpu.slice_end.set(slice_end.min(self.next_sleeper()));
        cpu.wake.set(cpu.clock.get());
    }

    /// The first thread that waits for a CPU, has started and is `allowed`.
    fn take_from(&self, index: usize, allowed: impl Fn(TaskId) -> bool) -> Option<TaskId> {
        let taken = {
            let mut ready = self.cpus[index].ready.borrow_mut();
            let position = ready.iter().position(|&id| allowed(id) && self.started(id))?;
            ready.remove(position)
        };
        self.note_queue(index);
        taken
    }

    /// When the first of the threads in a CPU's queue may run.
    fn next_queued(&self, index: usize) -> Picoseconds {
        let tasks = self.tasks.borrow();
        let starts = self.cpus[index].ready.borrow().iter().map(|id| tasks[id.0].start).min();
        starts.unwrap_or(NEVER)
    }

    /// To be called whenever a CPU's queue has changed.
    fn note_queue(&self, index: usize) {
        self.queued.borrow_mut().set(index, self.next_queued(index));
    }

    /// A thread that waits for another CPU, of the own node first. After many were woken there are as many queues, and none
    /// of these threads has started yet: so only those queues are looked at that have one which may run by now.
    fn steal(&self) -> Option<TaskId> {
        let allowed = |id: TaskId| match self.tasks.borrow()[id.0].kind {
            Kind::Program(_) => true,
            Kind::Kernel(node) => self.serves(self.here.get(), node),
        };
        let (node, now) = (self.cpu().node, self.cpu().clock.get());
        let has_one = |index: &usize| {
            self.cpus[*index].ready.borrow().iter().any(|&id| allowed(id) && self.started(id))
        };
        let from = {
            let queued = self.queued.borrow();
            let near = queued.until(now).filter(|&index| self.cpus[index].node == node).find(has_one);
            near.or_else(|| queued.until(now).find(has_one))
        };
        self.take_from(from?, allowed)
    }

    /// Finds a CPU for a thread that could run: an idle one, or else, for a kernel thread, the one of its node that
    /// can best spare the time, and for a program's the one it was on.
    fn place(&self, id: TaskId, time: Picoseconds) {
        let (kind, last) = {
            let task = &self.tasks.borrow()[id.0];
            (task.kind.clone(), task.last)
        };
        let node = match kind {
            Kind::Program(_) => None,
            Kind::Kernel(node) => Some(node),
        };
        let on_node = |index: &usize| node.is_none_or(|node| self.serves(*index, node));
        let free = |index: &usize| self.cpus[*index].idle.get();
        let idle = match kind {
            // What it used is still warm there.
            Kind::Program(_) if free(&last) => Some(last),
            _ => self.resting.borrow().iter().map(CpuId::index).find(on_node),
        };
        let index = idle.unwrap_or_else(|| match kind {
            Kind::Program(_) => last,
            Kind::Kernel(_) => (0..self.cpus.len())
                .filter(on_node)
                .max_by_key(|&index| (self.time_had(index), Reverse(index)))
                .unwrap_or(self.here.get()),
        });
        self.enlist(id, index, time);
    }

    /// Whether a CPU runs the kernel's threads of a node.
    fn serves(&self, index: usize, node: u16) -> bool {
        self.cpus[index].node == node || self.machine.topology.nodes()[usize::from(node)].cpus.is_empty()
    }

    /// CPU time that the thread on a CPU has had; nothing for a CPU that others wait for or that runs the kernel's.
    fn time_had(&self, index: usize) -> Picoseconds {
        let cpu = &self.cpus[index];
        let tasks = self.tasks.borrow();
        match cpu.task.get().map(|id| &tasks[id.0]) {
            Some(task) if matches!(task.kind, Kind::Program(_)) && cpu.ready.borrow().is_empty() => {
                1 + task.user + task.system + cpu.user.get() + cpu.system.get()
            }
            _ => 0,
        }
    }

    /// Puts a thread in a CPU's queue, and wakes the CPU if it is idle. A kernel thread goes first: it slept, so it has
    /// had the least time.
    fn enlist(&self, id: TaskId, index: usize, time: Picoseconds) {
        let cpu = &self.cpus[index];
        if matches!(self.tasks.borrow()[id.0].kind, Kind::Kernel(_)) {
            cpu.ready.borrow_mut().push_front(id);
            cpu.preempt.set(true);
        } else {
            cpu.ready.borrow_mut().push_back(id);
        }
        self.note_queue(index);
        if cpu.idle.replace(false) {
            self.resting.borrow_mut().remove(cpu_id(index));
            self.wake_at(index, time);
        }
    }
}
