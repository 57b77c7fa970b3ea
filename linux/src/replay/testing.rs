//! Events of thread 7, the only one of process 7.

use std::ops::Range;

use crate::events::{Event, Kind, Names, SystemCall};
use crate::recording::Row;
use crate::replay::steps::Flush;
use crate::shootdowns::{Cause, Pages, Purge, DONTNEED};

fn row(time_ns: u64, kind: Kind) -> Row {
    let program = Names::default().add("program");
    Row { event: Event { time_ns, cpu: 0, thread: 7, kind }, process: 7, program }
}

/// It faults on a page.
pub(super) fn fault(time_ns: u64, page: u64) -> Row {
    row(time_ns, Kind::Fault { address: page << 12, code: 6 })
}

/// It leaves the CPU.
pub(super) fn switch(time_ns: u64) -> Row {
    row(time_ns, Kind::Switch { next: 0 })
}

/// It makes a call about pages.
pub(super) fn call(time_ns: u64, call: SystemCall, pages: Range<u64>) -> Row {
    let (address, bytes) = (pages.start << 12, (pages.end - pages.start) << 12);
    row(time_ns, Kind::CallBegan { call, address, bytes, flags: DONTNEED })
}

/// It flushes pages that it gives back.
pub(super) fn purge(time_ns: u64, pages: Range<u64>) -> Flush {
    let purge = Purge { advice: DONTNEED, pages: Pages { first: pages.start, end: pages.end } };
    let count = Some(pages.end - pages.start);
    Flush {
        cpu: 0,
        thread: 7,
        process: 7,
        pages: count,
        tables: false,
        cause: Cause::Madvise,
        time_ns,
        purge: Some(purge),
    }
}
