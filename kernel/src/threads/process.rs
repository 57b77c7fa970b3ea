//! A process.

use core::fmt;
use core::sync::atomic::{AtomicU64, AtomicUsize};

use ceasefire_memory::SpaceHandle;

use crate::lock::IrqLock;
use crate::manager::Kernel;

/// An address space of a program, with the number of threads that run in it.
pub(crate) struct Process {
    pub(crate) number: u64,
    pub(crate) space: SpaceHandle<Kernel>,
    /// How many of its threads have not ended.
    pub(crate) threads: AtomicUsize,
    /// The code of the first thread that ended with a code other than 0.
    pub(crate) code: AtomicU64,
    /// An impossible access by an instruction from the first address up to the second continues at the third.
    recovery: IrqLock<(u64, u64, u64)>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.number)
    }
}

impl Process {
    pub(crate) fn new(number: u64, space: SpaceHandle<Kernel>, recovery: (u64, u64, u64)) -> Self {
        Self {
            number,
            space,
            threads: AtomicUsize::new(0),
            code: AtomicU64::new(0),
            recovery: IrqLock::new(recovery),
        }
    }

    /// Where an impossible access at `instruction` continues.
    pub(crate) fn recovery(&self, instruction: u64) -> Option<u64> {
        let (start, end, to) = *self.recovery.lock();
        (start <= instruction && instruction < end).then_some(to)
    }

    /// Sets where impossible accesses by the instructions from `start` up to `end` continue.
    pub(crate) fn set_recovery(&self, start: u64, end: u64, to: u64) {
        *self.recovery.lock() = (start, end, to);
    }

    /// The setting of [`Process::set_recovery`], for a copy of the process.
    pub(crate) fn recoveries(&self) -> (u64, u64, u64) {
        *self.recovery.lock()
    }
}
