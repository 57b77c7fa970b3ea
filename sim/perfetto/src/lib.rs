//! Writes traces in the format of [Perfetto](https://ui.perfetto.dev).
//!
//! A trace is a file of packets (`perfetto.protos.Trace`). A [`Writer`] describes each [`Track`] once, and then begins
//! and ends slices on it, or adds instants and values of a counter. Slices of one track nest: an end is that of the
//! slice that began last. Times ascend over the whole trace. A flow is an arrow from one slice to another. [`Lanes`] are
//! the tracks of CPUs.

mod lanes;
mod message;

use std::collections::BTreeSet;
use std::io::{self, Write};

use prost::Message as _;

pub use lanes::Lanes;
use message::{
    CounterDescriptor, DebugAnnotation, File, Packet, TrackDescriptor, TrackEvent, BEGIN, BY_RANK, COUNTER,
    END, INSTANT, SEQUENCE,
};

/// A track: a line of slices, or of a counter, or the head of other tracks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    /// Its number, unique in the trace and not 0.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The track below which it is shown.
    pub parent: Option<u64>,
    /// Its place among the tracks of that parent.
    pub rank: i32,
    /// Whether it has the values of a counter instead of slices.
    pub is_counter: bool,
}

/// A slice, or an instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// Its category, by which slices can be searched for.
    pub category: Option<String>,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The flows that begin here, by their numbers.
    pub flows: Vec<u64>,
    /// The flows that end here.
    pub ending_flows: Vec<u64>,
}

/// An argument of a slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument(DebugAnnotation);

impl Argument {
    /// A number.
    pub fn number(name: impl Into<String>, value: u64) -> Self {
        Self(DebugAnnotation { name: name.into(), uint_value: Some(value), ..DebugAnnotation::default() })
    }

    /// A number that may be below 0.
    pub fn signed(name: impl Into<String>, value: i64) -> Self {
        Self(DebugAnnotation { name: name.into(), int_value: Some(value), ..DebugAnnotation::default() })
    }

    /// A text.
    pub fn text(name: impl Into<String>, value: impl Into<String>) -> Self {
        let string_value = Some(value.into());
        Self(DebugAnnotation { name: name.into(), string_value, ..DebugAnnotation::default() })
    }
}

/// A writer of one trace. It writes small pieces, so its output should be buffered.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    described: BTreeSet<u64>,
}

impl<W: Write> Writer<W> {
    /// A trace without tracks.
    pub fn new(to: W) -> Self {
        Self { to, described: BTreeSet::new() }
    }

    /// Whether a track was described.
    pub fn is_described(&self, track: u64) -> bool {
        self.described.contains(&track)
    }

    /// Describes a track, unless that was done. A track is described before its first slice, and a parent before its
    /// tracks.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn describe(&mut self, track: Track) -> io::Result<()> {
        let Track { id, name, parent, rank, is_counter } = track;
        if !self.described.insert(id) {
            return Ok(());
        }
        let descriptor = TrackDescriptor {
            uuid: id,
            name,
            parent_uuid: parent,
            counter: is_counter.then_some(CounterDescriptor {}),
            child_ordering: BY_RANK,
            sibling_order_rank: rank,
        };
        self.packet(Packet { track_descriptor: Some(descriptor), ..Packet::default() })
    }

    /// Begins a slice.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn begin(&mut self, time_ns: u64, track: u64, slice: Slice) -> io::Result<()> {
        self.event(time_ns, TrackEvent { r#type: BEGIN, ..of_slice(track, slice) })
    }

    /// Ends the slice that began last on a track. It gets further arguments.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn end(&mut self, time_ns: u64, track: u64, arguments: Vec<Argument>) -> io::Result<()> {
        self.event(
            time_ns,
            TrackEvent { r#type: END, ..of_slice(track, Slice { arguments, ..Slice::default() }) },
        )
    }

    /// Adds an instant: a slice without a length.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn instant(&mut self, time_ns: u64, track: u64, slice: Slice) -> io::Result<()> {
        self.event(time_ns, TrackEvent { r#type: INSTANT, ..of_slice(track, slice) })
    }

    /// Sets a counter, which keeps its value until it is set again.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn count(&mut self, time_ns: u64, track: u64, value: i64) -> io::Result<()> {
        let counter_value = Some(value);
        self.event(
            time_ns,
            TrackEvent { r#type: COUNTER, track_uuid: track, counter_value, ..TrackEvent::default() },
        )
    }

    /// Writes all that is in a buffer.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn event(&mut self, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(Packet { timestamp: Some(time_ns), track_event: Some(event), ..Packet::default() })
    }

    fn packet(&mut self, packet: Packet) -> io::Result<()> {
        let packet = Packet { trusted_packet_sequence_id: SEQUENCE, ..packet };
        self.to.write_all(&File { packet: vec![packet] }.encode_to_vec())
    }
}

fn of_slice(track: u64, slice: Slice) -> TrackEvent {
    let Slice { name, category, arguments, flows, ending_flows } = slice;
    TrackEvent {
        debug_annotations: arguments.into_iter().map(|Argument(annotation)| annotation).collect(),
        track_uuid: track,
        categories: category.into_iter().collect(),
        name,
        flow_ids: flows,
        terminating_flow_ids: ending_flows,
        ..TrackEvent::default()
    }
}
