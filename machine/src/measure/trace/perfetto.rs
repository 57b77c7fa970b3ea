//! The trace in Perfetto's format.
//!
//! The file is a `perfetto.protos.Trace`, a sequence of packets. The messages below have the fields that it needs, with
//! the numbers of Perfetto's published definitions (protos/perfetto/trace at version 51).
//!
//! A slice for the whole run has its circumstances. Below it each CPU has up to three tracks, each described before its
//! first slice: its requests to others, the flushes of its own TLB, and its interrupts with the flushes in them. They
//! are apart because a CPU may ask again before it has all its answers, and may work on before it takes an interrupt
//! that has arrived: their slices would not nest. A flow leads from each request to each interrupt that it sent.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ceasefire::FlushEvent;
use prost::Message;

use super::event::{Event, Format, Lane, Record};
use crate::config::Picoseconds;

/// All packets are one sequence, whose times ascend.
const SEQUENCE: u32 = 1;
/// `ChildTracksOrdering::EXPLICIT`.
const BY_RANK: i32 = 3;
/// `TrackEvent::Type::TYPE_SLICE_BEGIN`.
const BEGIN: i32 = 1;
/// `TrackEvent::Type::TYPE_SLICE_END`.
const END: i32 = 2;
/// The track of the run.
const RUN: u64 = 1;

/// `perfetto.protos.Trace`. A file may be written one packet after the other.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

/// `perfetto.protos.TracePacket`.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    /// In nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// `perfetto.protos.TrackEvent`.
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, tag = "23")]
    name: String,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

/// `perfetto.protos.DebugAnnotation`: an argument of a slice.
#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(string, tag = "10")]
    name: String,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
}

/// `perfetto.protos.TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(int32, tag = "11")]
    child_ordering: i32,
    #[prost(int32, tag = "12")]
    sibling_order_rank: i32,
}

impl DebugAnnotation {
    fn number(name: &str, value: u64) -> Self {
        Self { name: name.to_owned(), uint_value: Some(value), string_value: None }
    }

    fn text(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), uint_value: None, string_value: Some(value.into()) }
    }
}

/// A track of a CPU.
#[derive(Debug, Clone, Copy)]
enum Track {
    Requests,
    Flushes,
    Interrupts,
}

impl Track {
    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Flushes => "flushes",
            Self::Interrupts => "interrupts",
        }
    }

    fn uuid(self, cpu: usize) -> u64 {
        group(cpu) + 1 + self as u64
    }
}

impl From<Lane> for Track {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Flushes => Self::Flushes,
            Lane::Interrupts => Self::Interrupts,
        }
    }
}

/// The track above a CPU's tracks.
fn group(cpu: usize) -> u64 {
    RUN + 1 + 4 * cpu as u64
}

/// The writer of Perfetto's format.
pub(super) struct Perfetto {
    about: Vec<(String, String)>,
    described: BTreeSet<u64>,
}

impl Perfetto {
    pub(super) fn new(about: Vec<(String, String)>) -> Self {
        Self { about, described: BTreeSet::new() }
    }

    fn packet(out: &mut dyn Write, packet: Packet) -> io::Result<()> {
        let packet = Packet { trusted_packet_sequence_id: SEQUENCE, ..packet };
        out.write_all(&File { packet: vec![packet] }.encode_to_vec())
    }

    fn event(out: &mut dyn Write, time: Picoseconds, event: TrackEvent) -> io::Result<()> {
        Self::packet(
            out,
            Packet { timestamp: Some(time / 1000), track_event: Some(event), ..Packet::default() },
        )
    }

    /// Describes a track, unless that was done.
    fn describe(&mut self, out: &mut dyn Write, track: TrackDescriptor) -> io::Result<()> {
        if self.described.insert(track.uuid) {
            let track = TrackDescriptor { child_ordering: BY_RANK, ..track };
            Self::packet(out, Packet { track_descriptor: Some(track), ..Packet::default() })?;
        }
        Ok(())
    }

    fn begin_slice(
        &mut self,
        out: &mut dyn Write,
        (time, cpu, track): (Picoseconds, usize, Track),
        slice: TrackEvent,
    ) -> io::Result<()> {
        let track_uuid = track.uuid(cpu);
        if !self.described.contains(&track_uuid) {
            let descriptor = |uuid, name: String, parent, rank| TrackDescriptor {
                uuid,
                name,
                parent_uuid: Some(parent),
                sibling_order_rank: rank,
                ..TrackDescriptor::default()
            };
            self.describe(out, descriptor(group(cpu), format!("CPU {cpu}"), RUN, i32::from(cpu as u16)))?;
            let name = format!("CPU {cpu} {}", track.name());
            self.describe(out, descriptor(track_uuid, name, group(cpu), track as i32))?;
        }
        let categories = vec![track.name().to_owned()];
        Self::event(out, time, TrackEvent { r#type: BEGIN, track_uuid, categories, ..slice })
    }

    fn end_slice(out: &mut dyn Write, time: Picoseconds, track_uuid: u64) -> io::Result<()> {
        Self::event(out, time, TrackEvent { r#type: END, track_uuid, ..TrackEvent::default() })
    }
}

/// The slice of a flush.
fn slice(FlushEvent { reason, pages, space }: &FlushEvent) -> TrackEvent {
    let pages = match pages {
        Some(pages) => DebugAnnotation::number("pages", u64::from(*pages)),
        None => DebugAnnotation::text("pages", "all"),
    };
    TrackEvent {
        name: reason.name().to_owned(),
        debug_annotations: vec![
            DebugAnnotation::text("reason", reason.name()),
            pages,
            DebugAnnotation::number("space", space.get()),
        ],
        ..TrackEvent::default()
    }
}

impl Format for Perfetto {
    fn begin(&mut self, out: &mut dyn Write, time: Picoseconds) -> io::Result<()> {
        let track = TrackDescriptor { uuid: RUN, name: "run".to_owned(), ..TrackDescriptor::default() };
        self.describe(out, track)?;
        let run = TrackEvent {
            r#type: BEGIN,
            track_uuid: RUN,
            name: "run".to_owned(),
            debug_annotations: self
                .about
                .iter()
                .map(|(name, value)| DebugAnnotation::text(name, value))
                .collect(),
            ..TrackEvent::default()
        };
        Self::event(out, time, run)
    }

    fn record(&mut self, out: &mut dyn Write, record: &Record) -> io::Result<()> {
        let Record { time, cpu, ref event } = *record;
        match event {
            Event::Asks(event, flows) => {
                let mut slice = TrackEvent { flow_ids: flows.clone(), ..slice(event) };
                slice.debug_annotations.push(DebugAnnotation::number("interrupts", flows.len() as u64));
                self.begin_slice(out, (time, cpu, Track::Requests), slice)
            }
            Event::Answered => Self::end_slice(out, time, Track::Requests.uuid(cpu)),
            Event::Flushes(lane, event) => self.begin_slice(out, (time, cpu, (*lane).into()), slice(event)),
            Event::Flushed(lane, _) => Self::end_slice(out, time, Track::from(*lane).uuid(cpu)),
            Event::Interrupted(flows) => {
                let (name, terminating_flow_ids) = ("interrupt".to_owned(), flows.clone());
                let slice = TrackEvent { name, terminating_flow_ids, ..TrackEvent::default() };
                self.begin_slice(out, (time, cpu, Track::Interrupts), slice)
            }
            Event::Returns => Self::end_slice(out, time, Track::Interrupts.uuid(cpu)),
        }
    }

    fn end(&mut self, out: &mut dyn Write, time: Picoseconds) -> io::Result<()> {
        Self::end_slice(out, time, RUN)
    }
}
