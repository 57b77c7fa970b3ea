//! Calls of madvise that are made back to back, as one call of `process_madvise`.
//!
//! Since Linux 6.16 such a call flushes once for all its ranges (`madvise_batch_tlb_flush`, mm/madvise.c). A run of calls
//! ends where the program may rely on one of them: its thread leaves the CPU or makes another call that changes
//! mappings, a thread faults on one of the pages, or the ranges are as many as one call takes.

use foldhash::HashMap;

use crate::events::{Kind, SystemCall};
use crate::recording::Row;
use crate::replay::steps::Flush;
use crate::shootdowns::{pages_of, Pages};

/// The most ranges of a call (Linux: `UIO_MAXIOV`).
const RANGES: u64 = 1024;

/// A run of calls.
#[derive(Debug)]
struct Run {
    flush: Flush,
    advice: u64,
    ranges: Vec<Pages>,
    calls: u64,
}

/// The runs that are under way, by thread.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    runs: HashMap<u32, Run>,
}

impl Gathered {
    /// Learns from an event, and returns the flushes of the runs that end before it.
    pub(super) fn learn(&mut self, row: &Row) -> Vec<Flush> {
        if self.runs.is_empty() {
            return Vec::new();
        }
        let thread = row.event.thread;
        let ended: Vec<u32> = match row.event.kind {
            Kind::CallBegan { call, address, bytes, flags } => {
                let own = self.runs.get_mut(&thread);
                let continues = own.is_some_and(|run| {
                    run.calls += 1;
                    call == SystemCall::Madvise && flags == run.advice && run.calls <= RANGES
                });
                let pages = pages_of(address, bytes);
                let is_hit = |(of, run): (&u32, &Run)| {
                    let ends = if *of == thread { !continues } else { run.holds(row.process, pages) };
                    ends.then_some(*of)
                };
                self.runs.iter().filter_map(is_hit).collect()
            }
            Kind::Fault { address, .. } => {
                let pages = pages_of(address, 1);
                let is_hit = |(of, run): (&u32, &Run)| run.holds(row.process, pages).then_some(*of);
                self.runs.iter().filter_map(is_hit).collect()
            }
            Kind::Switch { .. } | Kind::ThreadEnded => vec![thread],
            _ => Vec::new(),
        };
        let mut due: Vec<Flush> =
            ended.iter().filter_map(|of| self.runs.remove(of)).map(|run| run.flush).collect();
        // The map has no order.
        due.sort_by_key(|flush| flush.time_ns);
        due
    }

    /// A program flushes. Returns the flush unless it waits.
    pub(super) fn flush(&mut self, flush: Flush) -> Option<Flush> {
        let Some(purge) = flush.purge else { return Some(flush) };
        let new = || Run {
            flush: Flush { pages: Some(0), tables: false, ..flush },
            advice: purge.advice,
            ranges: Vec::new(),
            calls: 1,
        };
        let run = self.runs.entry(flush.thread).or_insert_with(new);
        let pages = run.flush.pages.zip(flush.pages).map(|(before, pages)| before.saturating_add(pages));
        let tables = run.flush.tables || flush.tables;
        run.flush = Flush { pages, tables, ..flush };
        run.ranges.push(purge.pages);
        None
    }

    pub(super) fn ends(&mut self, process: u32) {
        self.runs.retain(|_, run| run.flush.process != process);
    }

    pub(super) fn finish(&mut self) -> Vec<Flush> {
        let mut due: Vec<Flush> = self.runs.drain().map(|(_, run)| run.flush).collect();
        due.sort_by_key(|flush| flush.time_ns);
        due
    }
}

impl Run {
    /// Whether it gives back one of the pages of a process.
    fn holds(&self, process: u32, pages: Pages) -> bool {
        self.flush.process == process && self.ranges.iter().any(|range| range.meets(pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::testing::{call, fault, purge, switch};

    /// So many calls back to back, of a page each.
    fn calls(gathered: &mut Gathered, count: u64) -> Vec<Flush> {
        let mut flushed = Vec::new();
        for page in 0..count {
            flushed.extend(gathered.learn(&call(page, SystemCall::Madvise, page..page + 1)));
            flushed.extend(gathered.flush(purge(page, page..page + 1)));
        }
        flushed
    }

    #[test]
    fn a_run_ends_where_the_thread_sleeps_or_maps_or_a_page_is_used() {
        let others = [fault(20, 99), call(20, SystemCall::Madvise, 99..100)];
        let ends = [fault(20, 3), call(20, SystemCall::Munmap, 99..100), switch(20)];
        for (rows, count) in [(others.as_slice(), 0), (&ends[..1], 1), (&ends[1..2], 1), (&ends[2..], 1)] {
            let mut gathered = Gathered::default();
            assert_eq!(calls(&mut gathered, 10), []);
            let flushed: Vec<Flush> = rows.iter().flat_map(|row| gathered.learn(row)).collect();
            assert_eq!(flushed.len(), count, "{rows:?}");
            assert!(flushed.iter().all(|flush| flush.pages == Some(10)), "{flushed:?}");
            assert_eq!(gathered.finish().len(), 1 - count);
        }
    }

    #[test]
    fn a_call_takes_so_many_ranges_and_no_more() {
        let mut gathered = Gathered::default();
        assert_eq!(calls(&mut gathered, RANGES), []);
        assert_eq!(calls(&mut gathered, 1).len(), 1);
    }

    #[test]
    fn a_run_frees_page_tables_if_one_of_its_calls_does() {
        for freeing in 0..3 {
            let mut gathered = Gathered::default();
            for page in 0..3 {
                gathered.flush(Flush { tables: page == freeing, ..purge(page, page..page + 1) });
            }
            assert!(gathered.finish()[0].tables, "{freeing}");
        }
        let mut gathered = Gathered::default();
        calls(&mut gathered, 3);
        assert!(!gathered.finish()[0].tables);
    }

    #[test]
    fn a_second_flush_of_a_call_is_done_as_it_was() {
        let mut gathered = Gathered::default();
        let second = Flush { purge: None, ..purge(1, 0..1) };
        assert_eq!((gathered.flush(purge(0, 0..1)), gathered.flush(second)), (None, Some(second)));
    }
}
