//! A thread of the simulated machine: a coroutine.
//!
//! A thread runs until it waits, pauses for CPUs that are further behind, or ends.

use std::cell::Cell;
use std::fmt;
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::config::Picoseconds;
use crate::measure::spent::Doing;

/// The bytes of stack for each thread. Only touched pages take memory.
const STACK: usize = 128 * 1024;

/// A thread, by its index in the list of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId(pub(crate) usize);

/// The reason for which a thread stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It waits for a time or an event and keeps the CPU.
    Pause,
    /// It gives the CPU to another thread.
    Preempted,
    /// It sleeps until it is woken.
    Sleep(Sleep),
    /// It sleeps until that time.
    Until(Picoseconds),
}

/// The coroutine of a thread.
pub(crate) type Thread = Coroutine<(), Stop, (), DefaultStack>;

/// The place of a coroutine that does not run.
#[derive(Default)]
pub(crate) struct Paused(Cell<Option<Box<Thread>>>);

impl Paused {
    pub(crate) fn put(&self, coroutine: Box<Thread>) {
        self.0.set(Some(coroutine));
    }

    pub(crate) fn take(&self) -> Option<Box<Thread>> {
        self.0.take()
    }
}

impl fmt::Debug for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paused").finish_non_exhaustive()
    }
}

/// The state of a thread that sleeps until it is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Between two pieces of work: it holds nothing.
    AtRest,
    /// In the middle of a piece of work.
    Amid,
}

/// The kind of a thread. `S` is the handle of an address space.
#[derive(Debug, Clone)]
pub(crate) enum Kind<S> {
    /// Runs in a program's address space.
    Program(S),
    /// Runs in the kernel, on the CPUs of this node, or on any CPU if the node has none.
    Kernel(u16),
}

/// A thread.
pub(crate) struct Task<S> {
    pub(crate) name: String,
    pub(crate) kind: Kind<S>,
    /// The CPU has it while it has the thread. Boxed, because it moves to and fro.
    pub(crate) coroutine: Option<Box<Thread>>,
    pub(crate) asleep: Option<Sleep>,
    /// The CPU on which it ran last.
    pub(crate) last: usize,
    /// The time from which it may run: for the first time, or after a sleep in the middle of its work.
    pub(crate) start: Picoseconds,
    pub(crate) user: Picoseconds,
    pub(crate) system: Picoseconds,
    /// The kind of work in which it left its CPU.
    pub(crate) doing: Doing,
    /// The time at which it ended.
    pub(crate) ended: Option<Picoseconds>,
}

impl<S: fmt::Debug> fmt::Debug for Task<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The running coroutine, as its own code reaches it.
#[derive(Debug)]
pub(crate) struct Running {
    /// The point at which the running coroutine gives up control; null outside of coroutines.
    yielder: Cell<*const Yielder<(), Stop>>,
}

impl Default for Running {
    fn default() -> Self {
        Self { yielder: Cell::new(ptr::null()) }
    }
}

/// The running coroutine, set aside while code runs that must not stop it.
#[derive(Debug)]
pub(crate) struct Aside(*const Yielder<(), Stop>);

impl Running {
    /// Whether a thread runs and may be stopped here.
    pub(crate) fn in_task(&self) -> bool {
        !self.yielder.get().is_null()
    }

    /// Runs a thread's `body`, on the coroutine that `yielder` stops.
    pub(crate) fn run(&self, yielder: &Yielder<(), Stop>, body: impl FnOnce()) {
        self.yielder.set(yielder);
        body();
        self.yielder.set(ptr::null());
    }

    /// From here on the running thread cannot be stopped: an interrupt handler uses its stack.
    pub(crate) fn leave_task(&self) -> Aside {
        Aside(self.yielder.replace(ptr::null()))
    }

    /// Returns to the thread.
    pub(crate) fn enter_task(&self, aside: Aside) {
        self.yielder.set(aside.0);
    }

    /// Stops the running thread until it is resumed. It keeps its CPU.
    pub(crate) fn pause(&self) {
        self.stop(Stop::Pause);
    }

    /// Stops the running thread until it is resumed.
    ///
    /// # Panics
    /// If no thread runs that can be stopped: an interrupt handler or the scheduler waits.
    pub(crate) fn stop(&self, why: Stop) {
        let yielder = self.yielder.replace(ptr::null());
        assert!(!yielder.is_null(), "an interrupt handler or the scheduler waits, outside of any thread");
        // SAFETY: the pointer was set by the coroutine that runs now (see `Running::run`) and points into its own
        // stack frame, which lives until the coroutine returns. It is set only while that coroutine runs, so this
        // call is on its stack.
        unsafe { &*yielder }.suspend(why);
        self.yielder.set(yielder);
    }
}

impl<S> Task<S> {
    /// A thread that will run `body`.
    pub(crate) fn new(
        name: String,
        kind: Kind<S>,
        body: impl FnOnce(&Yielder<(), Stop>) + 'static,
    ) -> std::io::Result<Self> {
        let coroutine = Coroutine::with_stack(DefaultStack::new(STACK)?, move |yielder, ()| body(yielder));
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

impl<S> Drop for Task<S> {
    fn drop(&mut self) {
        let Some(coroutine) = self.coroutine.take() else { return };
        if coroutine.started() && self.asleep != Some(Sleep::AtRest) && !coroutine.done() {
            // The thread stopped in the middle of kernel work, with locks held and flushes under way. Unwinding would
            // run the destructors of both, which wait for CPUs that never run again. So its resources are leaked.
            std::mem::forget(coroutine);
        }
    }
}
