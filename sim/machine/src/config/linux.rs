//! The releases of Linux, as far as the memory manager's locks and batches differ between them.

use std::fmt;

use ceasefire_memory::{AreaLocks, Config, LruDrain};
use serde::{Serialize, Serializer};

use super::{Contention, Waiting};

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
    /// The lock of an area is a count of those that use it, not a semaphore.
    CountsUsers,
    /// What a thread does that must wait for a lock that sleeps.
    Waits(Waiting),
    /// DONTNEED frees the tables that it empties.
    FreesTables,
}

/// Each change with the first release here that has it, the version that brought it, and the commit.
const CHANGES: [(Does, Linux, &str, &str); 12] = [
    (Does::ListsTogether(14), Linux::V4_2, "4.2", "include/linux/pagevec.h of 4.2"),
    (Does::Drains(LruDrain::Eager), Linux::V4_2, "4.2", "mm/mmap.c and mm/madvise.c of 4.2"),
    (Does::LocksAreas(AreaLocks::None), Linux::V4_2, "4.2", "mmap_sem"),
    (Does::Waits(Waiting::Spins), Linux::V4_2, "3.16", "4fc828e24cd9"),
    (Does::Waits(Waiting::SpinsOnReaders), Linux::V6_3, "5.3", "7d43f1ce9dd0"),
    (Does::ListsTogether(15), Linux::V6_3, "6.3", "include/linux/pagevec.h of 6.3"),
    (Does::LocksAreas(AreaLocks::Faults), Linux::V6_9, "6.4", "0bff0aaea03e"),
    (Does::ListsTogether(31), Linux::V6_9, "6.9", "9cecde80aae0"),
    (Does::Drains(LruDrain::Batched), Linux::V6_18, "6.14", "1aa43598c03b"),
    (Does::FreesTables, Linux::V6_18, "6.14", "6375e95f381e"),
    (Does::CountsUsers, Linux::V6_18, "6.15", "vm_refcnt in include/linux/mmap_lock.h"),
    (Does::LocksAreas(AreaLocks::Advice), Linux::V6_18, "6.17", "a6fde7add78d"),
];

impl Linux {
    /// The newest release.
    pub const NEWEST: Self = KERNELS[KERNELS.len() - 1].1;

    /// Its name on the command line, in files and in JSON.
    pub fn name(self) -> &'static str {
        KERNELS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// The newest release that is not newer than the one that Linux calls so, such as `6.18.44-1-amd64`. `None`: all are
    /// newer, or it is no number of a release.
    pub fn of_release(release: &str) -> Option<Self> {
        let running = version(release)?;
        let known = KERNELS.iter().rev().find(|(name, _)| version(name) <= Some(running));
        known.map(|(_, linux)| *linux)
    }

    /// Whether something here changed between the two releases.
    pub fn differs(self, other: Self) -> bool {
        CHANGES.iter().any(|(_, since, ..)| (*since <= self) != (*since <= other))
    }

    /// Sets up a memory manager as this release does.
    pub fn configure(self, config: &mut Config) {
        config.joins_areas = true;
        for (does, ..) in CHANGES.iter().filter(|(_, since, ..)| *since <= self) {
            match *does {
                Does::ListsTogether(pages) => config.lru_batch = pages,
                Does::Drains(drain) => config.lru_drain = drain,
                Does::LocksAreas(locks) => config.area_locks = locks,
                Does::Waits(_) | Does::CountsUsers => {}
                Does::FreesTables => config.frees_tables = true,
            }
        }
    }

    /// Sets up a machine's locks as this release does.
    pub fn contend(self, contention: &mut Contention) {
        let counts = |does| matches!(does, Does::CountsUsers).then_some(true);
        // An area's lock is tried: its line is read, and exchanged if it is still as it was. Others are raised, and note an
        // owner, as a tried semaphore does too.
        let notes_owner = !self.newest(counts) && contention.shared > 1;
        contention.shared_of_area = contention.shared + u32::from(notes_owner);
        contention.waiting = self.newest(|does| match does {
            Does::Waits(waiting) => Some(waiting),
            _ => None,
        });
    }

    /// When it lists new pages before an unmap.
    pub fn drain(self) -> LruDrain {
        self.newest(|does| match does {
            Does::Drains(drain) => Some(drain),
            _ => None,
        })
    }

    /// The last change of a kind up to this release.
    fn newest<T: Default>(self, kind: impl Fn(Does) -> Option<T>) -> T {
        let mut newest = CHANGES.iter().rev().filter(|(_, since, ..)| *since <= self);
        newest.find_map(|(does, ..)| kind(*does)).unwrap_or_default()
    }

    /// What this release changed since the one before in the list, each with the version and the commit.
    pub fn changes(self) -> impl Iterator<Item = (String, &'static str, &'static str)> {
        let own = CHANGES.iter().filter(move |(_, since, ..)| *since == self);
        own.map(|(does, _, version, commit)| (does.to_string(), *version, *commit))
    }
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let (major, rest) = release.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Serialize for Linux {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
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
            Self::CountsUsers => f.write_str("the lock of an area is a count of its users"),
            Self::Waits(Waiting::Sleeps) => f.write_str("a thread sleeps for a lock"),
            Self::Waits(Waiting::Spins) => f.write_str("a thread spins for a lock before it sleeps"),
            Self::Waits(Waiting::SpinsOnReaders) => {
                f.write_str("a thread spins for a short time while others share the lock")
            }
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
        let of = |linux: Linux| {
            let mut config = Config::new(vec![NodeLayout::new(512)], 1, Schedule::Batched);
            linux.configure(&mut config);
            (config.lru_batch, config.lru_drain, config.area_locks, config.frees_tables, config.joins_areas)
        };
        let all = KERNELS.map(|(_, linux)| of(linux));
        assert_eq!(all[0], (14, LruDrain::Eager, AreaLocks::None, false, true));
        assert_eq!(all[1], (15, LruDrain::Eager, AreaLocks::None, false, true));
        assert_eq!(all[4], (31, LruDrain::Eager, AreaLocks::Faults, false, true));
        assert_eq!(all[5], (31, LruDrain::Batched, AreaLocks::Advice, true, true));
        assert_eq!((all[2], all[3], all[6]), (all[4], all[4], all[5]));
        assert_eq!(KERNELS.map(|(name, linux)| linux.name() == name), [true; 7]);
    }

    #[test]
    fn releases_differ_by_what_changed_between_them() {
        let differs = KERNELS.map(|(_, linux)| linux.differs(Linux::V6_12));
        assert_eq!(differs, [true, true, false, false, false, true, true]);
        assert!(!Linux::V7_2.differs(Linux::V6_18) && Linux::V6_18.differs(Linux::V6_13));
    }

    #[test]
    fn threads_contend_as_in_each_release() {
        let contended = KERNELS.map(|(_, linux)| {
            let mut contention = Contention { shared: 2, shared_of_area: 2, ..Contention::default() };
            linux.contend(&mut contention);
            (contention.waiting, contention.shared, contention.shared_of_area)
        });
        let mut alone = Contention::default();
        Linux::V4_2.contend(&mut alone);
        assert_eq!((alone.shared, alone.shared_of_area), (1, 1), "the effect was left out");
        assert_eq!(contended[0], (Waiting::Spins, 2, 3));
        assert_eq!(contended[1..5], [(Waiting::SpinsOnReaders, 2, 3); 4]);
        assert_eq!(contended[5..], [(Waiting::SpinsOnReaders, 2, 2); 2]);
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
