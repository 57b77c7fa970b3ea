//! For tests: remove one guard, and show that the rule it upholds is broken.
//!
//! A guard that no test misses is not tested. An engine built with `--cfg ceasefire_sabotage` can be told to skip one
//! of its guards. A test then sees the named rule broken. Only `RUSTFLAGS` sets the cfg. A Cargo feature would be
//! unified: one crate that enabled it would make the guards of all crates removable. In a build without the cfg every
//! guard stands. [`Engine::guarded`] is then the constant `true`, and nothing of this module is in the machine code;
//! `cargo xtask test` checks that.

use crate::platform::Platform;
#[cfg(ceasefire_sabotage)]
use crate::primitive::{AtomicU64, Ordering};
use crate::Engine;

/// A guard of the engine that a test can remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
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
    /// The stamp of a page that was released in debt, which says that its debt is not settled yet: without it R1, R6 and
    /// R7 break.
    Stamp = 64,
    /// The check for downgrades in flight before a page is released in debt: without it R5 breaks, and stores are lost.
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
    /// The announcement that a CPU is switching, before it reads the generation: without it R1 and R3 break.
    Switching = 1 << 20,
    /// A CPU joins a space's set before it loads the space's root: without that order R1 and R3 break.
    JoinFirst = 1 << 21,
    /// A CPU leaves a space's set only after it has loaded another root: without that order R2 breaks.
    LeaveLast = 1 << 22,
    /// The flush at a return to a space that was flushed meanwhile: without it R1 and R3 break.
    Behind = 1 << 23,
    /// The flush of a slot that changes its owner: without it R4 breaks.
    Recycled = 1 << 24,
    /// The flush when a CPU leaves lazy mode: without it R1 and R3 break.
    CatchUp = 1 << 25,
    /// The flush of everything by a CPU that is behind by more than one flush: without it R1 and R3 break.
    OneBehind = 1 << 26,
    /// A request of no generation is for the newest: without that R1 and R3 break.
    NoGeneration = 1 << 27,
    /// The flush of all global ASIDs before any is given out again: without it R4 breaks.
    Rollover = 1 << 28,
    /// The note in a flush that tables are freed: without it R2 breaks.
    Tables = 1 << 29,
    /// The note in a flush that translations of several sizes lie in its range: without it R1 and R3 break.
    Mixed = 1 << 30,
    /// The invalidation of everything on a CPU that comes online: without it R1 and R4 break.
    Online = 1 << 31,
    /// The look at a target's inbox, which is closed while the target is offline: without it a flush never ends.
    Closed = 1 << 32,
    /// A batch that broadcast pages reaches only its own generations: without that R3 breaks.
    Reached = 1 << 33,
    /// The flush of devices that walk a space's tables: without it R1 breaks.
    Devices = 1 << 34,
    /// A hidden translation counts as held until the flush for its hiding: without that R1 breaks.
    Hidden = 1 << 35,
    /// The flush of devices that share the kernel's tables: without it R2 breaks.
    KernelDevices = 1 << 36,
    /// Where entries carry no ASIDs, every space has the shared one: without that R4 breaks.
    Untagged = 1 << 37,
    /// A flush raises the generation before it looks at the CPUs: without that order R1 and R3 break.
    RaiseFirst = 1 << 38,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 39] = [
        Self::BatchFlush,
        Self::Settle,
        Self::GatherFlush,
        Self::WritableFlush,
        Self::LazyTables,
        Self::BroadcastWait,
        Self::Stamp,
        Self::Downgrade,
        Self::Sweep,
        Self::UnlockFlush,
        Self::Transition,
        Self::KernelFlush,
        Self::KernelEntry,
        Self::SecondCpu,
        Self::Narrowing,
        Self::Leaving,
        Self::Nested,
        Self::AtOnce,
        Self::Others,
        Self::Answers,
        Self::Switching,
        Self::JoinFirst,
        Self::LeaveLast,
        Self::Behind,
        Self::Recycled,
        Self::CatchUp,
        Self::OneBehind,
        Self::NoGeneration,
        Self::Rollover,
        Self::Tables,
        Self::Mixed,
        Self::Online,
        Self::Closed,
        Self::Reached,
        Self::Devices,
        Self::Hidden,
        Self::KernelDevices,
        Self::Untagged,
        Self::RaiseFirst,
    ];
}

/// The guards that were removed, each by its bit. Without the cfg it takes no memory.
///
/// It is public for crates above the engine that have guards of their own.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Removed(#[cfg(ceasefire_sabotage)] AtomicU64);

impl Removed {
    /// No guard is removed.
    #[inline]
    pub const fn new() -> Self {
        Self(
            #[cfg(ceasefire_sabotage)]
            AtomicU64::new(0),
        )
    }

    /// Whether the guard with this bit stands.
    #[cfg(not(ceasefire_sabotage))]
    #[allow(clippy::unused_self)]
    #[inline]
    pub const fn stands(&self, _: u64) -> bool {
        true
    }

    /// Whether the guard with this bit stands.
    #[cfg(ceasefire_sabotage)]
    #[inline]
    pub fn stands(&self, guard: u64) -> bool {
        self.0.load(Ordering::Relaxed) & guard == 0
    }

    /// Removes the guard with this bit.
    #[cfg(ceasefire_sabotage)]
    pub fn remove(&self, guard: u64) {
        self.0.fetch_or(guard, Ordering::Relaxed);
    }
}

impl<P: Platform> Engine<P> {
    /// Removes `guard` for the rest of this engine's life.
    #[cfg(ceasefire_sabotage)]
    pub fn remove_guard(&self, guard: Guard) {
        self.removed.remove(guard as u64);
    }

    /// Whether a guard stands. Never inlined with the cfg: its symbol is in every program that asks for a guard and was
    /// built with the cfg.
    #[cfg_attr(ceasefire_sabotage, inline(never))]
    #[cfg_attr(not(ceasefire_sabotage), inline)]
    pub(crate) fn guarded(&self, guard: Guard) -> bool {
        self.removed.stands(guard as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guard_is_listed_and_has_a_bit_of_its_own() {
        let listed = include_str!("sabotage.rs")
            .lines()
            .filter(|line| line.starts_with("    ") && line.contains(" = "));
        let named = listed.filter(|line| line.trim_end().ends_with(',')).count();
        let bits = Guard::ALL.iter().fold(0, |bits, &guard| bits | guard as u64);
        assert_eq!((named, bits), (Guard::ALL.len(), (1 << Guard::ALL.len()) - 1));
    }
}
