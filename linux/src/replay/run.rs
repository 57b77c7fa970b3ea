//! Runs all mechanisms over one recording.

use std::fmt;

use crate::events::{Kind, Names, PAGE_SHIFT};
use crate::kernel::threads::Threads;
use crate::locks::Locks;
use crate::observer::{Observer, Sums};
use crate::recording::{Count, Facts, Loss, Recording, RecordingError, Row};
use crate::replay::flushes::Flushes;
use crate::replay::hardware::Asked;
use crate::replay::mechanism::Mechanism;
use crate::replay::model::{Model, Predicted};
use crate::replay::parts::Parts;
use crate::replay::steps::{Step, Steps};
use crate::replay::whereabouts::Whereabouts;
use crate::shootdowns::{Answers, Timeline, Totals};

/// A recording that cannot be replayed.
#[derive(Debug)]
pub enum ReplayError {
    /// It cannot be read.
    Recording(RecordingError),
    /// It has only interrupts, and not what led to them.
    Light,
    /// It was made of a file without events that every mechanism depends on.
    Lacks {
        /// What it does not have.
        events: &'static str,
        /// What is not known without.
        unknown: &'static str,
    },
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
            Self::Lacks { events, unknown } => {
                write!(f, "the recording has no {events}, so {unknown} is not known: record those events too")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// What the recorded kernel did.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The CPUs that it asked to flush, and the interrupts that this took.
    pub asked: Asked,
    /// In each part of the recording.
    pub parts: Vec<Asked>,
    /// The requests to flush a process that were answered. The TLB row of `/proc/interrupts` counts these.
    pub answered: u64,
    /// Those of them without events of their handler.
    pub unseen: u64,
    /// Those without an event where they were sent.
    pub unsent: u64,
    /// All its shootdowns.
    pub totals: Totals,
    /// Its requests over time.
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
    /// The flushes of which only the CPUs that they asked tell whether page tables were freed.
    pub unsure_tables: u64,
    /// The times at which a CPU ran another process than the one to which it was told to switch.
    pub untold_switches: u64,
}

impl Replay {
    /// The CPUs that the kernel asked to flush. Where its events do not tell all of them, the TLB row of
    /// `/proc/interrupts` does, if it was read.
    pub fn observed_requests(&self) -> u64 {
        let row = self.facts.tlb_row.filter(|_| self.facts.counted == Count::Flushed);
        row.unwrap_or(self.observed.asked.requests)
    }

    /// The name of a process that was seen to send or to receive interrupts.
    pub fn program(&self, process: u32) -> Option<&str> {
        self.observed.totals.names.get(&process).map(|name| self.names.get(*name))
    }
}

/// The replay of a recording under several mechanisms.
struct Replayer {
    observer: Observer<(Sums, Timeline)>,
    parts: Parts,
    answers: Answers,
    answered: u64,
    whereabouts: Whereabouts,
    flushes: Flushes,
    steps: Steps,
    models: Vec<Model>,
    /// Whether a model has calls that other events end.
    calls_wait: bool,
    events: u64,
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
    let has = |prefix: &str| facts.events.iter().any(|name| name.starts_with(prefix));
    for (events, unknown) in
        [("sched:sched_switch", "where threads ran"), ("syscalls:sys_enter_", "what flushes were for")]
    {
        if !has(events) {
            return Err(ReplayError::Lacks { events, unknown });
        }
    }
    let cpus = facts.cpu_numbers().max(1);
    let frames = facts.memory_bytes >> PAGE_SHIFT;
    let sums = (Sums::new(facts.clone()), Timeline::new(facts.clone()));
    let mut replayer = Replayer {
        observer: Observer::new(Threads::default(), sums),
        parts: Parts::new(&facts),
        answers: Answers::new(facts.counted),
        answered: 0,
        whereabouts: Whereabouts::new(cpus),
        flushes: Flushes::new(&facts),
        steps: Steps::default(),
        models: mechanisms.iter().map(|mechanism| Model::new(*mechanism, cpus, frames)).collect(),
        calls_wait: mechanisms.iter().any(|mechanism| mechanism.calls.wait()),
        events: 0,
    };
    let mut names = Names::default();
    recording.each::<ReplayError>(&mut names, |row, names| {
        replayer.add(&row, names);
        Ok(())
    })?;
    Ok(replayer.finish(facts, recording.lost(), names))
}

impl Replayer {
    /// Each part of the replay sees a row once, and the order is that of its effects:
    /// 1. The observer knows the thread and what it does. Those after it ask for both.
    /// 2. A part of the recording that ends before the event ends.
    /// 3. Calls that wait may end before the event has its effects.
    /// 4. The whereabouts: a flush interrupts the CPUs that run the process now.
    /// 5. The flushes. One that waits for its pages keeps the place of its step.
    fn add(&mut self, row: &Row, names: &Names) {
        self.events += 1;
        self.answered += u64::from(self.answers.add(&row.event).is_some());
        self.observer.add(row, names);
        for _ in 0..self.parts.add(&row.event, self.interrupts(row)) {
            self.steps.push(Step::Part);
        }
        if self.calls_wait && !matches!(row.event.kind, Kind::Lost { .. } | Kind::Stack { .. }) {
            self.steps.push(Step::Event(*row));
        }
        let ran = self.whereabouts.add(row, &self.observer, &mut self.steps);
        let is_idle = matches!(row.event.kind, Kind::Sent { target, .. } if self.whereabouts.is_idle(target));
        self.flushes.add(row, ran, is_idle, &mut self.observer, names, &mut self.steps);
        self.tell();
    }

    /// Whether a row is a request that interrupts.
    fn interrupts(&self, row: &Row) -> bool {
        let latest = || self.observer.latest(row.event.cpu)?.requests.last();
        matches!(row.event.kind, Kind::Sent { .. }) && latest().is_some_and(|request| request.interrupts)
    }

    /// Tells the kernels the steps that are known.
    fn tell(&mut self) {
        while let Some(step) = self.steps.next() {
            for model in &mut self.models {
                model.step(&step);
            }
        }
    }

    fn finish(mut self, facts: Facts, lost: Loss, names: Names) -> Replay {
        self.flushes.finish(&mut self.steps);
        self.tell();
        for model in &mut self.models {
            model.finish();
        }
        self.answered += self.answers.finish().len() as u64;
        let ((sums, timeline), threads) = self.observer.finish();
        let (totals, locks) = sums.named(&threads);
        let parts = self.parts.asked();
        let mut asked = Asked::default();
        for part in &parts {
            asked += *part;
        }
        Replay {
            facts,
            lost,
            names,
            events: self.events,
            observed: Observed {
                asked,
                parts,
                answered: self.answered,
                unseen: self.answers.unseen,
                unsent: self.answers.unsent,
                totals,
                timeline,
                locks,
            },
            predicted: self.models.into_iter().map(Model::predicted).collect(),
            left_out: self.flushes.left_out,
            unknown_pages: self.flushes.operations.unknown,
            assumed_pages: self.flushes.operations.assumed,
            most_frames: self.flushes.frames.most(),
            unsure_tables: self.flushes.unsure,
            untold_switches: self.whereabouts.untold,
        }
    }
}
