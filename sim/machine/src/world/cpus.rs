//! The CPUs, and the one whose turn it is.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::world::state::CpuState;

/// All CPUs of a machine, at least one.
///
/// Each operation of a simulated CPU starts with its state. So the CPU whose turn it is is kept as a pointer: this
/// saves a twentieth of all instructions of a run.
#[derive(Debug)]
pub(crate) struct Cpus {
    /// A vector, whose elements stay in place when it moves. No CPU is ever added or removed.
    all: Vec<CpuState>,
    here: Cell<usize>,
    current: Cell<NonNull<CpuState>>,
}

impl Cpus {
    /// The first CPU has its turn.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn new(all: Vec<CpuState>) -> Self {
        let current = Cell::new(NonNull::from(&all[0]));
        Self { all, here: Cell::new(0), current }
    }

    /// The number of the CPU whose turn it is.
    pub(crate) fn here(&self) -> usize {
        self.here.get()
    }

    /// The CPU whose turn it is.
    pub(crate) fn current(&self) -> &CpuState {
        // SAFETY: `new` and `turn_to` are all that set the pointer, to an element of `all`. `all` is private, nothing
        // here changes its length or borrows it mutably, and it is dropped with `self`.
        unsafe { self.current.get().as_ref() }
    }

    /// Another CPU has its turn.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub(crate) fn turn_to(&self, index: usize) {
        self.current.set(NonNull::from(&self.all[index]));
        self.here.set(index);
    }
}

impl Deref for Cpus {
    type Target = [CpuState];

    fn deref(&self) -> &[CpuState] {
        &self.all
    }
}
