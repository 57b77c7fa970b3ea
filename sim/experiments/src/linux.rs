//! The releases of Linux, as far as the memory manager's locks and batches differ between them.

use std::fmt;

use ceasefire_memory::{AreaLocks, Config, LruDrain};

/// A release of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// DONTNEED frees the tables that it empties.
    FreesTables,
}

/// Each change with the first release here that has it, the version that brought it, and the commit.
const CHANGES: [(Does, Linux, &str, &str); 9] = [
    (Does::ListsTogether(14), Linux::V4_2, "4.2", "include/linux/pagevec.h of 4.2"),
    (Does::Drains(LruDrain::Eager), Linux::V4_2, "4.2", "mm/mmap.c and mm/madvise.c of 4.2"),
    (Does::LocksAreas(AreaLocks::None), Linux::V4_2, "4.2", "mmap_sem"),
    (Does::ListsTogether(15), Linux::V6_3, "6.3", "include/linux/pagevec.h of 6.3"),
    (Does::LocksAreas(AreaLocks::Faults), Linux::V6_9, "6.4", "0bff0aaea03e"),
    (Does::ListsTogether(31), Linux::V6_9, "6.9", "9cecde80aae0"),
    (Does::Drains(LruDrain::Batched), Linux::V6_18, "6.14", "1aa43598c03b"),
    (Does::FreesTables, Linux::V6_18, "6.14", "6375e95f381e"),
    (Does::LocksAreas(AreaLocks::Advice), Linux::V6_18, "6.17", "a6fde7add78d"),
];

/// Sets up a memory manager as a release does. Without one it is as the numbers of the machines were fitted: every
/// operation locks the space, and each mapping has an area and tables of its own.
pub(crate) fn configure(linux: Option<Linux>, config: &mut Config) {
    if let Some(linux) = linux {
        linux.configure(config);
    } else {
        (config.area_locks, config.joins_areas) = (AreaLocks::None, false);
    }
}

impl Linux {
    /// Its name on the command line, in files and in JSON.
    pub fn name(self) -> &'static str {
        KERNELS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Sets up a memory manager as this release does.
    fn configure(self, config: &mut Config) {
        config.joins_areas = true;
        for (does, ..) in CHANGES.iter().filter(|(_, since, ..)| *since <= self) {
            match *does {
                Does::ListsTogether(pages) => config.lru_batch = pages,
                Does::Drains(drain) => config.lru_drain = drain,
                Does::LocksAreas(locks) => config.area_locks = locks,
                Does::FreesTables => config.frees_tables = true,
            }
        }
    }

    /// When it lists new pages before an unmap.
    pub(crate) fn drain(self) -> LruDrain {
        let newest = CHANGES.iter().rev().filter(|(_, since, ..)| *since <= self);
        let mut drains = newest.filter_map(|(does, ..)| match does {
            Does::Drains(drain) => Some(*drain),
            _ => None,
        });
        drains.next().unwrap_or_default()
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
            Self::FreesTables => f.write_str("madvise frees tables that it empties"),
            Self::LocksAreas(AreaLocks::None) => f.write_str("faults lock the space"),
            Self::LocksAreas(AreaLocks::Faults) => f.write_str("faults lock the area"),
            Self::LocksAreas(AreaLocks::Advice) => f.write_str("madvise locks the area"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire::Schedule;
    use ceasefire_memory::NodeLayout;

    use super::*;

    #[test]
    fn each_release_has_the_changes_of_those_before_it() {
        let of = |linux: Option<Linux>| {
            let mut config = Config::new(vec![NodeLayout::new(512)], 1, Schedule::Batched);
            configure(linux, &mut config);
            (config.lru_batch, config.lru_drain, config.area_locks, config.frees_tables, config.joins_areas)
        };
        let all = KERNELS.map(|(_, linux)| of(Some(linux)));
        assert_eq!(all[0], (14, LruDrain::Eager, AreaLocks::None, false, true));
        assert_eq!(all[1], (15, LruDrain::Eager, AreaLocks::None, false, true));
        assert_eq!(all[4], (31, LruDrain::Eager, AreaLocks::Faults, false, true));
        assert_eq!(all[5], (31, LruDrain::Batched, AreaLocks::Advice, true, true));
        assert_eq!((all[2], all[3], all[6]), (all[4], all[4], all[5]));
        assert_eq!(of(None), (15, LruDrain::Batched, AreaLocks::None, false, false));
        assert_eq!(KERNELS.map(|(name, linux)| linux.name() == name), [true; 7]);
    }

    #[test]
    fn the_listing_of_new_pages_is_that_of_the_configuration() {
        for (_, linux) in KERNELS {
            let mut config = Config::new(vec![NodeLayout::new(512)], 1, Schedule::Batched);
            linux.configure(&mut config);
            assert_eq!(linux.drain(), config.lru_drain, "{linux}");
        }
    }
}
