//! Events in; shootdowns, waits for locks, and the names of processes out.
//!
//! An observer puts a kernel's events together in the order of time: `shootdowns` finds the flushes and their interrupts,
//! `locks` the waits, and `kernel::threads` keeps which thread belongs to which process. A [`Sink`] takes the shootdowns
//! and the waits. All that read a recording or watch a kernel share it, so they agree on each of these.

use crate::events::{Event, Kind, Names};
use crate::kernel::threads::{Thread, Threads};
use crate::latest::Latest;
use crate::locks::{Locks, Wait, Waits};
use crate::recording::{Facts, Row};
use crate::shootdowns::{Doing, Shootdown, Tally, Timeline, Totals, Tracker};

/// Takes shootdowns and waits.
pub trait Sink {
    /// Whether it takes waits. An observer does not put them together for a sink that takes none.
    const WAITS: bool = false;

    /// Takes a shootdown that is complete.
    fn shootdown(&mut self, shootdown: &Shootdown);

    /// Takes a wait that has ended.
    fn wait(&mut self, _: &Wait) {}
}

/// Takes nothing.
impl Sink for () {
    fn shootdown(&mut self, _: &Shootdown) {}
}

/// Gives all to two sinks.
impl<A: Sink, B: Sink> Sink for (A, B) {
    const WAITS: bool = A::WAITS || B::WAITS;

    fn shootdown(&mut self, shootdown: &Shootdown) {
        self.0.shootdown(shootdown);
        self.1.shootdown(shootdown);
    }

    fn wait(&mut self, wait: &Wait) {
        self.0.wait(wait);
        self.1.wait(wait);
    }
}

impl Sink for Tally {
    fn shootdown(&mut self, shootdown: &Shootdown) {
        self.add(shootdown);
    }
}

impl Sink for Timeline {
    fn shootdown(&mut self, shootdown: &Shootdown) {
        self.add(shootdown);
    }
}

/// Sums over the shootdowns and over the waits of a recording.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    tally: Tally,
    locks: Locks,
}

impl Sums {
    /// No sums yet, of a recording.
    pub(crate) fn new(facts: Facts) -> Self {
        Self { tally: Tally::default(), locks: Locks::new(facts) }
    }

    /// The sums, with processes named by their threads.
    pub(crate) fn named(self, threads: &Threads) -> (Totals, Locks) {
        let (mut totals, mut locks) = (self.tally.totals(), self.locks);
        threads.name(&mut totals.names);
        threads.name(&mut locks.names);
        (totals, locks)
    }
}

impl Sink for Sums {
    const WAITS: bool = true;

    fn shootdown(&mut self, shootdown: &Shootdown) {
        self.tally.add(shootdown);
    }

    fn wait(&mut self, wait: &Wait) {
        self.locks.add(wait);
    }
}

/// Puts events together.
#[derive(Debug)]
pub struct Observer<S> {
    /// The threads that are known.
    pub(crate) threads: Threads,
    /// The thread of each CPU's latest row. `threads` knows it.
    latest: Latest<(u32, Thread)>,
    tracker: Tracker,
    waits: Waits,
    /// That which takes shootdowns and waits.
    pub(crate) sink: S,
}

impl<S: Sink> Observer<S> {
    /// An observer that knows these threads.
    pub fn new(threads: Threads, sink: S) -> Self {
        let (tracker, waits) = (Tracker::default(), Waits::default());
        Self { threads, latest: Latest::new(), tracker, waits, sink }
    }

    /// Adds the next event of a kernel. Returns it with the process and the name of its thread, as far as threads are
    /// known.
    pub fn add_event(&mut self, event: Event, names: &mut Names) -> Row {
        self.threads.learn(&event);
        let row = self.threads.row(event, names);
        self.put_together(&row, names);
        row
    }

    /// Adds the next row of a recording, which tells the process and the name of its thread. Returns the CPU whose
    /// shootdown's last interrupt is now handled, if there is one.
    pub fn add(&mut self, row: &Row, names: &Names) -> Option<u32> {
        let Event { cpu, thread, ref kind, .. } = row.event;
        if self.latest.is_news(cpu, (thread, Thread::of(row))) {
            self.threads.add(thread, Thread::of(row));
        }
        if matches!(kind, Kind::ThreadBegan { .. } | Kind::ThreadNamed { .. }) {
            self.threads.learn(&row.event);
            self.latest.clear();
        }
        self.put_together(row, names)
    }

    fn put_together(&mut self, row: &Row, names: &Names) -> Option<u32> {
        let Self { tracker, waits, sink, .. } = self;
        if S::WAITS {
            waits.add(row, || *tracker.doing(row.event.thread), names, |wait| sink.wait(wait));
        }
        tracker.add(row, names, |shootdown| sink.shootdown(shootdown))
    }

    /// The latest shootdown of a CPU, unless the sink has it.
    pub(crate) fn latest(&self, cpu: u32) -> Option<&Shootdown> {
        self.tracker.latest(cpu)
    }

    /// What a thread is doing.
    pub(crate) fn doing(&mut self, thread: u32) -> &mut Doing {
        self.tracker.doing(thread)
    }

    /// Whether a thread has ended, and no other got its number.
    pub(crate) fn has_ended(&self, thread: u32) -> bool {
        self.tracker.has_ended(thread)
    }

    /// Gives the sink the shootdowns that were handled before a time. An interrupt that belongs to one of them would
    /// have been sent before.
    pub(crate) fn settle(&mut self, before_ns: u64) {
        self.tracker.settle(before_ns, |shootdown| self.sink.shootdown(shootdown));
    }

    /// Forgets what unknown threads are doing.
    pub(crate) fn keep_known_threads(&mut self) {
        self.tracker.keep_threads(|thread| self.threads.get(thread).is_some());
    }

    /// Ends, and gives the sink the shootdowns that are not complete. The threads name processes.
    pub fn finish(mut self) -> (S, Threads) {
        self.tracker.finish(|shootdown| self.sink.shootdown(shootdown));
        (self.sink, self.threads)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::events::Work;
    use crate::recording::{Recording, RecordingError};

    #[test]
    fn the_events_of_a_recording_are_its_rows_again() {
        for name in ["madvise", "copy-on-write", "waits", "guests/6.12-reclaim", "guests/7.2-munmap"] {
            let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{name}.parquet"));
            let mut recording = Recording::open(&path).expect("a recording");
            let began_ns = recording.facts().began_ns;
            let new = || Observer::new(Threads::default(), Sums::default());
            let (mut of_events, mut of_rows) = (new(), new());
            let mut names = Names::default();
            // The events of the recorded kernel name no threads before its first one.
            let mut rows = Vec::new();
            let each = recording.each::<RecordingError>(&mut names, |row, _| {
                rows.push(row);
                Ok(())
            });
            each.expect("a whole recording");
            for row in rows {
                if row.event.time_ns == began_ns && matches!(row.event.kind, Kind::ThreadNamed { .. }) {
                    of_events.threads.add(row.event.thread, Thread::of(&row));
                } else {
                    assert_eq!(of_events.add_event(row.event, &mut names), row, "{name}");
                }
                of_rows.add(&row, &names);
            }
            let told = |observer: Observer<Sums>| {
                let (sums, threads) = observer.finish();
                let (totals, locks) = sums.named(&threads);
                (totals.all, totals.causes, totals.names, locks.rows())
            };
            let (of_events, of_rows) = (told(of_events), told(of_rows));
            assert!(of_rows.0.interrupts > 100, "{name}: {:?}", of_rows.0);
            assert_eq!(of_events, of_rows, "{name}");
        }
    }

    #[test]
    fn a_process_that_has_ended_keeps_its_first_threads_name() {
        let mut names = Names::default();
        let [program, helper, site] = ["program", "helper", "site"].map(|name| names.add(name));
        let mut observer = Observer::new(Threads::default(), Sums::default());
        let mut add = |thread, program, kind| {
            let event = Event { time_ns: 0, cpu: 0, thread, kind };
            observer.add(&Row { event, process: 10, program }, &names);
        };
        add(10, program, Kind::ThreadNamed { thread: 10, name: program });
        add(11, helper, Kind::Sent { target: 1, work: Work::Flush, call: 1, site });
        for (thread, name) in [(11, helper), (10, program)] {
            add(thread, name, Kind::ThreadEnded);
            add(thread, name, Kind::Switch { next: 0 });
        }
        let (sums, threads) = observer.finish();
        assert_eq!(sums.named(&threads).0.names[&10], program);
    }
}
