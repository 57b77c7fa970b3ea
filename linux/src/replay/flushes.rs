//! What the recorded kernel's flushes were for: a program's call or fault, or pages that the kernel takes back.

use crate::events::{Event, FlushReason, Kind, Names, Work};
use crate::observer::{Observer, Sink};
use crate::recording::{Facts, Row};
use crate::replay::frames::Frames;
use crate::replay::mechanism::Mechanism;
use crate::replay::operations::{is_of_kernel, Operation, Operations};
use crate::replay::steps::{Flush, Step, Steps};

/// Makes steps of flushes and of frames.
#[derive(Debug)]
pub(super) struct Flushes {
    /// The frames that are in use.
    pub(super) frames: Frames,
    /// The reclaims and the migrations that are under way.
    pub(super) operations: Operations,
    /// The flushes of the kernel's own threads of which the process is not known.
    pub(super) left_out: u64,
}

impl Flushes {
    /// None yet, of the kernel of a recording.
    pub(super) fn new(facts: &Facts) -> Self {
        let operations = Operations::new(Mechanism::of_linux(facts.release()));
        Self { frames: Frames::default(), operations, left_out: 0 }
    }

    /// Learns from a row that the observer knows.
    pub(super) fn add(
        &mut self,
        row: &Row,
        observer: &mut Observer<impl Sink>,
        names: &Names,
        steps: &mut Steps,
    ) {
        let Event { time_ns: now_ns, cpu, thread, kind } = row.event;
        let freed = self.frames.learn(row);
        match kind {
            Kind::Flush { reason: FlushReason::RemoteSend, pages } => {
                self.flush(row, pages, observer, names, steps);
            }
            Kind::Cached { frame, .. } => steps.push(Step::Found { cpu, frame, now_ns }),
            Kind::Freed { frame, .. } => {
                self.operations.freed(thread, frame, freed);
            }
            Kind::MigrationEnded { .. }
            | Kind::ReclaimEnded { .. }
            | Kind::CallEnded { .. }
            | Kind::ThreadEnded => {
                if let Some(operation) = self.operations.end(thread) {
                    self.take(operation, steps);
                }
            }
            _ => {}
        }
    }

    /// The recorded kernel asks other CPUs to flush.
    fn flush(
        &mut self,
        row: &Row,
        pages: Option<u64>,
        observer: &mut Observer<impl Sink>,
        names: &Names,
        steps: &mut Steps,
    ) {
        let Event { cpu, thread, time_ns, .. } = row.event;
        let doing = observer.doing(thread);
        let cause = doing.cause(Work::Flush, names.get(row.program));
        if is_of_kernel(cause) {
            let place = steps.keep();
            if let Some(operation) = self.operations.flush(row, cause, place) {
                self.take(operation, steps);
            }
        } else if row.process == 0 {
            self.left_out += 1;
        } else {
            let (process, tables, purge) = (row.process, doing.frees_tables(pages), doing.take_purge());
            steps.push(Step::Flush(Flush { cpu, thread, process, pages, tables, cause, time_ns, purge }));
        }
    }

    /// The pages of an operation's flushes are known.
    fn take(&mut self, operation: Operation, steps: &mut Steps) {
        for (place, taking) in self.operations.steps(operation) {
            steps.fill(place, Step::Take(taking));
        }
    }

    /// The recording ends.
    pub(super) fn finish(&mut self, steps: &mut Steps) {
        for operation in self.operations.end_all() {
            self.take(operation, steps);
        }
    }
}
