//! Finds the pages that belong to one reclaim or one migration.
//!
//! The kernel flushes before it frees. So the frames that a thread frees after a flush of its reclaim or its migration,
//! and before the next one, are those of that flush. A kernel that flushes page by page frees one frame for each flush;
//! what it does between the beginning and the end of the operation is then one batch for a kernel that has batches.

use ceasefire::Schedule;
use foldhash::HashMap;

use crate::recording::Row;
use crate::replay::frames::User;
use crate::replay::kernel::Taken;
use crate::replay::mechanism::Mechanism;
use crate::shootdowns::Cause;

/// The pages that reclaim unmaps before it flushes, and those that migration does (Linux: `SWAP_CLUSTER_MAX`,
/// `NR_MAX_BATCHED_MIGRATION`).
const RECLAIM: usize = 32;
const MIGRATION: usize = 512;

/// The number of a step that is not known yet, among all steps.
pub(super) type Place = u64;

/// Pages that a thread takes back.
#[derive(Debug)]
pub(super) struct Operation {
    cause: Cause,
    flushes: Vec<Flushed>,
    /// The process of the thread, which is taken for the owner of pages of which none is known; 0 for the kernel.
    pub(super) process: u32,
}

/// A flush of an operation.
#[derive(Debug)]
struct Flushed {
    place: Place,
    cpu: u32,
    time_ns: u64,
    pages: Vec<Taken>,
}

/// The pages that a CPU takes back at a time.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    pub(super) cpu: u32,
    pub(super) time_ns: u64,
    pub(super) cause: Cause,
    /// The process of the thread; 0 for the kernel.
    pub(super) process: u32,
    /// Those that a kernel without batches flushes now, one by one.
    pub(super) pages: Vec<Taken>,
    /// Those that a kernel with batches flushes now: none while a batch grows that was recorded page by page.
    pub(super) batch: Vec<Taken>,
}

/// The operations that are under way, by thread.
#[derive(Debug)]
pub(super) struct Operations {
    recorded: Mechanism,
    open: HashMap<u32, Operation>,
    /// Pages whose owner was taken to be the thread's process.
    pub(super) assumed: u64,
    /// Pages without a known owner.
    pub(super) unknown: u64,
}

/// Whether the kernel flushes on its own account: a mechanism may batch such flushes or do them later.
pub(super) fn is_of_kernel(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Reclaim | Cause::Demotion | Cause::Migration | Cause::NumaBalancing | Cause::Compaction
    )
}

fn is_migration(cause: Cause) -> bool {
    cause != Cause::Reclaim
}

impl Operations {
    /// None yet, of a kernel with a mechanism.
    pub(super) fn new(recorded: Mechanism) -> Self {
        Self { recorded, open: HashMap::default(), assumed: 0, unknown: 0 }
    }

    /// A thread flushes on the kernel's account. Its step comes later. Returns the operation before, if
    /// this one is another.
    pub(super) fn flush(&mut self, row: &Row, cause: Cause, place: Place) -> Option<Operation> {
        let is_same = |open: &Operation| {
            let pages: usize = open.flushes.iter().map(|flush| flush.pages.len()).sum();
            open.cause == cause && pages < if is_migration(cause) { MIGRATION } else { RECLAIM }
        };
        let thread = row.event.thread;
        let schedule = self.recorded.of(is_migration(cause));
        let is_another = |open: &Operation| schedule != Schedule::PerPage || !is_same(open);
        let ended =
            if self.open.get(&thread).is_some_and(is_another) { self.open.remove(&thread) } else { None };
        let new = Operation { cause, flushes: Vec::new(), process: row.process };
        let open = self.open.entry(thread).or_insert(new);
        let (cpu, time_ns) = (row.event.cpu, row.event.time_ns);
        open.flushes.push(Flushed { place, cpu, time_ns, pages: Vec::new() });
        ended
    }

    /// A thread frees a frame that had users. Returns whether the frame belongs to an operation.
    pub(super) fn freed(&mut self, thread: u32, frame: u64, users: Vec<User>) -> bool {
        let open = self.open.get_mut(&thread).and_then(|open| open.flushes.last_mut());
        open.map(|flush| flush.pages.push(Taken { frame, users })).is_some()
    }

    /// A thread's operation has ended.
    pub(super) fn end(&mut self, thread: u32) -> Option<Operation> {
        self.open.remove(&thread)
    }

    /// The recording has ended.
    pub(super) fn end_all(&mut self) -> Vec<Operation> {
        self.open.drain().map(|(_, operation)| operation).collect()
    }

    /// The steps of an operation, with their places.
    pub(super) fn steps(&mut self, mut operation: Operation) -> Vec<(Place, Taking)> {
        self.find_owners(&mut operation);
        let mut all: Vec<Taken> = Vec::new();
        let Operation { cause, process, .. } = operation;
        let last = operation.flushes.len() - 1;
        let step = |(number, flush): (usize, Flushed)| {
            let Flushed { place, cpu, time_ns, pages } = flush;
            all.extend(pages.iter().cloned());
            let batch = if number == last { std::mem::take(&mut all) } else { Vec::new() };
            (place, Taking { cpu, time_ns, cause, process, pages, batch })
        };
        operation.flushes.into_iter().enumerate().map(step).collect()
    }

    /// Gives the pages without a known user to the thread's own process, if it has one.
    fn find_owners(&mut self, operation: &mut Operation) {
        let process = operation.process;
        for flush in &mut operation.flushes {
            if flush.pages.is_empty() {
                // The frames went to lists of the CPU without an event, or to another thread.
                flush.pages.push(Taken { frame: u64::MAX, users: Vec::new() });
            }
            for taken in flush.pages.iter_mut().filter(|taken| taken.users.is_empty()) {
                if process == 0 {
                    self.unknown += 1;
                } else {
                    self.assumed += 1;
                    taken.users.push(User { process, page: taken.frame & 0xffff_ffff, stores: true });
                }
            }
        }
    }
}

impl Taking {
    /// Whether pages move.
    pub(super) fn is_migration(&self) -> bool {
        is_migration(self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Event, Kind, Names};

    fn row(thread: u32, process: u32, time_ns: u64) -> Row {
        let program = Names::default().add("program");
        Row { event: Event { time_ns, cpu: 0, thread, kind: Kind::ReclaimBegan }, process, program }
    }

    fn user(page: u64) -> Vec<User> {
        vec![User { process: 7, page, stores: false }]
    }

    #[test]
    fn the_frames_that_follow_a_flush_are_its_pages() {
        let mut operations = Operations::new(Mechanism::of_linux("6.1"));
        assert!(operations.flush(&row(1, 0, 0), Cause::Reclaim, 4).is_none());
        for frame in 0..20 {
            assert!(operations.freed(1, frame, user(frame)));
        }
        assert!(!operations.freed(2, 50, user(50)));
        let first = operations.flush(&row(1, 0, 30), Cause::Reclaim, 9).expect("a batch");
        let steps = operations.steps(first);
        let [(4, taking)] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!((taking.time_ns, taking.pages.len(), taking.batch.len()), (0, 20, 20));
        let second = operations.end(1).expect("a flush");
        assert_eq!((operations.steps(second).len(), operations.unknown), (1, 1));
    }

    #[test]
    fn flushes_of_a_kernel_without_batches_are_one_operation() {
        let mut operations = Operations::new(Mechanism::of_linux("6.1"));
        for frame in 0..100 {
            assert!(operations.flush(&row(1, 9, frame), Cause::Migration, frame).is_none());
            operations.freed(1, frame, if frame == 5 { Vec::new() } else { user(frame) });
        }
        let operation = operations.end(1).expect("an operation");
        let steps = operations.steps(operation);
        let (pages, batches): (Vec<usize>, Vec<usize>) =
            steps.iter().map(|(_, taking)| (taking.pages.len(), taking.batch.len())).unzip();
        assert_eq!((pages, batches), (vec![1; 100], [vec![0; 99], vec![100]].concat()));
        assert_eq!((steps[99].1.batch[5].users[0].process, operations.assumed), (9, 1));
    }
}
