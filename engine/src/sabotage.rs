//! For tests: remove one guard, and show that the rule it upholds is broken.
//!
//! A guard that no test misses is not tested. An engine built with `--cfg ceasefire_sabotage` can be told to skip one
//! of its guards. A test then sees the named rule broken. Only `RUSTFLAGS` sets the cfg. A Cargo feature would be
//! unified: one crate that enabled it would make the guards of all crates removable. In a build without the cfg every
//! guard stands. [`Engine::guarded`] is then the constant `true`, and nothing of this module is in the machine code;
//! `cargo xtask test` checks that.

use crate::platform::Platform;
#[cfg(ceasefire_sabotage)]
use crate::primitive::{AtomicU32, Ordering};
use crate::Engine;

/// A guard of the engine that a test can remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The flush at the end of a batch, before the batch releases its pages: without it R1 breaks.
    BatchFlush = 1,
    /// The settling of what batches owe before an operation returns to the program: without it R3 breaks.
    Settle = 2,
    /// The flush at the end of a strict unmap: without it R1 and R3 break.
    GatherFlush = 4,
    /// The flush of writable entries before write-out: without it R5 breaks.
    WritableFlush = 8,
    /// Interrupting lazy CPUs when page tables are freed: without it R2 breaks.
    LazyTables = 16,
    /// The wait for a batch's broadcasts, before the batch releases its pages: without it R1 breaks.
    BroadcastWait = 32,
    /// The stamp of a page that was let go of owing, which says that its debt is not settled yet: without it R1, R6 and
    /// R7 break.
    Stamp = 64,
    /// The check for downgrades in flight before a page is let go of owing: without it R5 breaks, and stores are lost.
    Downgrade = 128,
    /// The sweep's flush at ticks, before the CPU's debts count as done: without it R1 breaks.
    Sweep = 256,
    /// The flush before a page-table lock is released, in a gather that does not keep new translations out: without it
    /// R7 breaks.
    UnlockFlush = 512,
    /// The interrupts to CPUs that do not run under a space's global ASID yet, or no longer do: without it R1 and R3
    /// break.
    Transition = 1024,
    /// Flushes of kernel ranges: without them R1 and R2 break.
    KernelFlush = 2048,
    /// The flush at an entry into the kernel to which flushes were deferred: without it R1 breaks.
    KernelEntry = 4096,
    /// The note that a second CPU runs a space under its global ASID: without it R1 and R3 break.
    SecondCpu = 8192,
    /// The difference between a narrowing and a clearing in the account of a batch: without it R5 breaks, and stores
    /// are lost.
    Narrowing = 16384,
    /// A tick leaves only epochs that were closed before its flush: without that order R1 breaks.
    Leaving = 32768,
    /// The flush of everything by a gather that is not alone in its space: without it R3 breaks.
    Nested = 65536,
    /// The flush of a translation whose debt a batch may not defer: without it R1 breaks.
    AtOnce = 131_072,
    /// The request to the other CPUs that may use entries of a space: without it R1 and R3 break.
    Others = 262_144,
    /// The wait for the answers to a request: without it R1 and R3 break.
    Answers = 524_288,
}

/// The guards that were removed, each by its bit. Without the cfg it takes no memory.
///
/// It is public for crates above the engine that have guards of their own.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Removed(#[cfg(ceasefire_sabotage)] AtomicU32);

impl Removed {
    /// No guard is removed.
    #[inline]
    pub const fn new() -> Self {
        Self(
            #[cfg(ceasefire_sabotage)]
            AtomicU32::new(0),
        )
    }

    /// Whether the guard with this bit stands.
    #[cfg(not(ceasefire_sabotage))]
    #[allow(clippy::unused_self)]
    #[inline]
    pub const fn stands(&self, _: u32) -> bool {
        true
    }

    /// Whether the guard with this bit stands.
    #[cfg(ceasefire_sabotage)]
    #[inline]
    pub fn stands(&self, guard: u32) -> bool {
        self.0.load(Ordering::Relaxed) & guard == 0
    }

    /// Removes the guard with this bit.
    #[cfg(ceasefire_sabotage)]
    pub fn remove(&self, guard: u32) {
        self.0.fetch_or(guard, Ordering::Relaxed);
    }
}

impl<P: Platform> Engine<P> {
    /// Removes `guard` for the rest of this engine's life.
    #[cfg(ceasefire_sabotage)]
    pub fn remove_guard(&self, guard: Guard) {
        self.removed.remove(guard as u32);
    }

    /// Whether a guard stands. Never inlined with the cfg: its symbol is in every program that asks for a guard and was
    /// built with the cfg.
    #[cfg_attr(ceasefire_sabotage, inline(never))]
    #[cfg_attr(not(ceasefire_sabotage), inline)]
    pub(crate) fn guarded(&self, guard: Guard) -> bool {
        self.removed.stands(guard as u32)
    }
}
