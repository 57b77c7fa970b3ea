//! Adds waits up.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::HashMap;

use crate::events::{LockKind, Name};
use crate::locks::place::{Place, Sides};
use crate::locks::tracker::Wait;
use crate::recording::{Count, Facts};
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
    pub(crate) fn add(&mut self, wait: &Wait) {
        *self = self.plus(Self { waits: 1, ns: wait.ns(), longest_ns: wait.ns(), flush_ns: wait.flush_ns });
    }

    fn plus(self, other: Self) -> Self {
        Self {
            waits: self.waits + other.waits,
            ns: self.ns.saturating_add(other.ns),
            longest_ns: self.longest_ns.max(other.longest_ns),
            flush_ns: self.flush_ns.saturating_add(other.flush_ns),
        }
    }
}

/// The waits of a process for one kind of lock in one call; or of several processes, if none of them waited during its
/// flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// The kind of lock.
    pub kind: LockKind,
    /// What its threads did in the kernel.
    pub cause: Cause,
    /// The process, or the one with the longest time in all.
    pub process: Process,
    /// The number of processes.
    pub processes: usize,
    /// The waits.
    pub sum: WaitSum,
    /// The number of locks, up to [`MOST_LOCKS`] of a process.
    pub locks: usize,
    /// The address of the one with the longest time in all.
    pub lock: u64,
    /// Where that one is.
    pub place: Place,
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
    /// The facts of the recording.
    pub(crate) facts: Facts,
    rows: HashMap<(LockKind, Cause, u32), RowSum>,
    processes: HashMap<u32, ProcessSum>,
    /// The name of one thread of each process.
    pub names: HashMap<u32, Name>,
    /// The waits that are [idle](Wait::is_idle). They are in no row.
    pub idle: WaitSum,
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
        if wait.is_idle() {
            self.idle.add(wait);
            return;
        }
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

    /// The waits by kind of lock, cause and process. Those with the longest time during flushes of the process come first:
    /// fewer flushes shorten no others. Of the rest, those with the longest time do, and processes none of whose waits
    /// passed during flushes share rows, if the kernel tells that.
    pub fn rows(&self) -> Vec<Waited> {
        let shares = |id: u32| {
            let flush_ns = self.processes.get(&id).map_or(0, |process| process.sum.flush_ns);
            self.facts.counted == Count::Sent && flush_ns == 0
        };
        let mut rows: BTreeMap<_, Vec<(u32, &RowSum)>> = BTreeMap::new();
        for ((kind, cause, id), row) in &self.rows {
            let of_one = (!shares(*id)).then_some(*id);
            rows.entry((*kind, *cause, of_one)).or_default().push((*id, row));
        }
        let sides = self.sides();
        let row = |((kind, cause, _), of): ((LockKind, Cause, _), Vec<(u32, &RowSum)>)| {
            let (id, _) = of.iter().max_by_key(|(id, row)| (row.sum.ns, Reverse(*id)))?;
            let process = Process { id: *id, program: *self.names.get(id)? };
            let sum = of.iter().fold(WaitSum::default(), |sum, (_, row)| sum.plus(row.sum));
            let mut locks: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
            for (id, row) in &of {
                for (lock, ns) in &row.locks {
                    let (all_ns, _) = locks.entry(*lock).or_insert((0, *id));
                    *all_ns = all_ns.saturating_add(*ns);
                }
            }
            let (lock, (_, id)) = locks.iter().max_by_key(|(lock, (ns, _))| (*ns, Reverse(**lock)))?;
            let sides = sides.get(&(*id, *lock)).copied().unwrap_or_default();
            let place = Place::of(*lock, sides, &self.facts.architecture);
            let (processes, locks) = (of.len(), locks.len());
            Some(Waited { kind, cause, process, processes, sum, locks, lock: *lock, place })
        };
        let mut rows: Vec<Waited> = rows.into_iter().filter_map(row).collect();
        rows.sort_by_key(|row| {
            let WaitSum { flush_ns, ns, .. } = row.sum;
            (Reverse((flush_ns, ns)), row.kind, row.cause, row.process.id)
        });
        rows
    }

    /// How the threads of each process waited for each lock.
    fn sides(&self) -> HashMap<(u32, u64), Sides> {
        let mut sides: HashMap<(u32, u64), Sides> = HashMap::default();
        for ((kind, cause, id), row) in &self.rows {
            for lock in row.locks.keys() {
                sides.entry((*id, *lock)).or_default().learn(*kind, *cause);
            }
        }
        sides
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

    /// The process, the cause, the number of processes, of waits and of locks, the time, the longest and the lock of each.
    type Told = (u32, Cause, usize, u64, usize, u64, u64, u64);

    fn told(locks: &Locks) -> Vec<Told> {
        let told = |row: &Waited| {
            let WaitSum { waits, ns, longest_ns, .. } = row.sum;
            (row.process.id, row.cause, row.processes, waits, row.locks, ns, longest_ns, row.lock)
        };
        locks.rows().iter().map(told).collect()
    }

    #[test]
    fn rows_have_every_wait_once_and_those_beside_flushes_first() {
        let mut locks = Locks::default();
        for wait in [wait(11, 1, 0, 5, 0), wait(12, 2, 0, 7, 3), wait(10, 1, 3, 4, 1), wait(20, 1, 0, 30, 0)]
        {
            locks.add(&wait);
        }
        locks.add(&Wait { cause: Cause::Fault, ..wait(11, 9, 4, 1, 0) });
        let munmap = Cause::Munmap;
        assert_eq!(
            told(&locks),
            [
                (10, munmap, 1, 3, 2, 16, 7, 1),
                (20, munmap, 1, 1, 1, 30, 30, 1),
                (10, Cause::Fault, 1, 1, 1, 1, 1, 9)
            ]
        );
    }

    #[test]
    fn processes_that_wait_beside_no_flush_share_rows_if_that_is_told() {
        let rows = |counted| {
            let mut locks = Locks::new(Facts { counted, ..Facts::default() });
            for wait in
                [wait(11, 1, 0, 5, 1), wait(20, 1, 0, 3, 0), wait(30, 2, 0, 7, 0), wait(31, 1, 0, 6, 0)]
            {
                locks.add(&wait);
            }
            told(&locks)
        };
        let munmap = Cause::Munmap;
        let of_10 = (10, munmap, 1, 1, 1, 5, 5, 1);
        assert_eq!(rows(Count::Sent), [of_10, (30, munmap, 2, 3, 2, 16, 7, 1)]);
        let [of_20, of_30] = [(20, munmap, 1, 1, 1, 3, 3, 1), (30, munmap, 1, 2, 2, 13, 7, 2)];
        assert_eq!(rows(Count::Flushed), [of_10, of_30, of_20]);
    }

    #[test]
    fn a_thread_of_the_kernel_that_sleeps_on_a_semaphore_is_idle() {
        let mut locks = Locks::default();
        let semaphore = |thread| Wait { kind: LockKind::Semaphore, ..wait(thread, 1, 0, 5, 0) };
        locks.add(&semaphore(2));
        locks.add(&wait(2, 1, 0, 7, 0));
        locks.add(&semaphore(11));
        let kinds: Vec<_> = locks.rows().iter().map(|row| (row.process.id, row.kind)).collect();
        assert_eq!(kinds, [(0, LockKind::SleepWrite), (10, LockKind::Semaphore)]);
        assert_eq!(locks.idle, WaitSum { waits: 1, ns: 5, longest_ns: 5, flush_ns: 0 });
    }

    #[test]
    fn a_row_tells_where_its_lock_is() {
        let mut locks = Locks::default();
        locks.add(&wait(11, 1, 0, 5, 0));
        locks.add(&wait(21, 1, 0, 5, 0));
        locks.add(&Wait { kind: LockKind::SleepRead, cause: Cause::Fault, ..wait(12, 1, 0, 9, 9) });
        let places: Vec<_> = locks.rows().iter().map(|row| (row.process.id, row.place)).collect();
        assert_eq!(places, [(10, Place::MmapLock), (10, Place::MmapLock), (20, Place::Object)]);
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
