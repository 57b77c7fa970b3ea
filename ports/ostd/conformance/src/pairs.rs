//! A scheduler for tasks that stay on the CPU that their data names, and take turns when they yield.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use ostd::cpu::{CpuId, PinCurrentCpu};
use ostd::sync::SpinLock;
use ostd::task::scheduler::info::CommonSchedInfo;
use ostd::task::scheduler::{EnqueueFlags, LocalRunQueue, Scheduler, UpdateFlags};
use ostd::task::{Task, disable_preempt};
use ostd::util::id_set::Id;

/// The tasks of each CPU.
pub(crate) struct Pairs(Vec<SpinLock<Turns>>);

/// The tasks of a CPU: the one that runs, and those that wait for their turn.
#[derive(Default)]
struct Turns {
    running: Option<Arc<Task>>,
    waiting: VecDeque<Arc<Task>>,
}

impl Pairs {
    pub(crate) fn new(cpus: usize) -> Self {
        Self((0..cpus).map(|_| SpinLock::new(Turns::default())).collect())
    }
}

impl Scheduler for Pairs {
    fn enqueue(&self, task: Arc<Task>, _: EnqueueFlags) -> Option<CpuId> {
        let number = *task.data().downcast_ref::<usize>().expect("a task's data is its CPU");
        let cpu = CpuId::try_from(number).expect("a CPU of this machine");
        task.cpu().set_anyway(cpu);
        self.0[number].disable_irq().lock().waiting.push_back(task);
        None
    }

    fn local_rq_with(&self, f: &mut dyn FnMut(&dyn LocalRunQueue<Task>)) {
        let pinned = disable_preempt();
        f(&*self.0[pinned.current_cpu().as_usize()].disable_irq().lock());
    }

    fn mut_local_rq_with(&self, f: &mut dyn FnMut(&mut dyn LocalRunQueue<Task>)) {
        let pinned = disable_preempt();
        f(&mut *self.0[pinned.current_cpu().as_usize()].disable_irq().lock());
    }
}

impl LocalRunQueue<Task> for Turns {
    fn current(&self) -> Option<&Arc<Task>> {
        self.running.as_ref()
    }

    fn update_current(&mut self, flags: UpdateFlags) -> bool {
        flags != UpdateFlags::Tick && !self.waiting.is_empty()
    }

    fn try_pick_next(&mut self) -> Option<&Arc<Task>> {
        let next = self.waiting.pop_front()?;
        self.waiting.extend(self.running.replace(next));
        self.running.as_ref()
    }

    fn dequeue_current(&mut self) -> Option<Arc<Task>> {
        self.running.take().inspect(|task| task.cpu().set_to_none())
    }
}
