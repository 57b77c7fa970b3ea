//! The promises of a processor beyond the minimum.

use core::fmt;

use crate::limits::MAX_ASIDS;
use crate::space::DYNAMIC_ASIDS;

/// The promises of a processor beyond the minimum.
///
/// The default promises nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// A store through a cached *clean* entry walks the page tables again and faults if the translation is gone. x86
    /// promises it (Linux commit 72b252aed506 relies on it). Without it nothing is deferred.
    pub clean_stores_walk: bool,
    /// Entries carry ASIDs, so they survive a switch. Without them every switch flushes.
    pub asids: bool,
    /// The hardware carries invalidations to every CPU and offers a wait for them. `None` if interrupts carry them.
    ///
    /// It must not change while the machine runs: spaces made with it and without it do not mix.
    pub broadcast: Option<Broadcast>,
    /// The code of the kernel that walks page tables without a lock.
    pub walkers: Walkers,
}

/// The code of the kernel that walks page tables of programs without the page-table lock, such as GUP-fast. A flush
/// proves that the processors' walkers have left a table that was unlinked. It proves nothing about such code.
///
/// The code must turn interrupts off before it reads the root, and must not turn them on until it is done with what it
/// found. The engine then waits for it before a flush with [`Flush::tables`](crate::Flush::tables) returns, so before a
/// gather releases a page-table page. It never waits longer than the walk takes, but needs an interrupt that a flush by
/// broadcast would have saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Walkers {
    /// There is none: each walk holds the page-table lock, or a lock that excludes the freeing of tables.
    Locked,
    /// It walks only the tables of the space that its CPU runs, and none of the kernel's ranges. Interrupts of the
    /// flush itself suffice; after a broadcast the CPUs that run the space are interrupted.
    Own,
    /// It may walk any tables on any CPU. Every online CPU is interrupted.
    #[default]
    Any,
    /// The kernel waits for it by other means, such as a grace period of RCU:
    /// [`Platform::await_walkers`](crate::Platform::await_walkers). It may then walk with interrupts on.
    Awaited,
}

/// Faults of processors that broadcast, and what the engine does about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Errata {
    /// A wait may end before stores through the invalidated entries have landed, or before an entry is gone. A second
    /// broadcast of any kind and a second wait close the gap (Arm: CVE-2025-10263 of many cores of 2026, erratum 1286807
    /// of Cortex-A76). The engine makes both after each wait.
    pub repeated: bool,
    /// A wait may end before another CPU's accesses through the invalidated entries have landed, until that CPU has
    /// waited too (Arm: CVE-2026-0995 of C1-Pro). The engine interrupts every online CPU after each wait, and each
    /// calls [`Platform::broadcast_wait`](crate::Platform::broadcast_wait). Ticks then settle no debts by broadcast.
    pub everyone: bool,
}

impl Errata {
    /// A processor without these faults.
    pub const NONE: Self = Self { repeated: false, everyone: false };
}

/// The spaces that get an ASID that means the same on every CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holders {
    /// Every space, when it is made: Arm, RISC-V. CPUs then have no slots of their own and are never interrupted.
    Every,
    /// Spaces that several CPUs run at once ([`Platform::deserves_asid`](crate::Platform::deserves_asid)): x86. All
    /// others use each CPU's own slots, and interrupts.
    Wide,
}

/// Hardware that carries invalidations to every CPU: Arm's inner-shareable TLBI with DSB, x86's INVLPGB with TLBSYNC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast {
    asids: u32,
    pages: u32,
    holders: Holders,
    errata: Errata,
}

/// Why hardware cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroadcastError {
    /// There are not enough ASIDs even for each CPU's own slots.
    TooFewAsids {
        /// The number of ASIDs there are.
        asids: u32,
        /// The least number that works.
        least: u32,
    },
    /// The engine was built for fewer ASIDs ([`MAX_ASIDS`]) than it needs.
    BuiltForFewer {
        /// The number that it was built for.
        limit: u32,
        /// The least number that works.
        least: u32,
    },
}

impl fmt::Display for BroadcastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewAsids { asids, least } => write!(
                f,
                "{asids} ASIDs are too few for broadcasts: at least {least}, {DYNAMIC_ASIDS} slots of each CPU's own and one more"
            ),
            Self::BuiltForFewer { limit, least } => {
                write!(f, "the engine was built with CEASEFIRE_MAX_ASIDS={limit}: broadcasts need at least {least}")
            }
        }
    }
}

impl Broadcast {
    /// Hardware with `asids` ASIDs that mean the same on every CPU, counted from 0, which invalidates up to `pages`
    /// translations in one operation. More than [`MAX_ASIDS`] ASIDs are not used.
    ///
    /// Arm has 256 or 65536 ASIDs. x86 has 4094, since PCID 0 is reserved, or 2046 where page tables are isolated and
    /// each ASID takes two PCIDs (Linux: `MAX_ASID_AVAILABLE`).
    ///
    /// x86 states the number of pages by CPUID (leaf `8000_0008`, EDX). A `pages` of 0 counts as 1, since an operation
    /// always invalidates one (Linux cb6075bc62dc).
    ///
    /// # Errors
    /// [`BroadcastError`] names the least number of ASIDs, if the hardware has fewer or the engine was built for fewer.
    pub const fn new(asids: u32, pages: u32, holders: Holders) -> Result<Self, BroadcastError> {
        Self::within(MAX_ASIDS, asids, pages, holders)
    }

    /// The same for an engine that was built for `limit` ASIDs.
    const fn within(limit: u32, asids: u32, pages: u32, holders: Holders) -> Result<Self, BroadcastError> {
        let least = match holders {
            // With fewer than two, the only ASID is the shared one.
            Holders::Every => 1,
            Holders::Wide => DYNAMIC_ASIDS as u32 + 1,
        };
        if asids < least {
            return Err(BroadcastError::TooFewAsids { asids, least });
        }
        if limit < least {
            return Err(BroadcastError::BuiltForFewer { limit, least });
        }
        let asids = if asids > limit { limit } else { asids };
        Ok(Self { asids, pages: if pages == 0 { 1 } else { pages }, holders, errata: Errata::NONE })
    }

    /// The same hardware with these faults.
    #[must_use]
    pub const fn with_errata(self, errata: Errata) -> Self {
        Self { errata, ..self }
    }

    /// The faults that the engine must work around.
    pub const fn errata(self) -> Errata {
        self.errata
    }

    /// The number of ASIDs, counted from 0.
    pub const fn asids(self) -> u32 {
        self.asids
    }

    /// The largest number of translations that one operation invalidates; at least 1.
    pub const fn pages(self) -> u32 {
        self.pages
    }

    /// The spaces that get one.
    pub const fn holders(self) -> Holders {
        self.holders
    }

    /// The number of ASIDs given back that makes a flush of everything worthwhile, if none is left. Until then a space
    /// that should have an ASID and has none is flushed at each switch; a space that may have one continues with
    /// interrupts.
    pub(crate) const fn worth_a_flush(self) -> u32 {
        match self.holders {
            Holders::Every => 1,
            Holders::Wide => {
                let part = (self.asids - self.first()) / 32;
                if part == 0 {
                    1
                } else {
                    part
                }
            }
        }
    }

    /// The first ASID that is given out.
    pub(crate) const fn first(self) -> u32 {
        match self.holders {
            // Asid::SHARED belongs to all spaces without one of their own.
            Holders::Every => 1,
            Holders::Wide => DYNAMIC_ASIDS as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// The default limit of the engine.
    const LIMIT: u32 = 1 << 16;

    fn new(asids: u32, pages: u32, holders: Holders) -> Result<Broadcast, BroadcastError> {
        Broadcast::within(LIMIT, asids, pages, holders)
    }

    #[test]
    fn an_engine_that_was_built_for_fewer_names_its_bound() {
        let wide = |limit| Broadcast::within(limit, 4094, 8, Holders::Wide);
        assert_eq!(wide(100).map(Broadcast::asids), Ok(100));
        assert_eq!(wide(6), Err(BroadcastError::BuiltForFewer { limit: 6, least: 7 }));
        assert_eq!(wide(7).map(Broadcast::asids), Ok(7));
        let none = Broadcast::within(0, 256, 8, Holders::Every).expect_err("there are none");
        let message = std::format!("{none}");
        assert_eq!(message, "the engine was built with CEASEFIRE_MAX_ASIDS=0: broadcasts need at least 1");
        let built = Broadcast::new(u32::MAX, 8, Holders::Every).map(Broadcast::asids);
        assert_eq!(built.ok(), (MAX_ASIDS > 0).then_some(MAX_ASIDS));
    }

    #[test]
    fn a_count_of_no_pages_is_one_page() {
        let none = new(4094, 0, Holders::Wide).expect("enough ASIDs");
        assert_eq!((none.pages(), none.asids(), none.first()), (1, 4094, 6));
        let eight = new(256, 8, Holders::Every).expect("enough ASIDs");
        assert_eq!((eight.pages(), eight.first()), (8, 1));
    }

    /// Otherwise a flush would wait for more returned ASIDs than there are.
    #[test]
    fn limits_that_are_not_used_do_not_count() {
        let all = new(u32::MAX, 8, Holders::Wide).expect("enough ASIDs");
        assert_eq!((all.asids(), all.worth_a_flush()), (1 << 16, (65_536 - 6) / 32));
    }

    #[test]
    fn asids_that_are_not_enough_for_the_slots_are_refused_with_the_bound() {
        assert_eq!(new(6, 8, Holders::Wide), Err(BroadcastError::TooFewAsids { asids: 6, least: 7 }));
        assert!(new(7, 8, Holders::Wide).is_ok());
        assert_eq!(new(0, 8, Holders::Every), Err(BroadcastError::TooFewAsids { asids: 0, least: 1 }));
    }
}
