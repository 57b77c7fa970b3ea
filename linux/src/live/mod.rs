//! Watches the shootdowns of the running kernel while they happen.
//!
//! The kernel's buffers are read several times a second, and sums are made of the events at once. No event is kept, so
//! the memory in use does not grow with the time. `pace` says when events are on, and `windows` scales what they tell to
//! the whole time.

mod lifetimes;
mod pace;
mod windows;

use std::io;
use std::time::Duration;

use crate::events::{FlushReason, Kind, Level, Lookup, Names};
use crate::kernel::interrupts;
use crate::kernel::threads::Threads;
use crate::live::lifetimes::Lifetimes;
use crate::live::pace::{Pace, Spent};
use crate::observer::Observer;
use crate::random::Numbers;
use crate::recording::{Count, Facts, Loss};
use crate::shootdowns::{Answers, Tally, Totals};
use crate::tracefs::{Instance, Stream, Unavailable};
use crate::tracing::{now_ns, overhead, Merge, Pages, Switch, Tracing};

pub use windows::{Window, Windows};

/// A shootdown that was handled takes no more requests after this time: its sender sends them all at once.
const SENDING_NS: u64 = 1_000_000;

/// The names that are kept at most. A machine whose programs have more over time is read anew.
const MOST_NAMES: usize = 1 << 16;

/// The number with which the gaps between windows begin.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Tracing whose events are added up.
#[derive(Debug)]
pub struct Live {
    // The streams in it must be closed before the instance can go.
    events: Merge<Buffers>,
    /// The switch of events that are on in windows; none if they always are.
    switch: Option<Switch>,
    instance: Instance,
    lookup: Lookup,
    observer: Observer<Tally>,
    answers: Answers,
    lifetimes: Lifetimes,
    facts: Facts,
    /// The time that the kernel takes to write one record.
    record_ns: f64,
    pace: Pace,
    numbers: Numbers,
    /// The sums since the last interval.
    interval: Interval,
    /// The beginning of the interval.
    began: Mark,
    /// The end of the last window, or the beginning of the interval.
    closed: Mark,
    /// The beginning of the window that is open.
    opened: Option<Mark>,
    /// The requests that were answered in it.
    answered: u64,
    /// The last look at what the events cost.
    looked: Mark,
    /// The time that events took, as [`Spent::cost_s`].
    cost_s: f64,
    /// The time at which it closes, or at which the next one opens.
    due_ns: u64,
    /// The windows of the interval.
    windows: Vec<Window>,
}

/// The counts at some time.
#[derive(Debug, Clone, Copy)]
struct Mark {
    time_ns: u64,
    /// The sum of the TLB row.
    row: Option<u64>,
    /// The processor time that this program had used.
    used: Duration,
    /// The time that events took.
    cost_s: f64,
}

/// Sums over an interval.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Its beginning on the kernel's monotonic clock, in nanoseconds.
    pub began_ns: u64,
    /// Its end.
    pub ended_ns: u64,
    /// The shootdowns that ended in it, scaled if there are windows.
    pub totals: Totals,
    /// The requests that were answered in it, as [`Facts::counted`] says. Where there are windows, they are scaled by the
    /// change of the TLB row.
    pub answered: u64,
    /// The time for which events were on.
    pub watched_ns: u64,
    /// The windows; none if events were on all the time.
    pub windows: Option<Windows>,
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

    /// The part of it for which events were on.
    pub fn watched(&self) -> f64 {
        self.watched_ns as f64 / self.ended_ns.saturating_sub(self.began_ns).max(1) as f64
    }

    /// Takes the sums of the windows, which are scaled unless events were on all the time.
    pub fn take(&mut self, windows: &[Window]) {
        self.watched_ns = windows.iter().map(|window| window.watched_ns).sum();
        self.answered = windows.iter().map(|window| window.answered).sum();
        let row = self.tlb_row.filter(|_| self.watched_ns < self.ended_ns.saturating_sub(self.began_ns));
        let Some(row) = row else {
            for window in windows {
                self.totals.add(&window.totals);
            }
            return;
        };
        let within: u64 = windows.iter().map(|window| window.row).sum();
        if within > 0 {
            self.answered = (self.answered as f64 * row as f64 / within as f64).round() as u64;
        }
        let scaled = Windows::new(windows, row);
        for part in &scaled.parts {
            self.totals.add(part);
        }
        self.windows = Some(scaled);
    }
}

impl Live {
    /// Begins to watch. The events are on in windows while they cost much, unless they are to be on all the time
    /// (`full`), or the kernel does not count requests.
    ///
    /// # Errors
    /// If the kernel's events cannot be read. Tracing is as before then.
    pub fn begin(full: bool) -> Result<Self, Unavailable> {
        let Tracing { streams, instance, decoder, layout, lookup, threads, facts } =
            Tracing::begin(Level::Causes, false)?;
        let record_ns = overhead::record_ns(&instance);
        let cpus: Vec<u32> = streams.iter().map(|stream| stream.cpu).collect();
        let buffers = Buffers { streams, page_bytes: instance.page_bytes() };
        let now = Mark::now();
        let can_scale = facts.counted == Count::Sent && now.row.is_some();
        let switch = (can_scale && !full).then(|| Switch::of(&instance, &facts.events)).transpose()?;
        let mut live = Self {
            events: Merge::new(buffers, layout, decoder, &cpus),
            switch,
            instance,
            lookup,
            observer: Observer::new(threads, Tally::default()),
            answers: Answers::new(facts.counted),
            lifetimes: Lifetimes::default(),
            facts,
            record_ns,
            pace: Pace::default(),
            numbers: Numbers::new(SEED),
            interval: Interval::default(),
            began: now,
            closed: now,
            opened: Some(now),
            answered: 0,
            looked: now,
            cost_s: 0.0,
            due_ns: 0,
            windows: Vec::new(),
        };
        // What happened until now belongs to no interval.
        let _ = live.interval()?;
        live.looked = live.began;
        live.due_ns = live.began.time_ns + live.window_ns();
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

    /// Adds up the events until now, and switches them. Called often enough, the kernel's buffers do not overflow: ten times
    /// a second is, and when [`wait`](Self::wait) is over.
    ///
    /// # Errors
    /// If the kernel refuses to give its events.
    pub fn follow(&mut self) -> Result<(), Unavailable> {
        if self.interval.events == 0 && self.windows.is_empty() && self.lookup.names.count() > MOST_NAMES {
            self.forget_names();
        }
        if self.switch.is_some() && now_ns() >= self.due_ns {
            return if self.opened.is_some() { self.close_or_go_on() } else { self.open() };
        }
        self.follow_until(now_ns())
    }

    /// The time until a window opens or closes; none if events are on all the time.
    pub fn wait(&self) -> Option<Duration> {
        self.switch.as_ref()?;
        Some(Duration::from_nanos(self.due_ns.saturating_sub(now_ns())))
    }

    fn window_ns(&self) -> u64 {
        (self.pace.window_s() * 1e9) as u64
    }

    fn set(&self, on: bool) -> Result<(), Unavailable> {
        let Some(switch) = &self.switch else { return Ok(()) };
        switch.set(on).map_err(|error| Unavailable::of(&self.instance.path("events"), &error))
    }

    /// Opens a window. What is under way is not seen whole, but the calls are that begin while events are switched on.
    fn open(&mut self) -> Result<(), Unavailable> {
        self.forget_events();
        self.set(true)?;
        let mut now = Mark::now();
        self.follow_until(now.time_ns)?;
        self.observer.settle(u64::MAX);
        self.observer.sink = Tally::default();
        self.pace.gap(now.since(self.looked));
        now.cost_s = self.cost_s;
        (self.answered, self.opened, self.looked) = (0, Some(now), now);
        self.due_ns = now.time_ns + self.window_ns();
        Ok(())
    }

    /// Closes the window, unless events may stay on.
    fn close_or_go_on(&mut self) -> Result<(), Unavailable> {
        let mut now = Mark::now();
        self.follow_until(now.time_ns)?;
        now.cost_s = self.cost_s;
        self.pace.window(now.since(self.looked));
        self.looked = now;
        let random = self.numbers.below(1 << 16) as f64 / f64::from(1 << 16);
        let Some(gap_s) = self.pace.gap_s(random) else {
            self.due_ns = now.time_ns + self.window_ns();
            return Ok(());
        };
        self.observer.settle(u64::MAX);
        self.close(now);
        self.opened = None;
        self.set(false)?;
        self.follow_until(now_ns())?;
        self.forget_events();
        self.due_ns = now_ns() + (gap_s * 1e9) as u64;
        Ok(())
    }

    /// Keeps the sums of the window that is open, which ends now.
    fn close(&mut self, now: Mark) {
        let Some(opened) = self.opened else { return };
        self.windows.push(Window {
            totals: std::mem::take(&mut self.observer.sink).totals(),
            answered: std::mem::take(&mut self.answered),
            watched_ns: now.time_ns.saturating_sub(opened.time_ns),
            whole_ns: now.time_ns.saturating_sub(self.closed.time_ns),
            row: changed(opened.row, now.row).unwrap_or(0),
            whole_row: changed(self.closed.row, now.row).unwrap_or(0),
        });
        self.closed = now;
    }

    /// Forgets what is under way, of which not all events are seen.
    fn forget_events(&mut self) {
        let threads = std::mem::take(&mut self.observer.threads);
        self.observer = Observer::new(threads, Tally::default());
        self.answers = Answers::new(self.facts.counted);
    }

    fn follow_until(&mut self, until_ns: u64) -> Result<(), Unavailable> {
        let failed = |error: io::Error| Unavailable::of(&self.instance.path("per_cpu"), &error);
        let (interval, used) = (&mut self.interval, overhead::used());
        let before = interval.events;
        self.events.read_on(&mut self.lookup).map_err(failed)?;
        while let Some(event) = self.events.next(until_ns, &mut self.lookup).map_err(failed)? {
            interval.events += 1;
            self.answered += u64::from(self.answers.add(&event).is_some());
            let asks = matches!(event.kind, Kind::Flush { reason: FlushReason::RemoteSend, .. });
            interval.asked += u64::from(asks);
            self.lifetimes.learn(&event);
            self.observer.add_event(event, &mut self.lookup.names);
        }
        self.cost_s += overhead::used().saturating_sub(used).as_secs_f64();
        self.cost_s += (interval.events - before) as f64 * self.record_ns / 1e9;
        Ok(())
    }

    /// Ends an interval and begins the next. The totals refer to [`names`](Self::names) until the next
    /// call of [`follow`](Self::follow).
    ///
    /// # Errors
    /// If the kernel refuses to give its events.
    pub fn interval(&mut self) -> Result<Interval, Unavailable> {
        let mut now = Mark::now();
        self.follow_until(now.time_ns)?;
        self.observer.settle(now.time_ns.saturating_sub(SENDING_NS));
        self.close(now);
        (now.used, now.cost_s) = (overhead::used(), self.cost_s);
        let mut done = std::mem::take(&mut self.interval);
        (done.began_ns, done.ended_ns) = (self.began.time_ns, now.time_ns);
        done.lost = std::mem::take(&mut self.events.lost);
        done.tlb_row = changed(self.began.row, now.row);
        done.used = now.used.saturating_sub(self.began.used);
        let records = done.events + done.lost.events;
        done.tracing = Duration::from_secs_f64(records as f64 * self.record_ns / 1e9);
        done.take(&std::mem::take(&mut self.windows));
        (self.began, self.closed) = (now, now);
        self.opened = self.opened.map(|_| now);
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

impl Mark {
    /// What happened since another one.
    fn since(self, from: Self) -> Spent {
        Spent {
            seconds: self.time_ns.saturating_sub(from.time_ns) as f64 / 1e9,
            requests: changed(from.row, self.row).unwrap_or(0) as f64,
            cost_s: self.cost_s - from.cost_s,
        }
    }

    /// The counts now, when no events have cost anything yet.
    fn now() -> Self {
        let (time_ns, row) = (now_ns(), interrupts::tlb_sum().ok().flatten());
        Self { time_ns, row, used: overhead::used(), cost_s: 0.0 }
    }
}

/// The change of a number.
fn changed(from: Option<u64>, to: Option<u64>) -> Option<u64> {
    from.zip(to).map(|(from, to)| to.saturating_sub(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(watched_ns: u64, requests: u64, whole_row: u64) -> Window {
        let mut totals = Totals::default();
        (totals.all.requests, totals.all.flushes) = (requests, requests);
        Window { totals, answered: requests, watched_ns, whole_ns: 100, row: requests, whole_row }
    }

    #[test]
    fn only_what_was_not_watched_is_scaled() {
        let of = |tlb_row, windows: &[Window]| {
            let mut interval = Interval { ended_ns: 100, tlb_row, ..Interval::default() };
            interval.take(windows);
            let is_scaled = interval.windows.is_some();
            (interval.totals.all.requests, interval.answered, interval.watched(), is_scaled)
        };
        assert_eq!(of(Some(70), &[window(100, 68, 70)]), (68, 68, 1.0, false));
        assert_eq!(of(None, &[window(100, 68, 0)]), (68, 68, 1.0, false));
        assert_eq!(of(Some(500), &[window(10, 50, 400)]), (500, 500, 0.1, true));
        assert_eq!(of(Some(500), &[]), (0, 0, 0.0, true));
    }
}
