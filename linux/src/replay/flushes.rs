//! What the recorded kernel's flushes were for: a program's call or fault, or pages that the kernel takes back.

use crate::events::{Event, FlushReason, Kind, Names, Work};
use crate::observer::{Observer, Sink};
use crate::recording::{Facts, Row};
use crate::replay::frames::Frames;
use crate::replay::linux::{Givers, Linux};
use crate::replay::operations::{is_of_kernel, Operation, Operations};
use crate::replay::steps::{Flush, Step, Steps};
use crate::replay::under_way::UnderWay;

/// Makes steps of flushes and of frames.
#[derive(Debug)]
pub(super) struct Flushes {
    /// The frames that are in use.
    pub(super) frames: Frames,
    /// The reclaims and the migrations that are under way.
    pub(super) operations: Operations,
    under_way: UnderWay,
    linux: Linux,
    givers: Givers,
    /// The flushes of which only the answers tell whether page tables were freed.
    pub(super) unsure: u64,
    /// The flushes of the kernel's own threads of which the process is not known.
    pub(super) left_out: u64,
}

impl Flushes {
    /// None yet, of the kernel of a recording.
    pub(super) fn new(facts: &Facts) -> Self {
        let linux = Linux::of_release(facts.release());
        let operations = Operations::new(linux.mechanism());
        Self {
            frames: Frames::default(),
            operations,
            under_way: UnderWay::default(),
            linux,
            givers: Givers::default(),
            unsure: 0,
            left_out: 0,
        }
    }

    /// Learns from a row that the observer knows. `ran` is the process that the row's CPU is seen to run, if that is
    /// news, and `is_idle` says what is known of the CPU that a request asks.
    pub(super) fn add(
        &mut self,
        row: &Row,
        ran: Option<u32>,
        is_idle: bool,
        observer: &mut Observer<impl Sink>,
        names: &Names,
        steps: &mut Steps,
    ) {
        let Event { time_ns: now_ns, cpu, thread, kind } = row.event;
        let freed = self.frames.learn(row);
        self.givers.learn(row);
        match kind {
            Kind::Flush { reason: FlushReason::RemoteSend, pages } => {
                self.flush(row, pages, observer, names, steps);
            }
            Kind::Sent { work: Work::FlushAll | Work::FlushKernelRange, .. }
                if observer.latest(cpu).is_some_and(|latest| latest.requests.len() == 1) =>
            {
                let flush = Step::FlushKernel { cpu, process: row.process, now_ns };
                self.under_way.begin(row, Some((flush, true)), steps);
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
        self.under_way.add(row, ran, is_idle, steps);
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
            self.under_way.begin(row, None, steps);
            let place = steps.keep();
            if let Some(operation) = self.operations.flush(row, cause, place) {
                self.take(operation, steps);
            }
        } else if row.process == 0 {
            self.left_out += 1;
        } else {
            let told = self.linux.frees_tables(doing, pages, self.givers.beside(row));
            let tables = told.unwrap_or_default();
            let (process, purge) = (row.process, doing.take_purge());
            let flush = Flush { cpu, thread, process, pages, tables, cause, time_ns, purge };
            self.unsure += u64::from(told.is_none());
            self.under_way.begin(row, Some((Step::Flush(flush), told.is_some())), steps);
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
        self.under_way.finish(steps);
        for operation in self.operations.end_all() {
            self.take(operation, steps);
        }
    }
}
