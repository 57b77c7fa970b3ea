//! Compares the requests of a recording with the TLB row of `/proc/interrupts`.
//!
//! The row is read several times at the beginning and several times at the end, while events are recorded already or
//! still. A reading during which no handler ran says exactly how many had run. Two such readings bound the part of the
//! recording of which the row's change must equal the events.

use crate::events::Event;
use crate::recording::Count;
use crate::shootdowns::{Answered, Answers};

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

/// Counts answered requests up to each reading.
#[derive(Debug)]
pub(super) struct Counter {
    readings: Vec<Reading>,
    /// The requests that were answered between the reading before and each reading, and those during it.
    counts: Vec<(u64, u64)>,
    answers: Answers,
}

/// The comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Compared {
    /// The requests that were answered between two readings.
    pub(super) requests: u64,
    /// The row's change between them.
    pub(super) row: Option<u64>,
    /// The requests that were answered during the readings.
    pub(super) unsure: u64,
    /// Requests, of all, without events of their handler.
    pub(super) unseen: u64,
    /// Those without an event where they were sent.
    pub(super) unsent: u64,
}

impl Counter {
    /// A count for readings in the order of time.
    pub(super) fn new(readings: Vec<Reading>, count: Count) -> Self {
        let counts = vec![(0, 0); readings.len()];
        Self { readings, counts, answers: Answers::new(count) }
    }

    /// Counts an event.
    pub(super) fn add(&mut self, event: &Event) {
        if let Some(answered) = self.answers.add(event) {
            self.count(answered);
        }
    }

    fn count(&mut self, answered: Answered) {
        let after = self.readings.partition_point(|reading| reading.before_ns <= answered.to_ns);
        if let Some(counts) = self.counts.get_mut(after) {
            counts.0 += 1;
        }
        for (reading, counts) in self.readings.iter().zip(&mut self.counts).take(after).rev() {
            if reading.after_ns < answered.from_ns {
                break;
            }
            counts.1 += 1;
        }
    }

    /// Compares one of the first `first` readings with one of the others: those with the fewest answers.
    pub(super) fn compare(mut self, first: usize) -> Compared {
        for answered in self.answers.finish() {
            self.count(answered);
        }
        let (start, end) = self.counts.split_at(first.min(self.counts.len()));
        // Of equal ones the last at the beginning and the first at the end: least lies between.
        let start = start.iter().enumerate().rev().min_by_key(|(_, (_, during))| *during);
        let end = end.iter().enumerate().min_by_key(|(_, (_, during))| *during);
        let (Some((start, at_start)), Some((end, at_end))) = (start, end) else { return Compared::default() };
        let end = first + end;
        let sums = (self.readings[start].sum, self.readings[end].sum);
        Compared {
            requests: self.counts[start + 1..=end].iter().map(|(answered, _)| answered).sum(),
            row: sums.0.zip(sums.1).map(|(start, end)| end.saturating_sub(start)),
            unsure: at_start.1 + at_end.1,
            unseen: self.answers.unseen,
            unsent: self.answers.unsent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{FlushReason, Kind, Names, Work};

    fn reading(before_ns: u64, after_ns: u64, sum: u64) -> Reading {
        Reading { before_ns, after_ns, sum: Some(sum) }
    }

    fn handler(counter: &mut Counter, cpu: u32, began: u64, ended: u64) {
        let site = Names::default().add("site");
        for (time_ns, kind) in [
            (began, Kind::Sent { target: cpu, work: Work::Flush, call: 0, site }),
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
        assert_eq!(counter.compare(2), Compared { requests: 3, row: Some(3), ..Compared::default() });
    }

    #[test]
    fn handlers_during_every_reading_make_the_count_unsure() {
        let mut counter = Counter::new(vec![reading(10, 20, 100), reading(90, 100, 103)], Count::Sent);
        handler(&mut counter, 0, 5, 15);
        handler(&mut counter, 0, 50, 55);
        handler(&mut counter, 0, 95, 98);
        let compared = counter.compare(1);
        assert_eq!((compared.row, compared.unsure), (Some(3), 2));
        assert!(compared.requests.abs_diff(3) <= compared.unsure);
    }

    #[test]
    fn a_flush_is_counted_where_there_are_no_handlers() {
        let mut counter = Counter::new(vec![reading(10, 20, 0), reading(90, 100, 1)], Count::Flushed);
        for (time_ns, reason) in [(50, FlushReason::RemoteShootdown), (60, FlushReason::RemoteSend)] {
            counter.add(&Event { time_ns, cpu: 0, thread: 0, kind: Kind::Flush { reason, pages: None } });
        }
        assert_eq!(counter.compare(1), Compared { requests: 1, row: Some(1), ..Compared::default() });
    }

    #[test]
    fn requests_whose_handler_has_no_events_count_where_they_were_sent() {
        let site = Names::default().add("site");
        let mut counter = Counter::new(vec![reading(10, 20, 100), reading(90, 100, 103)], Count::Sent);
        for (time_ns, call) in [(5, 1), (50, 1), (60, 2), (95, 2), (110, 1)] {
            let kind = Kind::Sent { target: 1, work: Work::Flush, call, site };
            counter.add(&Event { time_ns, cpu: 0, thread: 0, kind });
        }
        let compared = counter.compare(1);
        assert_eq!((compared.requests, compared.unsure, compared.unseen), (2, 1, 5));
    }
}
