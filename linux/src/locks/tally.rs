//! Adds waits up.

use std::cmp::Reverse;

use foldhash::HashMap;

use crate::events::{LockKind, Name};
use crate::locks::tracker::Wait;
use crate::recording::Facts;
use crate::shootdowns::{Cause, Process};
use crate::spread::{of_ratio, Spread};

/// The locks of a row that are told apart. Each page table has one.
pub const MOST_LOCKS: usize = 1 << 12;

/// The parts into which the time of a recording is divided.
const PARTS: usize = 20;

/// Sums over some waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitSum {
    /// The waits.
    pub waits: u64,
    /// Their time, in nanoseconds.
    pub ns: u64,
    /// The longest, in nanoseconds.
    pub longest_ns: u64,
    /// The part of the time during which interrupts for flushes of the same process were under way.
    pub flush_ns: u64,
}

impl WaitSum {
    fn add(&mut self, wait: &Wait) {
        self.waits += 1;
        self.ns = self.ns.saturating_add(wait.ns());
        self.longest_ns = self.longest_ns.max(wait.ns());
        self.flush_ns = self.flush_ns.saturating_add(wait.flush_ns);
    }
}

/// The waits of a process for one kind of lock in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// The kind of lock.
    pub kind: LockKind,
    /// What its threads did in the kernel.
    pub cause: Cause,
    /// The process.
    pub process: Process,
    /// The waits.
    pub sum: WaitSum,
    /// The number of locks, up to [`MOST_LOCKS`].
    pub locks: usize,
    /// The address of the one with the longest time in all.
    pub lock: u64,
}

/// The waits of a process beside its flushes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The waits.
    pub sum: WaitSum,
    /// Where the part of the time that passed during flushes lies with nine chances of ten; none if there is too little
    /// to tell.
    pub spread: Option<Spread>,
}

/// Sums over the waits of a recording.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    facts: Facts,
    rows: HashMap<(LockKind, Cause, u32), RowSum>,
    processes: HashMap<u32, ProcessSum>,
    /// The name of one thread of each process.
    pub names: HashMap<u32, Name>,
}

#[derive(Debug, Clone, Default)]
struct RowSum {
    sum: WaitSum,
    /// The time waited for each lock.
    locks: HashMap<u64, u64>,
}

#[derive(Debug, Clone)]
struct ProcessSum {
    sum: WaitSum,
    /// The time waited in each part of the recording, and how much of it passed during flushes.
    ns: [u64; PARTS],
    flush_ns: [u64; PARTS],
}

impl Locks {
    /// No waits yet, of a recording.
    pub fn new(facts: Facts) -> Self {
        Self { facts, ..Self::default() }
    }

    /// Adds a wait.
    pub fn add(&mut self, wait: &Wait) {
        let row = self.rows.entry((wait.kind, wait.cause, wait.process)).or_default();
        row.sum.add(wait);
        if row.locks.len() < MOST_LOCKS || row.locks.contains_key(&wait.lock) {
            let ns = row.locks.entry(wait.lock).or_default();
            *ns = ns.saturating_add(wait.ns());
        }
        self.names.insert(wait.process, wait.program);
        let none = || ProcessSum { sum: WaitSum::default(), ns: [0; PARTS], flush_ns: [0; PARTS] };
        let process = self.processes.entry(wait.process).or_insert_with(none);
        process.sum.add(wait);
        let part = self.facts.part(wait.began_ns, PARTS);
        process.ns[part] = process.ns[part].saturating_add(wait.ns());
        process.flush_ns[part] = process.flush_ns[part].saturating_add(wait.flush_ns);
    }

    /// The waits by kind of lock, cause and process, those with the longest time first.
    pub fn rows(&self) -> Vec<Waited> {
        let row = |(&(kind, cause, id), row): (&(LockKind, Cause, u32), &RowSum)| {
            let program = *self.names.get(&id)?;
            let (lock, _) = row.locks.iter().max_by_key(|(lock, ns)| (**ns, Reverse(**lock)))?;
            let process = Process { id, program };
            Some(Waited { kind, cause, process, sum: row.sum, locks: row.locks.len(), lock: *lock })
        };
        let mut rows: Vec<Waited> = self.rows.iter().filter_map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.sum.ns), row.kind, row.cause, row.process.id));
        rows
    }

    /// The process whose threads waited longest during its flushes; none if no thread did.
    pub fn beside_flushes(&self) -> Option<(u32, Share)> {
        let flushing = self.processes.iter().filter(|(_, sum)| sum.sum.flush_ns > 0);
        let (process, found) =
            flushing.max_by_key(|(process, sum)| (sum.sum.flush_ns, Reverse(**process)))?;
        Some((*process, Share { sum: found.sum, spread: of_ratio(&found.flush_ns, &found.ns) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Names;

    fn wait(thread: u32, lock: u64, began_ns: u64, ns: u64, flush_ns: u64) -> Wait {
        Wait {
            thread,
            process: thread / 10 * 10,
            program: Names::default().add("program"),
            lock,
            kind: LockKind::SleepWrite,
            cause: Cause::Munmap,
            began_ns,
            ended_ns: began_ns + ns,
            flush_ns,
        }
    }

    #[test]
    fn rows_have_every_wait_once_and_the_longest_first() {
        let mut locks = Locks::default();
        for wait in [wait(11, 1, 0, 5, 0), wait(12, 2, 0, 7, 3), wait(10, 1, 3, 4, 1), wait(20, 1, 0, 30, 0)]
        {
            locks.add(&wait);
        }
        locks.add(&Wait { cause: Cause::Fault, ..wait(11, 9, 4, 1, 0) });
        let rows = locks.rows();
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.process.id,
                    row.cause,
                    row.sum.waits,
                    row.sum.ns,
                    row.sum.longest_ns,
                    row.locks,
                    row.lock,
                )
            })
            .collect();
        let munmap = Cause::Munmap;
        assert_eq!(
            told,
            [(20, munmap, 1, 30, 30, 1, 1), (10, munmap, 3, 16, 7, 2, 1), (10, Cause::Fault, 1, 1, 1, 1, 9)]
        );
    }

    #[test]
    fn the_locks_of_a_row_are_bounded() {
        let mut locks = Locks::default();
        for lock in 0..2 * MOST_LOCKS as u64 {
            locks.add(&wait(10, lock, 0, 1, 0));
        }
        let row = locks.rows()[0];
        assert_eq!((row.locks, row.sum.waits), (MOST_LOCKS, 2 * MOST_LOCKS as u64));
    }

    #[test]
    fn the_part_of_the_time_beside_flushes_has_a_range() {
        let mut locks = Locks::new(Facts { ended_ns: 2000, ..Facts::default() });
        assert_eq!(locks.beside_flushes(), None);
        for at in 0..20 {
            locks.add(&wait(20, 1, at * 100, 50, 0));
            locks.add(&wait(10, 1, at * 100, 10, 2 + at % 3));
        }
        let (process, share) = locks.beside_flushes().expect("flushes");
        let spread = share.spread.expect("a range");
        let middle = share.sum.flush_ns as f64 / share.sum.ns as f64;
        assert_eq!((process, share.sum.ns), (10, 200));
        assert!(
            0.2 < spread.low && spread.low < middle && middle < spread.high && spread.high < 0.4,
            "{spread:?}"
        );
    }
}
