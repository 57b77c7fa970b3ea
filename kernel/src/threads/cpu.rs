//! The kernel's data for each CPU.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use ceasefire::{Cpu, CpuId};

use crate::arch::cpus::{self, MOST_CPUS};
use crate::arch::this_cpu;
use crate::lock::IrqLock;
use crate::manager::Kernel;
use crate::patience::Watched;
use crate::threads::presence::Presence;
use crate::threads::thread::{Leave, Thread};

/// One CPU.
pub(crate) struct PerCpu {
    pub(crate) engine: Cpu<ceasefire_memory::SpaceHandle<Kernel>>,
    /// The thread that it runs; never null once the CPU has started.
    pub(crate) current: AtomicPtr<Thread>,
    /// The thread that it runs when it has no other. It begins as the CPU's path through the boot.
    pub(crate) idle: Thread,
    /// Whether it is online.
    pub(crate) presence: Presence,
    /// Threads that wait for this CPU; none while it is offline.
    pub(crate) queue: IrqLock<Option<VecDeque<Arc<Thread>>>>,
    /// Their number, read without the lock.
    pub(crate) waiting: AtomicUsize,
    /// It has nothing to run, or is about to halt until an interrupt comes.
    pub(crate) halted: AtomicBool,
    /// Its thread has had its turn, and other threads wait.
    pub(crate) turn_over: AtomicBool,
    /// The thread that it left last and that thread's next state. Set only between one stack and the next.
    pub(crate) left: Cell<Option<(*const Thread, Leave)>>,
    /// It has sent requests and halted until they are answered.
    pub(crate) stopped_for_answers: AtomicBool,
    /// It is answering another CPU's request.
    pub(crate) answering: AtomicBool,
    /// Signs of progress: system calls, faults, flushes, requests of other CPUs, ticks in programs.
    pub(crate) progress: AtomicU64,
    /// The progress of all CPUs, as this CPU sees it.
    pub(crate) all_progress: Watched,
    /// The ticks of another CPU, as this CPU sees them.
    pub(crate) others_ticks: Watched,
    pub(crate) ticks: AtomicU64,
    /// Ticks that came while it ran a program.
    pub(crate) program_ticks: AtomicU64,
    /// Ticks that came while it had nothing to run.
    pub(crate) idle_ticks: AtomicU64,
    pub(crate) switches: AtomicU64,
    /// Nanoseconds that it waited for other CPUs' answers.
    pub(crate) answer_wait: AtomicU64,
}

// SAFETY: the CPU itself uses `left`, with interrupts off. All other fields are atomic or locked, or state themselves
// how they are shared.
unsafe impl Sync for PerCpu {}

impl PerCpu {
    const fn new() -> Self {
        Self {
            engine: Cpu::new(),
            current: AtomicPtr::new(core::ptr::null_mut()),
            idle: Thread::idle(),
            presence: Presence::new(),
            queue: IrqLock::new(Some(VecDeque::new())),
            waiting: AtomicUsize::new(0),
            halted: AtomicBool::new(false),
            turn_over: AtomicBool::new(false),
            left: Cell::new(None),
            stopped_for_answers: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            all_progress: Watched::new(),
            others_ticks: Watched::new(),
            ticks: AtomicU64::new(0),
            program_ticks: AtomicU64::new(0),
            idle_ticks: AtomicU64::new(0),
            switches: AtomicU64::new(0),
            answer_wait: AtomicU64::new(0),
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> usize {
        // SAFETY: all `PerCpu` lie in this array.
        let offset = unsafe { core::ptr::from_ref(self).offset_from(CPUS.as_ptr()) };
        offset as usize
    }

    /// Counts a sign of progress.
    pub(crate) fn note_progress(&self) {
        count(&self.progress);
    }

    /// Whether the first CPU has found all the others.
    pub(crate) fn may_run(&self) -> bool {
        cpus::count() > self.number()
    }
}

/// Makes this CPU run its idle thread.
pub(crate) fn adopt_idle() {
    let here = here();
    here.current.store((&raw const here.idle).cast_mut(), Ordering::Relaxed);
}

/// Adds one to a counter that only this CPU writes.
pub(crate) fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

static CPUS: [PerCpu; MOST_CPUS] = [const { PerCpu::new() }; MOST_CPUS];

/// The data of the running CPU. They remain valid for the thread until it sleeps or gives way, since only the scheduler
/// moves a thread.
pub(crate) fn here() -> &'static PerCpu {
    get(this_cpu::number())
}

/// A CPU by its number.
pub(crate) fn get(number: usize) -> &'static PerCpu {
    &CPUS[number]
}

/// A CPU by its number in the engine.
pub(crate) fn of(id: CpuId) -> &'static PerCpu {
    get(id.index())
}

/// All CPUs that run.
pub(crate) fn all() -> &'static [PerCpu] {
    &CPUS[..cpus::count()]
}
