//! Runs all mechanisms over one recording.

use std::fmt;

use crate::events::{Event, FlushReason, Kind, Names, Work};
use crate::kernel::threads::{Thread, Threads};
use crate::locks::{Locks, Waits};
use crate::recording::{Count, Facts, Loss, Recording, RecordingError, Row};
use crate::replay::calls::Flush;
use crate::replay::frames::Frames;
use crate::replay::model::{Mechanism, Model, Predicted};
use crate::replay::operations::{is_of_kernel, Operation, Operations};
use crate::replay::residency::Residency;
use crate::replay::steps::{Step, Steps};
use crate::shootdowns::{Shootdown, Tally, Timeline, Totals, Tracker};

/// The parts into which the time of a recording is divided, to see how much its figures vary.
const PARTS: u64 = 20;

/// A recording that cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Recording(RecordingError),
    /// It has only interrupts, and not what led to them.
    Light,
}

impl From<RecordingError> for ReplayError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recording(error) => error.fmt(f),
            Self::Light => f.write_str(
                "a light recording has interrupts alone, not what led to them: record without --light",
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

/// What the recorded kernel did.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The interrupts that it sent for flushes of processes, as its own events count them.
    pub interrupts: u64,
    /// In each part of the recording.
    pub parts: Vec<u64>,
    /// All its shootdowns.
    pub totals: Totals,
    /// Its interrupts over time.
    pub timeline: Timeline,
    /// Its waits for locks.
    pub locks: Locks,
}

/// A replayed recording.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The facts of the recording.
    pub facts: Facts,
    /// What it lacks.
    pub lost: Loss,
    /// The names of programs.
    pub names: Names,
    /// The number of events.
    pub events: u64,
    /// What the recorded kernel did.
    pub observed: Observed,
    /// What each mechanism would have done.
    pub predicted: Vec<Predicted>,
    /// The flushes of the kernel's own threads of which the process is not known. They were left out.
    pub left_out: u64,
    /// Pages that the kernel took back and whose owner is not known. Their flushes interrupt nobody here.
    pub unknown_pages: u64,
    /// Pages that were taken to belong to the process that the kernel worked for.
    pub assumed_pages: u64,
    /// The largest number of frames that were known to be in use.
    pub most_frames: usize,
}

impl Replay {
    /// The name of a process that was seen to send or to receive interrupts.
    pub fn program(&self, process: u32) -> Option<&str> {
        self.observed.totals.names.get(&process).map(|name| self.names.get(*name))
    }
}

/// The replay of a recording under several mechanisms.
struct Replayer {
    models: Vec<Model>,
    /// Whether a model has calls that other events end.
    calls_wait: bool,
    counted: Count,
    frames: Frames,
    operations: Operations,
    steps: Steps,
    threads: Threads,
    /// For each CPU, the thread that was seen there last. `threads` knows it.
    seen: Vec<Option<(u32, Thread)>>,
    residency: Residency,
    tracker: Tracker,
    tally: Tally,
    waits: Waits,
    observed: Observed,
    events: u64,
    left_out: u64,
    most_frames: usize,
    part_ends_ns: Vec<u64>,
    part: u64,
}

/// Replays a recording under mechanisms.
///
/// # Errors
/// If it cannot be read, or has no events that could be replayed.
pub fn replay(recording: &mut Recording, mechanisms: &[Mechanism]) -> Result<Replay, ReplayError> {
    let facts = recording.facts().clone();
    if facts.light {
        return Err(ReplayError::Light);
    }
    let cpus = facts.cpu_numbers().max(1);
    let frames = facts.memory_bytes >> 12;
    let time_ns = facts.duration_ns();
    let mut replayer = Replayer {
        models: mechanisms.iter().map(|mechanism| Model::new(*mechanism, cpus, frames)).collect(),
        calls_wait: mechanisms.iter().any(|mechanism| mechanism.calls.wait()),
        counted: facts.counted,
        frames: Frames::default(),
        operations: Operations::new(Mechanism::of_linux(facts.release())),
        steps: Steps::default(),
        threads: Threads::default(),
        seen: Vec::new(),
        residency: Residency::new(cpus),
        tracker: Tracker::default(),
        tally: Tally::default(),
        waits: Waits::default(),
        observed: Observed {
            timeline: Timeline::new(facts.clone()),
            locks: Locks::new(facts.clone()),
            ..Observed::default()
        },
        events: 0,
        left_out: 0,
        most_frames: 0,
        part_ends_ns: (1..PARTS).rev().map(|part| facts.began_ns + time_ns * part / PARTS).collect(),
        part: 0,
    };
    let mut names = Names::default();
    recording.each::<ReplayError>(&mut names, |row, names| {
        replayer.add(&row, names);
        Ok(())
    })?;
    Ok(replayer.finish(facts, recording.lost(), names))
}

impl Replayer {
    fn add(&mut self, row: &Row, names: &Names) {
        self.events += 1;
        let event = &row.event;
        while self.part_ends_ns.last().is_some_and(|end| *end <= event.time_ns) {
            self.part_ends_ns.pop();
            self.end_part();
        }
        let (locks, doing) = (&mut self.observed.locks, || *self.tracker.doing(event.thread));
        self.waits.add(row, doing, names, |wait| locks.add(wait));
        let (tally, timeline) = (&mut self.tally, &mut self.observed.timeline);
        let emit = |shootdown: &Shootdown| {
            tally.add(shootdown);
            timeline.add(shootdown);
        };
        self.tracker.add(event, || row.of_thread(), names, emit);
        match event.kind {
            Kind::Lost { .. } => return self.residency.loses(event.cpu),
            Kind::Stack { .. } => return,
            _ => {}
        }
        if self.counts(&event.kind) {
            self.observed.interrupts += 1;
            self.part += 1;
        }
        self.see(row);
        let now_ns = event.time_ns;
        if self.calls_wait {
            self.steps.push(Step::Event(*row));
        }
        match event.kind {
            // The threads at the beginning are listed, and run nowhere yet.
            Kind::ThreadNamed { .. } => {}
            Kind::Switch { next } => {
                let process = self.threads.get(next).map_or(next, |thread| thread.process);
                if self.residency.switches(event.cpu, process) {
                    self.runs(event.cpu, process, now_ns);
                }
            }
            _ if self.residency.acts(event.cpu, row.process) => self.runs(event.cpu, row.process, now_ns),
            _ => {}
        }
        match event.kind {
            Kind::Flush { reason: FlushReason::RemoteSend, pages } => self.flush(row, pages, names),
            Kind::Cached { frame, .. } => {
                self.steps.push(Step::Found { cpu: event.cpu, frame, now_ns });
            }
            Kind::MigrationEnded { .. }
            | Kind::ReclaimEnded { .. }
            | Kind::CallEnded { .. }
            | Kind::ThreadEnded => {
                self.end_operation(event.thread);
            }
            _ => {}
        }
        let freed = self.frames.learn(row);
        if let Kind::Freed { frame, .. } = event.kind {
            self.operations.freed(event.thread, frame, freed);
        }
        self.most_frames = self.most_frames.max(self.frames.len());
        // A thread that has ended gives its memory back before it leaves its CPU, since Linux 6.16.
        if matches!(event.kind, Kind::Switch { .. }) && self.tracker.has_ended(event.thread) {
            self.threads.forget(event.thread);
            self.seen.clear();
            if self.threads.all().all(|(_, thread)| thread.process != row.process) {
                self.steps.push(Step::Ends { process: row.process });
            }
        }
        self.tell();
    }

    /// A thread is seen on a CPU.
    fn see(&mut self, row: &Row) {
        let (cpu, thread) = (row.event.cpu as usize, (row.event.thread, row.of_thread()));
        if self.seen.get(cpu) != Some(&Some(thread)) {
            if self.seen.len() <= cpu {
                self.seen.resize(cpu + 1, None);
            }
            self.seen[cpu] = Some(thread);
            self.threads.add(thread.0, thread.1);
        }
        if matches!(row.event.kind, Kind::ThreadBegan { .. } | Kind::ThreadNamed { .. }) {
            self.threads.learn(&row.event);
            self.seen.clear();
        }
    }

    /// Tells the kernels what is known so far.
    fn tell(&mut self) {
        while let Some(step) = self.steps.next() {
            for model in &mut self.models {
                model.step(&step);
            }
        }
    }

    /// Whether an event is an interrupt of the recorded kernel.
    fn counts(&self, kind: &Kind) -> bool {
        match self.counted {
            Count::Sent => matches!(kind, Kind::Sent { work: Work::Flush, .. }),
            Count::Flushed => self.counted.counts(kind),
        }
    }

    fn runs(&mut self, cpu: u32, process: u32, now_ns: u64) {
        self.steps.push(Step::Runs { cpu, process, now_ns });
    }

    /// The recorded kernel asks other CPUs to flush.
    fn flush(&mut self, row: &Row, pages: Option<u64>, names: &Names) {
        let Event { cpu, thread, time_ns, .. } = row.event;
        let doing = self.tracker.doing(thread);
        let cause = doing.cause(Work::Flush, names.get(row.program));
        if is_of_kernel(cause) {
            let place = self.steps.keep();
            if let Some(operation) = self.operations.flush(row, cause, place) {
                self.take(operation);
            }
        } else if row.process == 0 {
            self.left_out += 1;
        } else {
            let (process, tables, purge) = (row.process, doing.frees_tables(pages), doing.take_purge());
            let flush = Flush { cpu, thread, process, pages, tables, cause, time_ns, purge };
            self.steps.push(Step::Flush(flush));
        }
    }

    fn end_operation(&mut self, thread: u32) {
        if let Some(operation) = self.operations.end(thread) {
            self.take(operation);
        }
    }

    /// The pages of an operation's flushes are known.
    fn take(&mut self, operation: Operation) {
        for (place, taking) in self.operations.steps(operation) {
            self.steps.fill(place, Step::Take(taking));
        }
    }

    fn end_part(&mut self) {
        self.observed.parts.push(std::mem::take(&mut self.part));
        self.steps.push(Step::Part);
    }

    fn finish(mut self, facts: Facts, lost: Loss, names: Names) -> Replay {
        let (tally, timeline) = (&mut self.tally, &mut self.observed.timeline);
        self.tracker.finish(|shootdown| {
            tally.add(shootdown);
            timeline.add(shootdown);
        });
        self.observed.totals = self.tally.totals();
        self.threads.name(&mut self.observed.totals.names);
        self.threads.name(&mut self.observed.locks.names);
        for operation in self.operations.end_all() {
            self.take(operation);
        }
        self.tell();
        self.observed.parts.push(self.part);
        for model in &mut self.models {
            model.finish();
        }
        Replay {
            facts,
            lost,
            names,
            events: self.events,
            observed: self.observed,
            predicted: self.models.into_iter().map(Model::predicted).collect(),
            left_out: self.left_out,
            unknown_pages: self.operations.unknown,
            assumed_pages: self.operations.assumed,
            most_frames: self.most_frames,
        }
    }
}
