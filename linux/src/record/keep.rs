//! Makes a recording of events in the order of time.

use std::io::Write;

use crate::events::{Event, FlushReason, Kind, Names};
use crate::kernel::threads::Threads;
use crate::locks::Locks;
use crate::observer::{Observer, Sums};
use crate::recording::{Facts, RecordingError, Row, Writer};
use crate::shootdowns::Totals;

/// A recording that was made.
#[derive(Debug)]
pub struct Recorded<W> {
    /// The facts that it has.
    pub facts: Facts,
    /// Its shootdowns.
    pub totals: Totals,
    /// Its waits for locks.
    pub locks: Locks,
    /// The names to which the totals refer.
    pub names: Names,
    /// Where it was written.
    pub to: W,
}

/// Writes events, with the process and the program of each, and sums up their shootdowns.
#[derive(Debug)]
pub(crate) struct Keeper<W: Write + Send> {
    writer: Writer<W>,
    observer: Observer<Sums>,
    /// The events so far.
    pub(crate) count: u64,
    asked: u64,
}

impl<W: Write + Send> Keeper<W> {
    /// Begins a recording with the threads that there are, and the pages that processes have mapped.
    pub(crate) fn new(
        mut writer: Writer<W>,
        threads: Threads,
        mapped: &[(u32, Kind)],
        began_ns: u64,
        names: &mut Names,
    ) -> Result<Self, RecordingError> {
        let mut all: Vec<_> = threads.all().collect();
        all.sort_unstable_by_key(|(thread, _)| *thread);
        for (thread, is) in all {
            let kind = Kind::ThreadNamed { thread, name: is.name };
            let event = Event { time_ns: began_ns, cpu: 0, thread, kind };
            writer.add(&Row { event, process: is.process, program: is.name }, names)?;
        }
        // Processes are their first threads.
        for (process, kind) in mapped {
            if let Some(is) = threads.get(*process) {
                let event = Event { time_ns: began_ns, cpu: 0, thread: *process, kind: *kind };
                writer.add(&Row { event, process: is.process, program: is.name }, names)?;
            }
        }
        let observer = Observer::new(threads, Sums::default());
        Ok(Self { writer, observer, count: 0, asked: 0 })
    }

    /// The threads that are known.
    pub(crate) fn threads(&mut self) -> &mut Threads {
        &mut self.observer.threads
    }

    /// Adds the next event.
    pub(crate) fn add(&mut self, event: Event, names: &mut Names) -> Result<(), RecordingError> {
        self.count += 1;
        self.asked += u64::from(matches!(event.kind, Kind::Flush { reason: FlushReason::RemoteSend, .. }));
        let row = self.observer.add_event(event, names);
        self.writer.add(&row, names)
    }

    /// Ends the recording. Its facts are complete but for the flushes that asked other CPUs.
    pub(crate) fn finish(self, mut facts: Facts, names: Names) -> Result<Recorded<W>, RecordingError> {
        facts.asked = facts.has_event("tlb:tlb_flush").then_some(self.asked);
        let to = self.writer.finish(&facts, &names)?;
        let (sums, threads) = self.observer.finish();
        let (totals, mut locks) = sums.named(&threads);
        locks.facts = facts.clone();
        Ok(Recorded { facts, totals, locks, names, to })
    }
}
