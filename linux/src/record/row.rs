//! Compares the interrupts of a recording with the TLB row of `/proc/interrupts`.
//!
//! The row is read several times at the beginning and several times at the end, while events are recorded already or
//! still. A reading during which no handler ran says exactly how many had run. Two such readings bound the part of the
//! recording of which the row's change must equal the events.

use std::collections::HashMap;

use crate::events::{Event, Kind, Work};
use crate::recording::Count;

/// A reading of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The time before it.
    pub(super) before_ns: u64,
    /// The time after it.
    pub(super) after_ns: u64,
    /// The sum of the row, if the kernel has it.
    pub(super) sum: Option<u64>,
}

/// Counts handlers up to each reading.
#[derive(Debug)]
pub(super) struct Counter {
    readings: Vec<Reading>,
    /// The handlers that ended before each reading, and those that ran during it.
    counts: Vec<(u64, u64)>,
    /// The number of readings whose counts are complete.
    passed: usize,
    handlers: u64,
    running: HashMap<u32, u64>,
    count: Count,
}

/// The comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Compared {
    /// The handlers between two readings.
    pub(super) interrupts: u64,
    /// The row's change between them.
    pub(super) row: Option<u64>,
    /// The handlers that ran during the readings.
    pub(super) unsure: u64,
}

impl Counter {
    /// A count for readings in the order of time.
    pub(super) fn new(readings: Vec<Reading>, count: Count) -> Self {
        let counts = vec![(0, 0); readings.len()];
        Self { readings, counts, passed: 0, handlers: 0, running: HashMap::new(), count }
    }

    /// Counts an event.
    pub(super) fn add(&mut self, event: &Event) {
        if let (Count::Sent, Kind::HandlerBegan { work: Work::Flush, .. }) = (self.count, event.kind) {
            self.running.insert(event.cpu, event.time_ns);
        }
        if !self.count.counts(&event.kind) {
            return;
        }
        let began = self.running.remove(&event.cpu).unwrap_or(event.time_ns);
        self.pass(event.time_ns);
        self.handlers += 1;
        for (reading, counts) in self.readings.iter().zip(&mut self.counts).take(self.passed + 1).rev() {
            if reading.after_ns < began {
                break;
            }
            if reading.before_ns <= event.time_ns {
                counts.1 += 1;
            }
        }
    }

    /// Notes the count for the readings that began before `now_ns`.
    fn pass(&mut self, now_ns: u64) {
        while self.readings.get(self.passed).is_some_and(|reading| reading.before_ns < now_ns) {
            self.counts[self.passed].0 = self.handlers;
            self.passed += 1;
        }
    }

    /// Compares one of the first `first` readings with one of the others: those with the fewest handlers.
    pub(super) fn compare(mut self, first: usize) -> Compared {
        self.pass(u64::MAX);
        let (start, end) = self.counts.split_at(first.min(self.counts.len()));
        // Of equal ones the last at the beginning and the first at the end: least lies between.
        let start = start.iter().enumerate().rev().min_by_key(|(_, (_, during))| *during);
        let end = end.iter().enumerate().min_by_key(|(_, (_, during))| *during);
        let (Some((start, at_start)), Some((end, at_end))) = (start, end) else { return Compared::default() };
        let sums = (self.readings[start].sum, self.readings[first + end].sum);
        Compared {
            interrupts: at_end.0.saturating_sub(at_start.0),
            row: sums.0.zip(sums.1).map(|(start, end)| end.saturating_sub(start)),
            unsure: at_start.1 + at_end.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::FlushReason;

    fn reading(before_ns: u64, after_ns: u64, sum: u64) -> Reading {
        Reading { before_ns, after_ns, sum: Some(sum) }
    }

    fn handler(counter: &mut Counter, cpu: u32, began: u64, ended: u64) {
        for (time_ns, kind) in [
            (began, Kind::HandlerBegan { work: Work::Flush, call: 0 }),
            (ended, Kind::HandlerEnded { work: Work::Flush, call: 0 }),
        ] {
            counter.add(&Event { time_ns, cpu, thread: 0, kind });
        }
    }

    #[test]
    fn readings_without_handlers_bound_the_count() {
        let readings =
            vec![reading(10, 20, 100), reading(30, 40, 101), reading(90, 100, 103), reading(110, 120, 104)];
        let mut counter = Counter::new(readings, Count::Sent);
        // It runs during the first reading, which may have counted it or not.
        handler(&mut counter, 0, 15, 25);
        handler(&mut counter, 1, 50, 55);
        handler(&mut counter, 0, 60, 65);
        // It runs during the third reading.
        handler(&mut counter, 1, 95, 105);
        assert_eq!(counter.compare(2), Compared { interrupts: 3, row: Some(3), unsure: 0 });
    }

    #[test]
    fn handlers_during_every_reading_make_the_count_unsure() {
        let mut counter = Counter::new(vec![reading(10, 20, 100), reading(90, 100, 103)], Count::Sent);
        handler(&mut counter, 0, 5, 15);
        handler(&mut counter, 0, 50, 55);
        handler(&mut counter, 0, 95, 98);
        let compared = counter.compare(1);
        assert_eq!((compared.row, compared.unsure), (Some(3), 2));
        assert!(compared.interrupts.abs_diff(3) <= compared.unsure);
    }

    #[test]
    fn a_flush_is_counted_where_there_are_no_handlers() {
        let mut counter = Counter::new(vec![reading(10, 20, 0), reading(90, 100, 1)], Count::Flushed);
        for (time_ns, reason) in [(50, FlushReason::RemoteShootdown), (60, FlushReason::RemoteSend)] {
            counter.add(&Event { time_ns, cpu: 0, thread: 0, kind: Kind::Flush { reason, pages: None } });
        }
        assert_eq!(counter.compare(1), Compared { interrupts: 1, row: Some(1), unsure: 0 });
    }
}
