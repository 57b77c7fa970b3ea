//! Test-only: take one guard away and see that the rule it upholds is broken.
//!
//! A check that nothing misses is a missing test. With the feature `sabotage` an engine can be told to skip one
//! of its guards; the machine's oracle must then see the named rule broken. Never enabled in a normal build.

use crate::platform::Platform;
use crate::primitive::{AtomicU32, Ordering};
use crate::Engine;

/// A guard of the engine that a test can remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The flush at the end of a batch, before what it holds is let go: without it rule R1 breaks.
    BatchFlush = 1,
    /// The settling of what batches owe before an operation returns to the program: without it R3 breaks.
    Settle = 2,
    /// The flush at the end of a strict unmap: without it R1 and R3 break.
    GatherFlush = 4,
    /// The flush of writable entries before write-out: without it R5 breaks.
    WritableFlush = 8,
    /// Interrupting lazy CPUs when page tables are freed: without it R2 breaks.
    LazyTables = 16,
    /// The wait for a batch's broadcasts, before what it holds is let go: without it R1 breaks.
    BroadcastWait = 32,
    /// The stamp of what was let go of owing, which says that its debt is not settled yet: without it R1, R6 and R7 break.
    Stamp = 64,
    /// Looking for downgrades in flight before a page is let go of owing: without it R5 breaks, and stores are lost.
    Downgrade = 128,
    /// The sweep's flush at ticks, before the CPU's debts count as done: without it R1 breaks.
    Sweep = 256,
    /// The memory manager's look at what a page's slot owes: without it R6 breaks.
    Slot = 512,
    /// The interrupts to those who do not run under a space's global ASID yet, or any more: without it R1 and R3 break.
    Transition = 1024,
}

/// The guards that were taken away.
#[derive(Debug)]
pub(crate) struct Removed(AtomicU32);

impl Removed {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn stands(&self, guard: Guard) -> bool {
        self.0.load(Ordering::Relaxed) & guard as u32 == 0
    }
}

impl<P: Platform> Engine<P> {
    /// Takes `guard` away for the rest of this engine's life.
    pub fn remove_guard(&self, guard: Guard) {
        self.removed.0.fetch_or(guard as u32, Ordering::Relaxed);
    }
}
