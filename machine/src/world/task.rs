//! Threads of the simulated machine, and the scheduler that gives them CPUs.
//!
//! A thread is a coroutine: it runs until it waits, pauses for others that are further behind, or ends. The scheduler
//! is as simple as fairness allows: round robin on each CPU with a time slice; an idle CPU takes a thread that waits
//! elsewhere; and a kernel thread whose slice is over moves to the CPU of its node whose program has had most time, so
//! that it costs all of them the same, as load balancing would.

use std::cell::Cell;
use std::fmt;
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::config::Picoseconds;
use crate::measure::spent::Doing;

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
pub(crate) enum Kind<S> {
    /// Runs in a program's address space.
    Program(S),
    /// Runs in the kernel, on CPUs of this node, or on any if it has none.
    Kernel(u16),
}

/// A thread.
pub(crate) struct Task<S> {
    pub(crate) name: String,
    pub(crate) kind: Kind<S>,
    /// Boxed, because it is taken out of here for as long as it runs.
    pub(crate) coroutine: Option<Box<Coroutine<(), Stop, (), DefaultStack>>>,
    pub(crate) asleep: Option<Sleep>,
    /// The CPU that it ran on last.
    pub(crate) last: usize,
    /// When it may run first, or again after it slept in the middle of something.
    pub(crate) start: Picoseconds,
    pub(crate) user: Picoseconds,
    pub(crate) system: Picoseconds,
    /// What it was doing when it left its CPU.
    pub(crate) doing: Doing,
    /// When it ended.
    pub(crate) ended: Option<Picoseconds>,
}

impl<S: fmt::Debug> fmt::Debug for Task<S> {
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

    /// Runs a thread's `body`, on the coroutine that `yielder` stops.
    pub(crate) fn run(&self, yielder: &Yielder<(), Stop>, body: impl FnOnce()) {
        self.yielder.set(yielder);
        body();
        self.yielder.set(ptr::null());
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
        // SAFETY: the pointer was set by the coroutine that runs now (see `Running::run`) and points into its own stack
        // frame, which lives until the coroutine returns; it is set only while that coroutine runs, so this call is on
        // its stack.
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
            // Stopped in the middle of the kernel, with locks and half a flush. To unwind it would run the destructors
            // of both, which wait for CPUs that will not run again; so what it holds is lost.
            std::mem::forget(coroutine);
        }
    }
}
