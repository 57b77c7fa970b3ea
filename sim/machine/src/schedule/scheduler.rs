//! The scheduler, which gives CPUs to threads.
//!
//! It is as simple as fairness allows. Each CPU runs its threads round robin with a time slice. An idle CPU takes a
//! thread that waits for another CPU. A kernel thread whose slice is over moves to the CPU of its node whose program
//! has had the most time. So it delays all programs equally, as load balancing would.

use std::cmp::Reverse;
use std::io;

use ceasefire::CpuId;
use ceasefire_memory::SpaceHandle;
use corosensei::CoroutineResult;

use crate::config::Picoseconds;
use crate::hardware::numbers::cpu_id;
use crate::measure::spent::Doing;
use crate::world::state::{Sim, World};
use crate::world::task::{Kind, Sleep, Stop, Task, TaskId, Thread};
use crate::world::timeline::NEVER;

/// Adds a thread that sleeps.
pub(crate) fn add(
    sim: &Sim,
    name: String,
    kind: Kind<SpaceHandle<Sim>>,
    body: impl FnOnce() + 'static,
) -> io::Result<TaskId> {
    let world = sim.clone();
    let task = Task::new(name, kind, move |yielder| world.running.run(yielder, body))?;
    let mut tasks = sim.tasks.borrow_mut();
    tasks.push(task);
    Ok(TaskId(tasks.len() - 1))
}

impl World {
    /// Runs the CPU's thread until it stops. A CPU without a thread gets one.
    #[inline]
    pub(crate) fn run_task(&self) {
        let cpu = self.cpu();
        let Some(mut coroutine) = cpu.paused.take() else {
            self.next_task();
            return;
        };
        match coroutine.resume(()) {
            CoroutineResult::Yield(Stop::Pause) => cpu.paused.put(coroutine),
            CoroutineResult::Yield(stop) => self.stopped(coroutine, stop),
            CoroutineResult::Return(()) => self.ended(),
        }
    }

    /// The CPU's thread gives the CPU up.
    fn stopped(&self, coroutine: Box<Thread>, why: Stop) {
        let (cpu, id) = (self.cpu(), self.leave());
        self.tasks.borrow_mut()[id.0].coroutine = Some(coroutine);
        match why {
            Stop::Pause => unreachable!("a thread that pauses keeps its CPU"),
            Stop::Preempted => self.place(id, cpu.clock.get()),
            Stop::Sleep(how) => {
                let task = &mut self.tasks.borrow_mut()[id.0];
                task.asleep = Some(how);
                if how == Sleep::Amid {
                    // The CPU that wakes it may be behind it.
                    task.start = cpu.clock.get();
                }
            }
            Stop::Until(time) => {
                let mut sleepers = cpu.sleepers.borrow_mut();
                let place = sleepers.partition_point(|&(other, _)| other <= time);
                sleepers.insert(place, (time, id));
            }
        }
    }

    /// The CPU's thread has ended.
    fn ended(&self) {
        let id = self.leave();
        let task = &mut self.tasks.borrow_mut()[id.0];
        task.ended = Some(self.cpu().clock.get());
        if matches!(task.kind, Kind::Program(_)) {
            self.alive.set(self.alive.get() - 1);
        }
    }

    /// Wakes a thread if it sleeps in that way.
    pub(crate) fn wake_task(&self, id: TaskId, how: Sleep) {
        self.wake_task_at(id, how, self.cpu().clock.get());
    }

    /// The same, but an idle CPU learns of it at `time`.
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

    /// Starts a new thread on a CPU at `time`.
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

    /// Whether a thread may have started by this CPU's clock.
    fn started(&self, id: TaskId) -> bool {
        self.tasks.borrow()[id.0].start <= self.cpu().clock.get()
    }

    /// The time at which the first thread that sleeps here goes on.
    fn next_sleeper(&self) -> Picoseconds {
        self.cpu().sleepers.borrow().front().map_or(NEVER, |&(time, _)| time)
    }

    /// Whether the thread of this CPU should give way.
    pub(crate) fn should_give_way(&self) -> bool {
        self.cpu().clock.get() >= self.turn_ends() && self.another_waits()
    }

    /// The time from which it should, as things stand.
    pub(crate) fn gives_way_at(&self) -> Picoseconds {
        self.turn_ends().max(self.next_queued(self.here()).min(self.next_sleeper()))
    }

    /// The time until which it need not give way to anyone.
    fn turn_ends(&self) -> Picoseconds {
        let cpu = self.cpu();
        if cpu.preempt.get() {
            0
        } else {
            cpu.slice_end.get()
        }
    }

    /// Whether another thread waits for this CPU.
    fn another_waits(&self) -> bool {
        let cpu = self.cpu();
        self.next_sleeper() <= cpu.clock.get() || cpu.ready.borrow().iter().any(|&id| self.started(id))
    }

    /// A point where another thread may take the CPU, if no lock is held.
    pub(crate) fn give_way(&self) {
        self.sync();
        if self.running.in_task() && self.cpu().held.is_empty() && self.should_give_way() {
            self.running.stop(Stop::Preempted);
        }
    }

    /// The running thread, which holds no lock, lets the next thread that waits have the CPU.
    pub(crate) fn yield_cpu(&self) {
        self.sync();
        if self.running.in_task() && self.another_waits() {
            self.running.stop(Stop::Preempted);
        }
    }

    /// Closes the accounts of the thread that leaves this CPU, and returns it. The CPU's next thread is chosen when its
    /// turn comes again, since other CPUs may be behind it until then, and it must not take their threads.
    ///
    /// # Panics
    /// If there is no thread, or if it holds a lock, is pinned, or has interrupts off: the CPU's next thread would seem
    /// to hold the lock.
    fn leave(&self) -> TaskId {
        let cpu = self.cpu();
        let id = cpu.task.get().expect("a thread that leaves its CPU");
        assert!(
            cpu.may_be_left(),
            "a thread leaves its CPU pinned, with interrupts off, or with {:?}",
            cpu.held
        );
        self.during(Doing::Answers, || self.finish_broadcasts());
        let mut tasks = self.tasks.borrow_mut();
        tasks[id.0].last = self.here();
        tasks[id.0].user += cpu.user.take();
        tasks[id.0].system += cpu.system.take();
        tasks[id.0].doing = cpu.doing.replace(Doing::Kernel);
        cpu.task.set(None);
        cpu.wake.set(cpu.clock.get());
        id
    }

    /// Gives the CPU its next thread, or leaves it idle.
    fn next_task(&self) {
        let cpu = self.cpu();
        // Time since its last thread left is charged to no thread.
        cpu.user.set(0);
        cpu.system.set(0);
        // A thread that slept has had the least time.
        let slept =
            if self.next_sleeper() <= cpu.clock.get() { cpu.sleepers.borrow_mut().pop_front() } else { None };
        let own = slept.map(|(_, id)| id).or_else(|| self.take_from(self.here(), |_| true));
        let Some(id) = own.or_else(|| self.steal()) else {
            self.rest();
            cpu.wake.set(self.next_queued(self.here()).min(self.next_sleeper()));
            cpu.next_tick.set(NEVER);
            cpu.idle.set(true);
            if cpu.asleep_since.get() == NEVER {
                cpu.asleep_since.set(cpu.clock.get());
            }
            self.resting.borrow_mut().insert(cpu_id(self.here()));
            return;
        };
        if cpu.idle.replace(false) {
            self.resting.borrow_mut().remove(cpu_id(self.here()));
        }
        // No thread pays for the time in which its CPU wakes up.
        cpu.clock.set(cpu.clock.get() + self.wake_up(cpu.clock.get()));
        cpu.task.set(Some(id));
        cpu.paused.put(
            self.tasks.borrow_mut()[id.0].coroutine.take().expect("the coroutine of a thread without a CPU"),
        );
        if cpu.next_tick.get() == NEVER {
            cpu.next_tick.set(self.timer.after(self.here(), cpu.clock.get()));
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

    /// The time at which the first thread in a CPU's queue may run.
    fn next_queued(&self, index: usize) -> Picoseconds {
        let tasks = self.tasks.borrow();
        let starts = self.cpus[index].ready.borrow().iter().map(|id| tasks[id.0].start).min();
        starts.unwrap_or(NEVER)
    }

    /// Must be called after each change of a CPU's queue.
    fn note_queue(&self, index: usize) {
        self.queued.set(index, self.next_queued(index));
        self.look_again(index);
    }

    /// Takes a thread that waits for another CPU, preferably of this node. After many threads were woken, there are
    /// as many queues of threads that have not started yet. So only the queues with a thread that may run by now are
    /// searched.
    fn steal(&self) -> Option<TaskId> {
        let allowed = |id: TaskId| match self.tasks.borrow()[id.0].kind {
            Kind::Program(_) => true,
            Kind::Kernel(node) => self.serves(self.here(), node),
        };
        let (node, now) = (self.cpu().node, self.cpu().clock.get());
        let has_one = |index: &usize| {
            self.cpus[*index].ready.borrow().iter().any(|&id| allowed(id) && self.started(id))
        };
        let from = {
            let near = self.queued.until(now).filter(|&index| self.cpus[index].node == node).find(has_one);
            near.or_else(|| self.queued.until(now).find(has_one))
        };
        self.take_from(from?, allowed)
    }

    /// Chooses a CPU for a thread that can run: an idle one if there is one. Otherwise a kernel thread gets the CPU
    /// of its node whose program has had the most time, and a program's thread its last CPU.
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
            // Its caches are still warm there.
            Kind::Program(_) if free(&last) => Some(last),
            _ => self.resting.borrow().iter().map(CpuId::index).find(on_node),
        };
        let index = idle.unwrap_or_else(|| match kind {
            Kind::Program(_) => last,
            Kind::Kernel(_) => (0..self.cpus.len())
                .filter(on_node)
                .max_by_key(|&index| (self.time_had(index), Reverse(index)))
                .unwrap_or(self.here()),
        });
        self.enlist(id, index, time);
    }

    /// Whether a CPU runs the kernel's threads of a node.
    fn serves(&self, index: usize, node: u16) -> bool {
        self.cpus[index].node == node || self.machine.topology.nodes()[usize::from(node)].cpus.is_empty()
    }

    /// The CPU time that the thread on a CPU has had; 0 for a CPU with a queue or with a kernel thread.
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

    /// Puts a thread in a CPU's queue, and wakes the CPU if it is idle. A kernel thread goes to the front: it slept,
    /// so it has had the least time.
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
