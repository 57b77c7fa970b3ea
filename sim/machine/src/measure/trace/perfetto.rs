//! The trace in Perfetto's format.
//!
//! A slice for the whole run has its circumstances. Below it each CPU has up to three tracks, each described before its
//! first slice: its requests to others, the flushes of its own TLB, and its interrupts with the flushes in them. They
//! are apart because a CPU may ask again before it has all its answers, and may work on before it takes an interrupt
//! that has arrived: their slices would not nest. A flow leads from each request to each interrupt that it sent.

use std::io::{self, Write};

use ceasefire::FlushEvent;
use ceasefire_perfetto::{Argument, Lanes, Slice, Track, Writer};

use super::event::{Event, Format, Lane, Record};
use crate::config::Picoseconds;

/// The track of the run.
const RUN: u64 = 1;

/// A kind of track of a CPU.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Requests,
    Flushes,
    Interrupts,
}

/// The tracks of CPUs, in the order of [`Kind`].
const LANES: Lanes =
    Lanes { parent: RUN, first: RUN + 1, rank: 0, names: &["requests", "flushes", "interrupts"] };

impl Kind {
    fn name(self) -> &'static str {
        LANES.names[self as usize]
    }

    fn track(self, cpu: usize) -> u64 {
        LANES.track(cpu as u64, self as usize)
    }
}

impl From<Lane> for Kind {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Flushes => Self::Flushes,
            Lane::Interrupts => Self::Interrupts,
        }
    }
}

/// The time as a trace has it, in nanoseconds.
fn ns(time: Picoseconds) -> u64 {
    time / 1000
}

/// The writer of Perfetto's format.
pub(super) struct Perfetto<W> {
    about: Vec<(String, String)>,
    writer: Writer<W>,
}

impl<W: Write> Perfetto<W> {
    pub(super) fn new(out: W, about: Vec<(String, String)>) -> Self {
        Self { about, writer: Writer::new(out) }
    }

    fn begin_slice(&mut self, (time, cpu, kind): (Picoseconds, usize, Kind), slice: Slice) -> io::Result<()> {
        let id = LANES.describe(&mut self.writer, cpu as u64, kind as usize)?;
        self.writer.begin(ns(time), id, Slice { category: Some(kind.name().to_owned()), ..slice })
    }

    fn end_slice(&mut self, time: Picoseconds, track: u64) -> io::Result<()> {
        self.writer.end(ns(time), track, Vec::new())
    }
}

/// The slice of a flush.
fn slice(FlushEvent { reason, pages, space }: &FlushEvent) -> Slice {
    let pages = match pages {
        Some(pages) => Argument::number("pages", u64::from(*pages)),
        None => Argument::text("pages", "all"),
    };
    Slice {
        name: reason.name().to_owned(),
        arguments: vec![
            Argument::text("reason", reason.name()),
            pages,
            Argument::number("space", space.get()),
        ],
        ..Slice::default()
    }
}

impl<W: Write> Format for Perfetto<W> {
    fn begin(&mut self, time: Picoseconds) -> io::Result<()> {
        self.writer.describe(Track { id: RUN, name: "run".to_owned(), ..Track::default() })?;
        let run = Slice {
            name: "run".to_owned(),
            arguments: self.about.iter().map(|(name, value)| Argument::text(name, value)).collect(),
            ..Slice::default()
        };
        self.writer.begin(ns(time), RUN, run)
    }

    fn record(&mut self, record: &Record) -> io::Result<()> {
        let Record { time, cpu, ref event } = *record;
        match event {
            Event::Asks(event, flows) => {
                let mut slice = Slice { flows: flows.clone(), ..slice(event) };
                slice.arguments.push(Argument::number("interrupts", flows.len() as u64));
                self.begin_slice((time, cpu, Kind::Requests), slice)
            }
            Event::Answered => self.end_slice(time, Kind::Requests.track(cpu)),
            Event::Flushes(lane, event) => self.begin_slice((time, cpu, (*lane).into()), slice(event)),
            Event::Flushed(lane, _) => self.end_slice(time, Kind::from(*lane).track(cpu)),
            Event::Interrupted(flows) => {
                let (name, ending_flows) = ("interrupt".to_owned(), flows.clone());
                let slice = Slice { name, ending_flows, ..Slice::default() };
                self.begin_slice((time, cpu, Kind::Interrupts), slice)
            }
            Event::Returns => self.end_slice(time, Kind::Interrupts.track(cpu)),
        }
    }

    fn end(&mut self, time: Picoseconds) -> io::Result<()> {
        self.end_slice(time, RUN)?;
        self.writer.flush()
    }
}
