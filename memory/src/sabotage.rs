//! For tests: remove one guard, and show that the rule it upholds is broken.
//!
//! These are the memory manager's own guards. The engine has others, and its
//! [documentation](https://docs.rs/ceasefire) says why only `RUSTFLAGS="--cfg ceasefire_sabotage"` makes guards
//! removable. In a build without the cfg every guard stands: `Memory::guarded` is then the constant `true`, and nothing
//! of this module is in the machine code; `cargo xtask test` checks that.

use crate::machine::Machine;
use crate::Memory;

/// A guard of the memory manager that a test can remove.
// Without the cfg the module is private.
#[cfg_attr(not(ceasefire_sabotage), allow(dead_code, unreachable_pub))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The check of the debt in a page's slot, before the page is found, brought in or changed: without it R6 breaks.
    Slot = 1,
    /// Fault-around passes over neighbours whose slots owe: without it R6 breaks.
    Around = 2,
    /// The flush of a mapping of a file before the file forgets the mapping: without it the promise of a truncation
    /// breaks, and R6.
    Unhook = 4,
    /// The flush of a table with pages of files that were stored to, before the table is unlocked: without it R5 breaks.
    DirtyTable = 8,
    /// A page with other holders is not written out by reclaim, because one of them may have cleared a translation that
    /// is not flushed yet: without it R5 breaks.
    Holders = 16,
    /// A page that its program gave up is listed only after its flush: without it R5 breaks.
    Listing = 32,
    /// Reclaim keeps a page that was stored to after its program gave it up: without it stores are lost.
    Restore = 64,
    /// A store fault waits for a page that is locked: without it R5 breaks.
    Stable = 128,
}

impl Guard {
    /// All guards.
    #[cfg_attr(not(ceasefire_sabotage), allow(dead_code, unreachable_pub))]
    pub const ALL: [Self; 8] = [
        Self::Slot,
        Self::Around,
        Self::Unhook,
        Self::DirtyTable,
        Self::Holders,
        Self::Listing,
        Self::Restore,
        Self::Stable,
    ];
}

impl<P: Machine> Memory<P> {
    /// Removes `guard` for the rest of this memory manager's life.
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
        let listed = include_str!("sabotage.rs").lines().filter(|line| line.starts_with("    "));
        let named = listed.filter(|line| line.contains(" = ") && line.ends_with(',')).count();
        let bits = Guard::ALL.iter().fold(0, |bits, &guard| bits | guard as u64);
        assert_eq!((named, bits), (Guard::ALL.len(), (1 << Guard::ALL.len()) - 1));
    }
}
