//! Watches the shootdowns of the running kernel while they happen.
//!
//! The kernel's buffers are read several times a second, and sums are made of the events at once. No event is kept, so
//! the memory in use does not grow with the time.

mod lifetimes;

use std::io;
use std::time::Duration;

use crate::events::{FlushReason, Kind, Level, Lookup, Names};
use crate::kernel::interrupts;
use crate::kernel::threads::Threads;
use crate::live::lifetimes::Lifetimes;
use crate::observer::Observer;
use crate::recording::{Facts, Loss};
use crate::shootdowns::{Answers, Tally, Totals};
use crate::tracefs::{Instance, Stream, Unavailable};
use crate::tracing::{now_ns, overhead, Merge, Pages, Tracing};

/// A shootdown that was handled takes no more requests after this time: its sender sends them all at once.
const SENDING_NS: u64 = 1_000_000;

/// The names that are kept at most. A machine whose programs have more over time is read anew.
const MOST_NAMES: usize = 1 << 16;

/// Tracing whose events are added up.
#[derive(Debug)]
pub struct Live {
    // The streams in it must be closed before the instance can go.
    events: Merge<Buffers>,
    instance: Instance,
    lookup: Lookup,
    observer: Observer<Tally>,
    answers: Answers,
    lifetimes: Lifetimes,
    facts: Facts,
    /// The time that the kernel takes to write one record.
    record_ns: f64,
    /// The sums since the last interval.
    interval: Interval,
    /// The processor time that this program had used then.
    used: Duration,
    /// The sum of the TLB row then.
    row: Option<u64>,
}

/// Sums over an interval.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Its beginning on the kernel's monotonic clock, in nanoseconds.
    pub began_ns: u64,
    /// Its end.
    pub ended_ns: u64,
    /// The shootdowns that ended in it.
    pub totals: Totals,
    /// The requests that were answered in it, as [`Facts::counted`] says.
    pub answered: u64,
    /// The change of the TLB row of `/proc/interrupts`, if the kernel has one.
    pub tlb_row: Option<u64>,
    /// Flushes that asked other CPUs.
    pub asked: u64,
    /// The events that were read.
    pub events: u64,
    /// The events that were lost.
    pub lost: Loss,
    /// The processor time that this program used.
    pub used: Duration,
    /// The processor time that the kernel took to write the events, about.
    pub tracing: Duration,
}

/// The pages that the kernel has for us.
#[derive(Debug)]
struct Buffers {
    streams: Vec<Stream>,
    page_bytes: usize,
}

impl Pages for Buffers {
    fn next(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<bool> {
        page.resize(self.page_bytes, 0);
        let bytes = self.streams[stream].read(page)?;
        page.truncate(bytes);
        Ok(bytes > 0)
    }
}

impl Interval {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.ended_ns.saturating_sub(self.began_ns) as f64 / 1e9
    }
}

impl Live {
    /// Begins to watch.
    ///
    /// # Errors
    /// If the kernel's events cannot be read. Tracing is as before then.
    pub fn begin() -> Result<Self, Unavailable> {
        let Tracing { streams, instance, decoder, layout, lookup, threads, facts } =
            Tracing::begin(Level::Causes, false)?;
        let record_ns = overhead::record_ns(&instance);
        let cpus: Vec<u32> = streams.iter().map(|stream| stream.cpu).collect();
        let buffers = Buffers { streams, page_bytes: instance.page_bytes() };
        let mut live = Self {
            events: Merge::new(buffers, layout, decoder, &cpus),
            instance,
            lookup,
            observer: Observer::new(threads, Tally::default()),
            answers: Answers::new(facts.counted),
            lifetimes: Lifetimes::default(),
            facts,
            record_ns,
            interval: Interval::default(),
            used: Duration::ZERO,
            row: None,
        };
        // What happened until now belongs to no interval.
        let _ = live.interval()?;
        Ok(live)
    }

    /// The machine, the events, and how interrupts are counted.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The names to which the totals of the last interval refer.
    pub fn names(&self) -> &Names {
        &self.lookup.names
    }

    /// Adds up the events until now. Called often enough, the kernel's buffers do not overflow: ten times a second is.
    ///
    /// # Errors
    /// If the kernel refuses to give its events.
    pub fn follow(&mut self) -> Result<(), Unavailable> {
        if self.interval.events == 0 && self.lookup.names.count() > MOST_NAMES {
            self.forget_names();
        }
        self.follow_until(now_ns())
    }

    fn follow_until(&mut self, until_ns: u64) -> Result<(), Unavailable> {
        let failed = |error: io::Error| Unavailable::of(&self.instance.path("per_cpu"), &error);
        let interval = &mut self.interval;
        self.events.read_on(&mut self.lookup).map_err(failed)?;
        while let Some(event) = self.events.next(until_ns, &mut self.lookup).map_err(failed)? {
            interval.events += 1;
            interval.answered += u64::from(self.answers.add(&event).is_some());
            let asks = matches!(event.kind, Kind::Flush { reason: FlushReason::RemoteSend, .. });
            interval.asked += u64::from(asks);
            self.lifetimes.learn(&event);
            self.observer.add_event(event, &mut self.lookup.names);
        }
        Ok(())
    }

    /// Ends an interval and begins the next. The totals refer to [`names`](Self::names) until the next
    /// call of [`follow`](Self::follow).
    ///
    /// # Errors
    /// If the kernel refuses to give its events.
    pub fn interval(&mut self) -> Result<Interval, Unavailable> {
        let ended_ns = now_ns();
        let row = interrupts::tlb_sum().ok().flatten();
        self.follow_until(ended_ns)?;
        self.observer.settle(ended_ns.saturating_sub(SENDING_NS));
        let used = overhead::used();
        let mut done = std::mem::take(&mut self.interval);
        done.totals = std::mem::take(&mut self.observer.sink).totals();
        done.ended_ns = ended_ns;
        done.lost = std::mem::take(&mut self.events.lost);
        done.tlb_row = self.row.zip(row).map(|(before, now)| now.saturating_sub(before));
        done.used = used.saturating_sub(self.used);
        let records = done.events + done.lost.events;
        done.tracing = Duration::from_secs_f64(records as f64 * self.record_ns / 1e9);
        (self.interval.began_ns, self.used, self.row) = (ended_ns, used, row);
        if !done.lost.is_none() {
            // The beginnings and ends of threads may be among the lost events.
            self.observer.threads = Threads::of_kernel(&mut self.lookup.names);
        }
        self.observer.threads.name(&mut done.totals.names);
        if done.lost.is_none() {
            // They may have flushed in this interval, so it has their names.
            self.lifetimes.forget(&mut self.observer.threads);
        }
        self.observer.keep_known_threads();
        Ok(done)
    }

    /// Begins with no names. Shootdowns that are under way are not seen whole.
    fn forget_names(&mut self) {
        self.lookup = Lookup::new(std::mem::take(&mut self.lookup.symbols));
        let threads = Threads::of_kernel(&mut self.lookup.names);
        self.observer = Observer::new(threads, std::mem::take(&mut self.observer.sink));
        self.events.skip();
    }
}
