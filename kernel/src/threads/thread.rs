//! Threads: of programs, and the kernel's own.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};

use ceasefire::HeldLocks;
use ceasefire_memory::SpaceHandle;

use crate::arch::{interrupts, stack, this_cpu, Frame};
use crate::memory::platform::Kernel;
use crate::start::layout::Stack;
use crate::threads::cpu::PerCpu;
use crate::threads::process::Process;
use crate::threads::schedule;

/// It may run on any CPU.
pub(crate) const ANYWHERE: usize = usize::MAX;

/// What a thread does first.
pub(crate) enum Body {
    /// Runs a function of the kernel.
    Kernel(fn()),
    /// Leaves for its program.
    Program(Box<Frame>),
}

/// A thread.
pub(crate) struct Thread {
    pub(crate) number: u64,
    pub(crate) process: Option<Arc<Process>>,
    /// The memory manager's locks that it holds.
    pub(crate) held: HeldLocks,
    /// How many reasons there are for it to stay on its CPU.
    pins: AtomicU32,
    /// See `schedule`.
    pub(crate) state: AtomicU8,
    /// The only CPU that it may run on, or [`ANYWHERE`].
    pub(crate) place: AtomicUsize,
    /// The CPU that it ran on last.
    pub(crate) last: AtomicUsize,
    /// Where its stack stands while it does not run.
    pub(crate) saved: UnsafeCell<u64>,
    exiting: AtomicBool,
    body: Cell<Option<Body>>,
    /// None for a thread that a CPU began with.
    stack: Option<Stack>,
    /// What it waits for, for people: 0 if nothing.
    pub(crate) waits_for: AtomicU64,
}

// SAFETY: `saved` is used by the CPU that switches from or to the thread, with it off all others; `body` is taken by the thread
// itself. All else is atomic or does not change.
unsafe impl Sync for Thread {}
// SAFETY: nothing in it belongs to a CPU.
unsafe impl Send for Thread {}

impl Thread {
    /// What a CPU begins with, and runs when there is nothing else.
    pub(crate) const fn idle() -> Self {
        Self {
            number: 0,
            process: None,
            held: HeldLocks::new(),
            pins: AtomicU32::new(0),
            state: AtomicU8::new(schedule::RUNNING),
            place: AtomicUsize::new(ANYWHERE),
            last: AtomicUsize::new(0),
            saved: UnsafeCell::new(0),
            exiting: AtomicBool::new(false),
            body: Cell::new(None),
            stack: None,
            waits_for: AtomicU64::new(0),
        }
    }

    /// One that will run `body` on a stack of its own.
    pub(crate) fn new(
        number: u64,
        process: Option<Arc<Process>>,
        place: usize,
        stack: Stack,
        body: Body,
    ) -> Self {
        // SAFETY: the stack is this thread's alone.
        let saved = unsafe { stack::prepare(stack.end(), main) };
        Self {
            number,
            process,
            saved: UnsafeCell::new(saved),
            body: Cell::new(Some(body)),
            stack: Some(stack),
            place: AtomicUsize::new(place),
            state: AtomicU8::new(schedule::PARKED),
            ..Self::idle()
        }
    }

    /// The address space that it runs in, if it is a program's and is not leaving it for good.
    pub(crate) fn space(&self) -> Option<&SpaceHandle<Kernel>> {
        let process = self.process.as_ref().filter(|_| !self.exiting.load(Ordering::Relaxed));
        process.map(|process| &process.space)
    }

    /// It runs no program any more: from now on it is like a thread of the kernel's, so that no switch back to it loads the
    /// space that it is about to take apart.
    pub(crate) fn leave_space(&self) {
        self.exiting.store(true, Ordering::Relaxed);
    }

    /// Where its kernel stack ends; 0 if no program runs on it.
    pub(crate) fn stack_end(&self) -> u64 {
        self.stack.as_ref().map_or(0, Stack::end)
    }

    /// It stays on its CPU until [`Thread::unpin`].
    pub(crate) fn pin(&self) {
        self.pins.store(self.pins.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self) {
        self.pins.store(self.pins.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Whether it may leave its CPU: nothing ties the one to the other.
    pub(crate) fn may_leave(&self) -> bool {
        self.pins.load(Ordering::Relaxed) == 0 && self.stack.is_some()
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.process, self.number) {
            (None, 0) => f.write_str("idle"),
            (None, number) => write!(f, "kernel thread {number}"),
            (Some(process), number) => write!(f, "thread {number} of process {}", process.number),
        }
    }
}

/// The thread that executes this.
pub(crate) fn current() -> &'static Thread {
    current_of(this_cpu::get())
}

/// The thread that a CPU runs. Of another CPU only when that is stopped.
pub(crate) fn current_of(cpu: &PerCpu) -> &'static Thread {
    // SAFETY: never null once the CPU has started; a running thread is owned by its CPU, and its reference is given up only
    // after another has taken its place.
    unsafe { &*cpu.current.load(Ordering::Relaxed) }
}

/// A reference of one's own to the thread that executes this.
///
/// # Panics
/// On a CPU's first thread, which never waits for anything.
pub(crate) fn current_shared() -> Arc<Thread> {
    let thread = current();
    assert!(thread.stack.is_some(), "the idle thread has nothing to wait for");
    // SAFETY: threads with a stack of their own are made by `schedule::start`, in an `Arc` whose reference the CPU holds.
    unsafe {
        Arc::increment_strong_count(thread);
        Arc::from_raw(thread)
    }
}

/// Where every thread begins, on its own stack.
extern "C" fn main() -> ! {
    schedule::arrived();
    interrupts::on();
    match current().body.take() {
        Some(Body::Kernel(body)) => body(),
        Some(Body::Program(frame)) => {
            // Off the heap: nothing comes back here.
            let frame = *frame;
            interrupts::off();
            stack::leave_to(&frame);
        }
        None => {}
    }
    schedule::end()
}
