//! Calls of madvise that come later, or not at all: an allocator that keeps pages for a time (jemalloc: `dirty_decay_ms`).
//!
//! A page that is used again in that time, which the recording shows as a fault, stays. When the time of a call is over,
//! it is made for the pages that are left, by the first thread of the process of which there is an event. A call that
//! changes the mapping of waiting pages would flush them, and so does it here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::HashMap;

use crate::events::{Event, Kind, SystemCall};
use crate::recording::Row;
use crate::replay::steps::Flush;
use crate::shootdowns::{pages_of, Pages};

/// The calls that wait.
#[derive(Debug)]
pub(super) struct Decay {
    ns: u64,
    processes: HashMap<u32, Process>,
    calls: u64,
    pages: u64,
    most_pages: u64,
}

/// The calls of a process, by their numbers.
#[derive(Debug, Default)]
struct Process {
    /// The times at which calls are due, in order.
    due: VecDeque<(u64, u64)>,
    flushes: HashMap<u64, Flush>,
    /// The pages that wait, in stretches by their first page: the end, and the call.
    stretches: BTreeMap<u64, (u64, u64)>,
}

impl Process {
    /// The stretches that have one of some pages: first page, end, call. No two stretches overlap.
    fn meeting(&self, pages: Pages) -> Vec<(u64, u64, u64)> {
        let before =
            self.stretches.range(..pages.first).next_back().filter(|(_, (end, _))| *end > pages.first);
        let inside = self.stretches.range(pages.first..pages.end.max(pages.first));
        before.into_iter().chain(inside).map(|(first, (end, call))| (*first, *end, *call)).collect()
    }

    /// Pages do not wait any more. Returns how many of them did.
    fn cut(&mut self, pages: Pages) -> u64 {
        let mut count = 0;
        for (first, end, call) in self.meeting(pages) {
            self.stretches.remove(&first);
            if first < pages.first {
                self.stretches.insert(first, (pages.first, call));
            }
            if pages.end < end {
                self.stretches.insert(pages.end, (end, call));
            }
            count += end.min(pages.end) - first.max(pages.first);
        }
        count
    }

    /// A call is made: its flush and the number of its pages, if there is one left.
    fn make(&mut self, call: u64) -> Option<(Flush, u64)> {
        let flush = self.flushes.remove(&call)?;
        let mut stretches = self.meeting(flush.purge?.pages);
        stretches.retain(|(.., of)| *of == call);
        for (first, ..) in &stretches {
            self.stretches.remove(first);
        }
        let pages = stretches.iter().map(|(first, end, _)| end - first).sum();
        (pages > 0).then_some((flush, pages))
    }

    /// Makes the calls that are due at a time.
    fn make_due(&mut self, now_ns: u64) -> Vec<(Flush, u64)> {
        let count = self.due.iter().take_while(|(due_ns, _)| *due_ns <= now_ns).count();
        let due: Vec<(u64, u64)> = self.due.drain(..count).collect();
        due.into_iter().filter_map(|(_, call)| self.make(call)).collect()
    }
}

impl Decay {
    pub(super) fn new(ns: u64) -> Self {
        Self { ns, processes: HashMap::default(), calls: 0, pages: 0, most_pages: 0 }
    }

    /// The most pages that waited at one time.
    pub(super) fn most_pages(&self) -> u64 {
        self.most_pages
    }

    /// Learns from an event, and returns the flushes that come before it.
    pub(super) fn learn(&mut self, row: &Row) -> Vec<Flush> {
        let Some(process) = self.processes.get_mut(&row.process) else { return Vec::new() };
        let mut made = process.make_due(row.event.time_ns);
        match row.event.kind {
            Kind::Fault { address, .. } => self.pages -= process.cut(pages_of(address, 1)),
            Kind::CallBegan { call, address, bytes, .. } if call != SystemCall::Madvise => {
                let meeting = process.meeting(pages_of(address, bytes));
                let calls: BTreeSet<u64> = meeting.into_iter().map(|(.., call)| call).collect();
                let together: Vec<_> = calls.into_iter().filter_map(|call| process.make(call)).collect();
                let pages = together.iter().map(|(_, pages)| pages).sum();
                made.extend(together.first().map(|(flush, _)| (*flush, pages)));
            }
            _ => {}
        }
        let now = |(flush, pages): (Flush, u64)| {
            self.pages -= pages;
            let Event { cpu, time_ns, .. } = row.event;
            // What other threads did at the time of the recorded call does not count any more.
            Flush { cpu, time_ns, pages: Some(pages), tables: false, ..flush }
        };
        made.into_iter().map(now).collect()
    }

    /// A program flushes. Returns the flush unless it waits.
    pub(super) fn flush(&mut self, flush: Flush) -> Option<Flush> {
        let Some(purge) = flush.purge else { return Some(flush) };
        let process = self.processes.entry(flush.process).or_default();
        self.pages -= process.cut(purge.pages);
        self.calls += 1;
        process.due.push_back((flush.time_ns.saturating_add(self.ns), self.calls));
        process.flushes.insert(self.calls, flush);
        process.stretches.insert(purge.pages.first, (purge.pages.end, self.calls));
        self.pages += purge.pages.end - purge.pages.first;
        self.most_pages = self.most_pages.max(self.pages);
        None
    }

    pub(super) fn ends(&mut self, process: u32) {
        if let Some(process) = self.processes.remove(&process) {
            self.pages -= process.stretches.iter().map(|(first, (end, _))| end - first).sum::<u64>();
        }
    }

    pub(super) fn finish(&mut self) -> Vec<Flush> {
        let made = self.processes.values_mut().flat_map(|process| process.make_due(u64::MAX));
        let mut flushes: Vec<Flush> = made.map(|(flush, _)| flush).collect();
        self.pages = 0;
        // The map has no order.
        flushes.sort_by_key(|flush| flush.time_ns);
        flushes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::testing::{call, fault, purge};

    #[test]
    fn a_page_that_is_used_again_in_time_is_not_given_back() {
        let mut decay = Decay::new(100);
        assert_eq!(decay.flush(purge(0, 5..6)), None);
        assert_eq!(decay.learn(&fault(99, 5)), []);
        assert_eq!(decay.learn(&fault(200, 7)), []);
        assert_eq!(decay.flush(purge(300, 5..6)), None);
        assert_eq!(decay.learn(&fault(400, 5)).len(), 1, "it is due before");
        assert_eq!((decay.pages, decay.most_pages()), (0, 1));
    }

    #[test]
    fn the_pages_that_are_left_are_given_back_by_one_call() {
        let mut decay = Decay::new(100);
        decay.flush(purge(0, 10..20));
        decay.flush(purge(1, 30..32));
        for page in [10, 15, 15, 19, 30, 31] {
            assert_eq!(decay.learn(&fault(50, page)), []);
        }
        let made = decay.learn(&fault(150, 1));
        assert_eq!(
            made.iter().map(|flush| (flush.time_ns, flush.pages)).collect::<Vec<_>>(),
            [(150, Some(7))]
        );
        assert_eq!(decay.most_pages(), 12);
    }

    #[test]
    fn a_call_that_maps_waiting_pages_anew_flushes_them_once() {
        let mut decay = Decay::new(100);
        decay.flush(purge(0, 10..20));
        decay.flush(purge(0, 20..30));
        decay.flush(purge(0, 40..50));
        let made = decay.learn(&call(10, SystemCall::Munmap, 15..25));
        assert_eq!(made.iter().map(|flush| flush.pages).collect::<Vec<_>>(), [Some(20)]);
        assert_eq!(decay.finish().len(), 1);
        decay.flush(purge(0, 10..20));
        decay.ends(7);
        assert_eq!((decay.finish(), decay.pages), (vec![], 0));
    }

    #[test]
    fn pages_that_are_given_back_twice_wait_for_the_second_call() {
        let mut decay = Decay::new(100);
        decay.flush(purge(0, 10..20));
        decay.flush(purge(50, 5..25));
        assert_eq!(decay.learn(&fault(120, 1)), []);
        assert_eq!(decay.learn(&fault(150, 1)).len(), 1);
        assert_eq!(decay.most_pages(), 20);
    }
}
