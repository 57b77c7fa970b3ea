//! What a report says about each CPU: the thread that it runs, and the registers where it stopped.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::arch::cpus::{self, MOST_CPUS};
use crate::arch::{this_cpu, Frame};

/// A thread's name in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadName {
    /// Its number; 0 for an idle thread.
    pub(crate) number: u64,
    /// The number of its process; 0 for a thread of the kernel.
    pub(crate) process: u64,
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.process, self.number) {
            (0, 0) => f.write_str("idle"),
            (0, number) => write!(f, "kernel thread {number}"),
            (process, number) => write!(f, "thread {number} of process {process}"),
        }
    }
}

/// What is known of one CPU.
pub(super) struct CpuState {
    /// The numbers of its thread's [`ThreadName`].
    thread: AtomicU64,
    process: AtomicU64,
    /// The registers where the CPU stopped, once `is_stopped`.
    stopped: UnsafeCell<Option<Frame>>,
    is_stopped: AtomicBool,
}

// SAFETY: the CPU writes `stopped` before it raises `is_stopped`; other CPUs read `stopped` after they saw that. All
// other fields are atomic.
unsafe impl Sync for CpuState {}

static STATES: [CpuState; MOST_CPUS] = [const { CpuState::new() }; MOST_CPUS];

impl CpuState {
    const fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            process: AtomicU64::new(0),
            stopped: UnsafeCell::new(None),
            is_stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn thread(&self) -> ThreadName {
        ThreadName {
            number: self.thread.load(Ordering::Relaxed),
            process: self.process.load(Ordering::Relaxed),
        }
    }

    /// The registers where the CPU stopped; none if it has not.
    pub(super) fn stopped(&self) -> Option<&Frame> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the CPU wrote it before it raised the flag, and has stopped.
        unsafe { (*self.stopped.get()).as_ref() }
    }
}

/// The running CPU's.
pub(super) fn here() -> &'static CpuState {
    &STATES[this_cpu::number()]
}

/// Those of all CPUs that run, by number.
pub(super) fn all() -> &'static [CpuState] {
    &STATES[..cpus::count()]
}

/// Notes the registers where this CPU stops. Those that were noted first count.
pub(super) fn set_stopped(frame: &Frame) {
    let here = here();
    if !here.is_stopped.load(Ordering::Relaxed) {
        // SAFETY: this CPU's own, which other CPUs read only once the flag is up.
        unsafe { *here.stopped.get() = Some(*frame) };
        here.is_stopped.store(true, Ordering::Release);
    }
}

/// Notes the thread that this CPU runs from now on.
pub(crate) fn set_thread(thread: ThreadName) {
    let here = here();
    here.thread.store(thread.number, Ordering::Relaxed);
    here.process.store(thread.process, Ordering::Relaxed);
}
