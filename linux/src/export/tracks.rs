//! The tracks of a trace: one of the run, one of the rate of requests, and two lanes for each CPU.

use std::io::{self, Write};

use ceasefire_perfetto::{Argument, Lanes, Slice, Track, Writer};

/// The track of the run, and that of the rate.
const RUN: u64 = 1;
const RATE: u64 = 2;

/// A lane of a CPU.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    /// What it runs.
    Threads,
    /// The handlers of its interrupts, between whose beginning and end it runs nothing else.
    Interrupts,
}

/// The lanes of CPUs, in the order of [`Lane`]. They come after the counter.
const LANES: Lanes = Lanes { parent: RUN, first: RATE + 1, rank: 1, names: &["threads", "interrupts"] };

/// Writes the slices of tracks, and describes each track before its first one.
#[derive(Debug)]
pub(super) struct Tracks<W> {
    writer: Writer<W>,
}

impl<W: Write> Tracks<W> {
    pub(super) fn new(to: W) -> Self {
        Self { writer: Writer::new(to) }
    }

    /// Begins the slice of the run.
    pub(super) fn begin_run(&mut self, time_ns: u64, arguments: Vec<Argument>) -> io::Result<()> {
        self.writer.describe(Track { id: RUN, name: "run".to_owned(), ..Track::default() })?;
        let name = "requests/s".to_owned();
        self.writer.describe(Track { id: RATE, name, parent: Some(RUN), rank: 0, is_counter: true })?;
        self.writer.count(time_ns, RATE, 0)?;
        self.writer.begin(time_ns, RUN, Slice { name: "run".to_owned(), arguments, ..Slice::default() })
    }

    /// Ends the slice of the run, and the trace.
    pub(super) fn end_run(&mut self, time_ns: u64, arguments: Vec<Argument>) -> io::Result<()> {
        self.writer.end(time_ns, RUN, arguments)?;
        self.writer.flush()
    }

    /// Sets the rate of requests.
    pub(super) fn rate(&mut self, time_ns: u64, rate: u64) -> io::Result<()> {
        self.writer.count(time_ns, RATE, rate.cast_signed())
    }

    pub(super) fn begin(&mut self, time_ns: u64, cpu: u32, lane: Lane, slice: Slice) -> io::Result<()> {
        let track = self.describe(cpu, lane)?;
        self.writer.begin(time_ns, track, in_lane(lane, slice))
    }

    pub(super) fn end(
        &mut self,
        time_ns: u64,
        cpu: u32,
        lane: Lane,
        arguments: Vec<Argument>,
    ) -> io::Result<()> {
        self.writer.end(time_ns, LANES.track(cpu.into(), lane as usize), arguments)
    }

    pub(super) fn instant(&mut self, time_ns: u64, cpu: u32, lane: Lane, slice: Slice) -> io::Result<()> {
        let track = self.describe(cpu, lane)?;
        self.writer.instant(time_ns, track, in_lane(lane, slice))
    }

    fn describe(&mut self, cpu: u32, lane: Lane) -> io::Result<u64> {
        LANES.describe(&mut self.writer, cpu.into(), lane as usize)
    }
}

fn in_lane(lane: Lane, slice: Slice) -> Slice {
    Slice { category: Some(LANES.names[lane as usize].to_owned()), ..slice }
}
