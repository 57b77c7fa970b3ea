//! Finds the pages that belong to one reclaim or one migration.
//!
//! The kernel flushes before it frees. So the frames that a thread frees after a flush of its reclaim or its migration,
//! and before the next one, are those of that flush. A kernel that flushes page by page frees one frame for each flush;
//! what it does between the beginning and the end of the operation is then one batch for a kernel that has batches.

use std::collections::HashMap;

use crate::recording::Row;
use crate::replay::frames::User;
use crate::replay::kernel::Taken;
use crate::shootdowns::Cause;

/// The pages that reclaim unmaps before it flushes, and those that migration does (Linux: `SWAP_CLUSTER_MAX`,
/// `NR_MAX_BATCHED_MIGRATION`).
const RECLAIM: usize = 32;
const MIGRATION: usize = 512;

/// Pages that a thread took back.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// The CPU of its last flush.
    pub(super) cpu: u32,
    /// The time of its end.
    pub(super) time_ns: u64,
    pub(super) cause: Cause,
    /// The pages of each flush.
    pub(super) flushes: Vec<Vec<Taken>>,
    /// The process of the thread, which is taken for the owner of pages of which none is known; 0 for the kernel.
    pub(super) process: u32,
}

/// The operations that are under way, by thread.
#[derive(Debug, Default)]
pub(super) struct Operations {
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
    /// A thread flushes on the kernel's account. Returns the operation before, if this one is another.
    pub(super) fn flush(&mut self, row: &Row, cause: Cause) -> Option<Operation> {
        let (cpu, time_ns) = (row.event.cpu, row.event.time_ns);
        let is_same = |open: &Operation| {
            let pages: usize = open.flushes.iter().map(Vec::len).sum();
            open.cause == cause && pages < if is_migration(cause) { MIGRATION } else { RECLAIM }
        };
        let ended = match self.open.get(&row.event.thread) {
            // A batch of several pages was one of the recorded kernel: the next flush is another.
            Some(open) if is_same(open) && open.flushes.iter().all(|pages| pages.len() <= 1) => None,
            Some(_) => self.open.remove(&row.event.thread),
            None => None,
        };
        let new = Operation { cpu, time_ns, cause, flushes: Vec::new(), process: row.process };
        let open = self.open.entry(row.event.thread).or_insert(new);
        (open.cpu, open.time_ns) = (cpu, time_ns);
        open.flushes.push(Vec::new());
        ended.map(|operation| self.owned(operation))
    }

    /// A thread frees a frame that had users. Returns whether the frame belongs to an operation.
    pub(super) fn freed(&mut self, thread: u32, frame: u64, users: Vec<User>, time_ns: u64) -> bool {
        let Some(open) = self.open.get_mut(&thread) else { return false };
        open.time_ns = time_ns;
        let Some(flush) = open.flushes.last_mut() else { return false };
        flush.push(Taken { frame, users });
        true
    }

    /// A thread's operation has ended.
    pub(super) fn end(&mut self, thread: u32) -> Option<Operation> {
        let operation = self.open.remove(&thread)?;
        Some(self.owned(operation))
    }

    /// Gives the pages without a known user to the thread's own process, if it has one.
    fn owned(&mut self, mut operation: Operation) -> Operation {
        let process = operation.process;
        for flush in &mut operation.flushes {
            if flush.is_empty() {
                // The frames went to lists of the CPU without an event, or to another thread.
                flush.push(Taken { frame: u64::MAX, users: Vec::new() });
            }
            for taken in flush.iter_mut().filter(|taken| taken.users.is_empty()) {
                if process == 0 {
                    self.unknown += 1;
                } else {
                    self.assumed += 1;
                    taken.users.push(User { process, page: taken.frame & 0xffff_ffff, stores: true });
                }
            }
        }
        operation
    }
}

impl Operation {
    /// The batches in which a kernel with batches flushes these pages.
    pub(super) fn batches(&self) -> Vec<&[Taken]> {
        self.flushes.iter().map(Vec::as_slice).collect()
    }

    /// Whether the recorded kernel flushed page by page.
    pub(super) fn is_per_page(&self) -> bool {
        self.flushes.len() > 1 && self.flushes.iter().all(|pages| pages.len() <= 1)
    }

    /// All pages, in one batch.
    pub(super) fn all(&self) -> Vec<Taken> {
        self.flushes.iter().flatten().cloned().collect()
    }

    /// Whether it moves pages.
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
        let mut operations = Operations::default();
        assert!(operations.flush(&row(1, 0, 0), Cause::Reclaim).is_none());
        for frame in 0..20 {
            assert!(operations.freed(1, frame, user(frame), frame));
        }
        assert!(!operations.freed(2, 50, user(50), 20));
        let first = operations.flush(&row(1, 0, 30), Cause::Reclaim).expect("a batch");
        assert_eq!(first.batches().iter().map(|batch| batch.len()).collect::<Vec<_>>(), [20]);
        assert!(!first.is_per_page());
        let second = operations.end(1).expect("a flush");
        assert_eq!((second.flushes.len(), operations.unknown), (1, 1));
    }

    #[test]
    fn flushes_of_one_page_each_are_one_operation() {
        let mut operations = Operations::default();
        for frame in 0..100 {
            assert!(operations.flush(&row(1, 9, frame), Cause::Migration).is_none());
            operations.freed(1, frame, if frame == 5 { Vec::new() } else { user(frame) }, frame);
        }
        let operation = operations.end(1).expect("an operation");
        assert!(operation.is_per_page() && operation.all().len() == 100);
        assert_eq!((operation.all()[5].users[0].process, operations.assumed), (9, 1));
    }
}
