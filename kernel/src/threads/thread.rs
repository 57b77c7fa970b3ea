//! Threads: of programs, and of the kernel.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};

use ceasefire_memory::{HeldLocks, SpaceHandle};

use crate::arch::{stack, Frame};
use crate::failure::cpu_state::ThreadName;
use crate::manager::Kernel;
use crate::threads::process::Process;
use crate::threads::stack::Stack;

/// The next number. Processes and threads share their numbers.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A new number for a process or thread.
pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The place of a thread that may run on any CPU.
pub(crate) const ANYWHERE: usize = usize::MAX;

/// It runs, or waits for a CPU.
pub(super) const RUNNING: u8 = 0;
/// It runs, and its next sleep must return at once.
pub(super) const NOTIFIED: u8 = 1;
/// It is leaving its CPU in order to sleep.
pub(super) const PARKING: u8 = 2;
/// It sleeps.
pub(super) const PARKED: u8 = 3;

/// The next state of a thread that leaves its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It waits for its next turn.
    Requeue,
    /// It sleeps.
    Park,
    /// It has ended.
    End,
    /// It is the CPU's idle thread.
    Idle,
}

/// The first thing that a thread does.
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
    /// How many times it is pinned to its CPU.
    pins: AtomicU32,
    /// One of the four states above; see `schedule`.
    pub(crate) state: AtomicU8,
    /// The only CPU that it may run on, or [`ANYWHERE`].
    pub(crate) place: AtomicUsize,
    /// The CPU that it ran on last.
    pub(crate) last: AtomicUsize,
    /// Its stack pointer while it does not run.
    pub(crate) saved: UnsafeCell<u64>,
    exiting: AtomicBool,
    pub(super) body: Cell<Option<Body>>,
    /// None for an idle thread.
    stack: Option<Stack>,
    /// The frame that it waits for, shown to people; 0 for none.
    pub(crate) waits_for: AtomicU64,
}

// SAFETY: `saved` is used by the CPU that switches from or to the thread, while no other CPU runs it. The thread itself
// takes `body`. All else is atomic or does not change.
unsafe impl Sync for Thread {}
// SAFETY: nothing in it belongs to a CPU.
unsafe impl Send for Thread {}

impl Thread {
    /// The thread with which a CPU begins, and which it runs when it has no other.
    pub(crate) const fn idle() -> Self {
        Self {
            number: 0,
            process: None,
            held: HeldLocks::new(),
            pins: AtomicU32::new(0),
            state: AtomicU8::new(RUNNING),
            place: AtomicUsize::new(ANYWHERE),
            last: AtomicUsize::new(0),
            saved: UnsafeCell::new(0),
            exiting: AtomicBool::new(false),
            body: Cell::new(None),
            stack: None,
            waits_for: AtomicU64::new(0),
        }
    }

    /// A thread that will run `body` on a stack of its own, from `begin` on.
    pub(crate) fn new(
        number: u64,
        process: Option<Arc<Process>>,
        place: usize,
        stack: Stack,
        body: Body,
        begin: extern "C" fn() -> !,
    ) -> Self {
        // SAFETY: the stack belongs to this thread alone.
        let saved = unsafe { stack::prepare(stack.end(), begin) };
        Self {
            number,
            process,
            saved: UnsafeCell::new(saved),
            body: Cell::new(Some(body)),
            stack: Some(stack),
            place: AtomicUsize::new(place),
            state: AtomicU8::new(PARKED),
            ..Self::idle()
        }
    }

    /// Its name in reports.
    pub(crate) fn name(&self) -> ThreadName {
        let process = self.process.as_ref().map_or(0, |process| process.number);
        ThreadName { number: self.number, process }
    }

    /// The address space that it runs in; none for a kernel thread, and for a thread that is leaving its space for
    /// good.
    pub(crate) fn space(&self) -> Option<&SpaceHandle<Kernel>> {
        let process = self.process.as_ref().filter(|_| !self.exiting.load(Ordering::Relaxed));
        process.map(|process| &process.space)
    }

    /// Turns it into a thread without a program, so that no switch back to it loads the space that it is about to take
    /// apart.
    pub(crate) fn leave_space(&self) {
        self.exiting.store(true, Ordering::Relaxed);
    }

    /// The end of its kernel stack; 0 for an idle thread.
    pub(crate) fn stack_end(&self) -> u64 {
        self.stack.as_ref().map_or(0, Stack::end)
    }

    /// Pins it to its CPU until [`Thread::unpin`].
    pub(crate) fn pin(&self) {
        self.pins.store(self.pins.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self) {
        self.pins.store(self.pins.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Whether it has a stack of its own. Only idle threads have none.
    pub(super) fn has_stack(&self) -> bool {
        self.stack.is_some()
    }

    /// Whether it may leave its CPU: it is not pinned, and not idle.
    pub(crate) fn may_leave(&self) -> bool {
        self.pins.load(Ordering::Relaxed) == 0 && self.stack.is_some()
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}
