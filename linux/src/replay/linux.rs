//! What Linux does since which version, as far as a replay depends on it. All of it is of x86.

use ceasefire::Schedule;
use foldhash::HashMap;

use crate::events::{Kind, SystemCall, PAGE_SHIFT, TABLE_SHIFT};
use crate::recording::Row;
use crate::replay::calls::Calls;
use crate::replay::mechanism::Mechanism;
use crate::shootdowns::{Call, Doing};

/// Something that not every version does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Reclaim unmaps pages in batches and flushes once.
    BatchReclaim,
    /// Migration does.
    BatchMigration,
    /// A CPU that goes on to another process stays in the mask of the one before.
    KeepMasks,
    /// madvise(DONTNEED) of all pages of a page table frees it (`CONFIG_PT_RECLAIM`, which x86-64 has by default).
    FreeEmptyTables,
    /// `flush_tlb_range` flushes as if page tables were freed. Of the flushes here, mremap uses it.
    FlushRangesWithTables,
}

/// Since which version, and the commit.
const SINCE: [(Does, Version, &str); 5] = [
    (Does::BatchReclaim, (4, 8, 0), "72b252aed506"),
    (Does::BatchMigration, (6, 3, 0), "7e12beb8ca2a"),
    (Does::KeepMasks, (6, 13, 0), "209954cbc7d0"),
    (Does::FreeEmptyTables, (6, 14, 0), "6375e95f381e"),
    (Does::FlushRangesWithTables, (6, 15, 0), "3ef938c3503f"),
];

/// The stable versions to which a commit went back.
const STABLE: [(Does, Version); 8] = [
    (Does::FlushRangesWithTables, (5, 4, 292)),
    (Does::FlushRangesWithTables, (5, 10, 236)),
    (Does::FlushRangesWithTables, (5, 15, 180)),
    (Does::FlushRangesWithTables, (6, 1, 134)),
    (Does::FlushRangesWithTables, (6, 6, 87)),
    (Does::FlushRangesWithTables, (6, 12, 23)),
    (Does::FlushRangesWithTables, (6, 13, 11)),
    (Does::FlushRangesWithTables, (6, 14, 2)),
];

type Version = (u32, u32, u32);

/// The largest number of pages that Linux flushes one by one (`tlb_single_page_flush_ceiling`, arch/x86/mm/tlb.c).
const CEILING: u64 = 33;

/// A version of Linux.
#[derive(Debug, Clone, Copy)]
pub(super) struct Linux(Version);

impl Linux {
    /// That of a release such as `6.12.43+deb13`. One that cannot be read is taken for the newest.
    pub(super) fn of_release(release: &str) -> Self {
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
        let mut next = |default| numbers.next().unwrap_or(default);
        Self((next(u32::MAX), next(0), next(0)))
    }

    fn does(self, what: Does) -> bool {
        let Self(version @ (major, minor, patch)) = self;
        SINCE.iter().any(|(does, since, _)| *does == what && version >= *since)
            || STABLE.iter().any(|(does, since)| {
                *does == what && (major, minor) == (since.0, since.1) && patch >= since.2
            })
    }

    /// How it flushes.
    pub(super) fn mechanism(self) -> Mechanism {
        let batches = |what| if self.does(what) { Schedule::Batched } else { Schedule::PerPage };
        Mechanism {
            reclaim: batches(Does::BatchReclaim),
            migration: batches(Does::BatchMigration),
            broadcasts: false,
            keeps_masks: self.does(Does::KeepMasks),
            calls: Calls::Recorded,
        }
    }

    /// Whether it flushes as if page tables were freed, in a thread that does this and flushes so many pages or all; none
    /// if the call alone does not tell. `beside` says whether another thread of the process gives memory back at the same
    /// time: both of them then flush as if tables were freed (`tlb_finish_mmu`, `mm/mmu_gather.c`).
    pub(super) fn frees_tables(self, doing: &Doing, pages: Option<u64>, beside: bool) -> Option<bool> {
        let call = doing.call().filter(|_| !doing.has_ended());
        let Some(call) = call else { return Some(doing.has_ended()) };
        let is_all = pages.is_none();
        Some(match call.name {
            SystemCall::Exit | SystemCall::ExitGroup => true,
            SystemCall::Mremap if self.does(Does::FlushRangesWithTables) => true,
            SystemCall::Munmap | SystemCall::Mmap | SystemCall::Mremap | SystemCall::Madvise
                if is_all && (few(call) || beside) =>
            {
                true
            }
            // A table goes if nothing else is mapped beside the pages. How much brk gives back is not known at all.
            SystemCall::Munmap | SystemCall::Mmap | SystemCall::Mremap if is_all && tables(call) == 0 => {
                return None;
            }
            SystemCall::Brk if is_all => return None,
            // Whole tables are unmapped, or the space that is copied, or left, is flushed (`flush_tlb_mm`, `exit_mmap`).
            SystemCall::Munmap
            | SystemCall::Mmap
            | SystemCall::Mremap
            | SystemCall::Fork
            | SystemCall::Vfork
            | SystemCall::Clone
            | SystemCall::Clone3
            | SystemCall::Execve
            | SystemCall::Execveat => is_all,
            SystemCall::Madvise => {
                is_all && self.does(Does::FreeEmptyTables) && call.purges() && tables(call) > 0
            }
            SystemCall::Mprotect | SystemCall::PkeyMprotect => is_all && (few(call) || beside),
            _ => false,
        })
    }
}

/// The threads that give memory back, by process. Threads that do so at the same time share the lock of the space.
#[derive(Debug, Default)]
pub(super) struct Givers(HashMap<u32, Vec<u32>>);

impl Givers {
    /// Learns from an event.
    pub(super) fn learn(&mut self, row: &Row) {
        match row.event.kind {
            Kind::CallBegan { call: SystemCall::Madvise | SystemCall::Munmap, .. } if row.process != 0 => {
                self.0.entry(row.process).or_default().push(row.event.thread);
            }
            Kind::CallEnded { call: SystemCall::Madvise | SystemCall::Munmap, .. } | Kind::ThreadEnded => {
                if let Some(threads) = self.0.get_mut(&row.process) {
                    threads.retain(|thread| *thread != row.event.thread);
                    if threads.is_empty() {
                        self.0.remove(&row.process);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether another thread of the process of a row does.
    pub(super) fn beside(&self, row: &Row) -> bool {
        self.0.get(&row.process).is_some_and(|threads| threads.iter().any(|of| *of != row.event.thread))
    }
}

/// Whether a call is about so few pages that they are flushed one by one. If all is flushed nevertheless, a table of many
/// was freed (`pte_free_tlb`, include/asm-generic/tlb.h), or other threads changed mappings at the same time: Linux then
/// flushes as if tables were freed (`tlb_finish_mmu`, `mm/mmu_gather.c`).
fn few(call: Call) -> bool {
    call.bytes >> PAGE_SHIFT <= CEILING
}

/// The page tables of which a call is about all pages.
fn tables(call: Call) -> u64 {
    let end = call.address.saturating_add(call.bytes) >> TABLE_SHIFT;
    let first = call.address.div_ceil(1 << TABLE_SHIFT);
    end.saturating_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_has_batches_from_its_versions_on() {
        let schedules = |release| {
            let mechanism = Mechanism::of_linux(release);
            (mechanism.reclaim, mechanism.migration)
        };
        assert_eq!(schedules("6.1.0-44-cloud-amd64"), (Schedule::Batched, Schedule::PerPage));
        assert_eq!(schedules("6.12.43+deb13"), (Schedule::Batched, Schedule::Batched));
        assert_eq!(schedules("7.2.1"), (Schedule::Batched, Schedule::Batched));
        assert_eq!(schedules("4.4.0"), (Schedule::PerPage, Schedule::PerPage));
    }

    #[test]
    fn which_flushes_are_as_if_tables_were_freed_depends_on_the_call_and_the_version() {
        const TABLE: u64 = 1 << TABLE_SHIFT;
        let tables = |release, call, (address, bytes), flags, pages| {
            let mut doing = Doing::default();
            doing.learn(&Kind::CallBegan { call, address, bytes, flags });
            Linux::of_release(release).frees_tables(&doing, pages, false)
        };
        let [yes, no] = [true, false].map(Some);
        let (of_table, beside) = ((TABLE, TABLE), (TABLE + 4096, TABLE));
        let madvise = |release, range| tables(release, SystemCall::Madvise, range, 4, None);
        let told = [("6.14.0", of_table), ("6.14.0", beside), ("6.13.9", of_table), ("6.1.0", (4096, 8192))];
        // Few pages, and all is flushed.
        assert_eq!(told.map(|(release, range)| madvise(release, range)), [yes, no, no, yes]);
        assert_eq!(tables("6.18.0", SystemCall::Madvise, of_table, 8, None), no, "MADV_FREE");
        assert_eq!(
            tables("6.18.0", SystemCall::Madvise, of_table, 4, Some(512)),
            no,
            "a huge page has no table"
        );
        let unmaps = |range, pages| tables("6.1.0", SystemCall::Munmap, range, 0, pages);
        let told = [(of_table, None), (of_table, Some(512)), ((0, 40 << 12), None)];
        assert_eq!(told.map(|(range, pages)| unmaps(range, pages)), [yes, no, None]);
        assert_eq!(tables("6.1.0", SystemCall::Brk, of_table, 0, None), None);
        let moves = |release| tables(release, SystemCall::Mremap, (0, 4096), 0, Some(1));
        let releases = ["6.12.22", "6.12.23", "6.13.10", "6.14.2", "7.2.1"];
        assert_eq!(releases.map(moves), [no, yes, no, yes, yes]);
        assert_eq!(tables("6.1.0", SystemCall::Clone, (0, 0), 0, None), yes);
    }
}
