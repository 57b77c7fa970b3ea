//! The releases of Linux, as far as the memory manager's locks and batches differ between them.

use std::fmt;

use ceasefire_memory::{AreaLocks, Config, LruDrain};

/// A release of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Linux {
    /// 4.2, of BATCH-RECLAIM.
    V4_2,
    /// 6.3, of BATCH-MIGRATE.
    V6_3,
    /// 6.9, of LUF.
    V6_9,
    /// 6.12.
    V6_12,
    /// 6.13, of BROADCAST.
    V6_13,
    /// 6.18.
    V6_18,
    /// 7.2, the newest.
    #[default]
    V7_2,
}

/// The releases by their names, the oldest first.
pub const KERNELS: [(&str, Linux); 7] = [
    ("4.2", Linux::V4_2),
    ("6.3", Linux::V6_3),
    ("6.9", Linux::V6_9),
    ("6.12", Linux::V6_12),
    ("6.13", Linux::V6_13),
    ("6.18", Linux::V6_18),
    ("7.2", Linux::V7_2),
];

/// What a release changed.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// The new pages that a CPU collects before it lists them (`PAGEVEC_SIZE`, `include/linux/pagevec.h`).
    ListsTogether(usize),
    /// When it lists them before an unmap.
    Drains(LruDrain),
    /// What locks an area instead of its space.
    LocksAreas(AreaLocks),
}

/// Each change with the first release here that has it, the version that brought it, and the commit.
const CHANGES: [(Does, Linux, &str, &str); 8] = [
    (Does::ListsTogether(14), Linux::V4_2, "2.6", "include/linux/pagevec.h of 4.2"),
    (Does::Drains(LruDrain::Eager), Linux::V4_2, "2.6", "mm/mmap.c and mm/madvise.c of 4.2"),
    (Does::LocksAreas(AreaLocks::None), Linux::V4_2, "2.6", "mmap_sem"),
    (Does::ListsTogether(15), Linux::V6_3, "4.16", "include/linux/pagevec.h of 6.3"),
    (Does::LocksAreas(AreaLocks::Faults), Linux::V6_9, "6.4", "0bff0aaea03e"),
    (Does::ListsTogether(31), Linux::V6_9, "6.9", "9cecde80aae0"),
    (Does::Drains(LruDrain::Batched), Linux::V6_18, "6.14", "1aa43598c03b"),
    (Does::LocksAreas(AreaLocks::Advice), Linux::V6_18, "6.17", "a6fde7add78d"),
];

impl Linux {
    /// Its name on the command line, in files and in JSON.
    pub fn name(self) -> &'static str {
        KERNELS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Sets up a memory manager as this release does.
    pub(crate) fn configure(self, config: &mut Config) {
        for (does, ..) in CHANGES.iter().filter(|(_, since, ..)| *since <= self) {
            match *does {
                Does::ListsTogether(pages) => config.lru_batch = pages,
                Does::Drains(drain) => config.lru_drain = drain,
                Does::LocksAreas(locks) => config.area_locks = locks,
            }
        }
    }

    /// When it lists new pages before an unmap.
    pub(crate) fn drain(self) -> LruDrain {
        let drains = CHANGES.iter().filter(|(_, since, ..)| *since <= self).filter_map(|(does, ..)| match does {
            Does::Drains(drain) => Some(*drain),
            _ => None,
        });
        drains.last().unwrap_or_default()
    }

    /// What this release changed since the one before in the list, each with the version and the commit.
    pub fn changes(self) -> impl Iterator<Item = (String, &'static str, &'static str)> {
        let own = CHANGES.iter().filter(move |(_, since, ..)| *since == self);
        own.map(|(does, _, version, commit)| (does.to_string(), *version, *commit))
    }
}

impl fmt::Display for Linux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux {}", self.name())
    }
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListsTogether(pages) => write!(f, "a CPU lists {pages} new pages together"),
            Self::Drains(LruDrain::Eager) => f.write_str("an unmap first lists new pages"),
            Self::Drains(LruDrain::Batched) => f.write_str("an unmap lists no new pages"),
            Self::LocksAreas(AreaLocks::None) => f.write_str("faults lock the space"),
            Self::LocksAreas(AreaLocks::Faults) => f.write_str("faults lock the area"),
            Self::LocksAreas(AreaLocks::Advice) => f.write_str("madvise locks the area"),
        }
    }
}
