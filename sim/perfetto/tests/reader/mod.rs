//! Reads a trace without knowledge of the messages that were written. Tests of other crates read with it too.

// Every test binary uses a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;

use protobuf::well_known_types::empty::Empty;
use protobuf::{Message, UnknownFields, UnknownValueRef};

/// The fields of a message, by number, without knowledge of the messages that were written.
pub(crate) struct Fields(UnknownFields);

impl Fields {
    fn of(bytes: &[u8]) -> Self {
        let message = Empty::parse_from_bytes(bytes).expect("a protobuf message");
        Self(message.special_fields.unknown_fields().clone())
    }

    fn all(&self, number: u32) -> Vec<UnknownValueRef<'_>> {
        self.0.iter().filter(|(found, _)| *found == number).map(|(_, value)| value).collect()
    }

    fn number(&self, number: u32) -> Option<u64> {
        self.all(number).first().map(|value| match value {
            UnknownValueRef::Varint(value) => *value,
            other => panic!("field {number} is {other:?}"),
        })
    }

    fn bytes(&self, number: u32) -> Vec<&[u8]> {
        let bytes = |value| match value {
            UnknownValueRef::LengthDelimited(bytes) => bytes,
            other => panic!("field {number} is {other:?}"),
        };
        self.all(number).into_iter().map(bytes).collect()
    }

    fn text(&self, number: u32) -> String {
        let text = self.bytes(number).first().map(|bytes| bytes.to_vec());
        String::from_utf8(text.unwrap_or_default()).expect("UTF-8")
    }

    fn fixed(&self, number: u32) -> Vec<u64> {
        let fixed = |value| match value {
            UnknownValueRef::Fixed64(value) => value,
            other => panic!("field {number} is {other:?}"),
        };
        self.all(number).into_iter().map(fixed).collect()
    }
}

/// A slice, with its times in nanoseconds. An instant ends when it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slice {
    pub(crate) track: u64,
    pub(crate) name: String,
    pub(crate) is_instant: bool,
    /// The number of slices of its track in which it lies.
    pub(crate) depth: usize,
    pub(crate) begins: u64,
    pub(crate) ends: Option<u64>,
    /// Those of its beginning and of its end.
    pub(crate) arguments: BTreeMap<String, String>,
    pub(crate) flows_out: Vec<u64>,
    pub(crate) flows_in: Vec<u64>,
}

/// A trace as Perfetto's reader understands it. The numbers of fields are those of its published definitions:
/// `Trace.packet` 1; `TracePacket.timestamp` 8, `trusted_packet_sequence_id` 10, `track_event` 11, `track_descriptor`
/// 60; `TrackDescriptor.uuid` 1, `name` 2, `parent_uuid` 5, `counter` 8; `TrackEvent.debug_annotations` 4, `type` 9 (1
/// begins a slice, 2 ends one, 3 is an instant, 4 a counter), `track_uuid` 11, `name` 23, `counter_value` 30, `flow_ids`
/// 47, `terminating_flow_ids` 48; `DebugAnnotation.name` 10, `uint_value` 3, `int_value` 4, `string_value` 6.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The name and the parent of each track.
    pub(crate) tracks: BTreeMap<u64, (String, Option<u64>)>,
    pub(crate) slices: Vec<Slice>,
    /// The times and the values of each counter.
    pub(crate) counters: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Panics
    /// If its times do not ascend, if a track is described twice or too late, or if a slice ends that did not begin.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut trace = Self::default();
        let (mut last, mut open) = (0, BTreeMap::<u64, Vec<usize>>::new());
        for packet in Fields::of(bytes).bytes(1) {
            let packet = Fields::of(packet);
            assert_eq!(packet.number(10), Some(1), "one sequence");
            for descriptor in packet.bytes(60).into_iter().map(Fields::of) {
                let uuid = descriptor.number(1).expect("a track has a number");
                let before = trace.tracks.insert(uuid, (descriptor.text(2), descriptor.number(5)));
                assert_eq!(before, None, "a track is described once");
                if !descriptor.bytes(8).is_empty() {
                    trace.counters.insert(uuid, Vec::new());
                }
            }
            for event in packet.bytes(11).into_iter().map(Fields::of) {
                let time = packet.number(8).expect("an event has a time");
                assert!(time >= last, "{time} after {last}");
                last = time;
                let uuid = event.number(11).expect("an event has a track");
                assert!(trace.tracks.contains_key(&uuid), "a track is described before its first event");
                let kind = event.number(9).expect("an event has a type");
                if kind == 4 {
                    let values = trace.counters.get_mut(&uuid).expect("the track is a counter's");
                    values.push((time, event.number(30).expect("a value")));
                    continue;
                }
                assert!(!trace.counters.contains_key(&uuid), "a counter has no slices");
                let stack = open.entry(uuid).or_default();
                match kind {
                    1 | 3 => {
                        let is_instant = kind == 3;
                        let ends = is_instant.then_some(time);
                        let slice = Slice {
                            track: uuid,
                            name: event.text(23),
                            is_instant,
                            depth: stack.len(),
                            begins: time,
                            ends,
                            arguments: arguments(&event),
                            flows_out: event.fixed(47),
                            flows_in: event.fixed(48),
                        };
                        if !is_instant {
                            stack.push(trace.slices.len());
                        }
                        trace.slices.push(slice);
                    }
                    2 => {
                        let slice = &mut trace.slices[stack.pop().expect("a slice that ends has begun")];
                        slice.ends = Some(time);
                        slice.arguments.extend(arguments(&event));
                    }
                    other => panic!("an event of type {other}"),
                }
            }
        }
        trace
    }

    /// The slices on the tracks of one kind, each with its CPU.
    pub(crate) fn on(&self, kind: &str) -> Vec<(u16, &Slice)> {
        let cpu = |slice: &Slice| {
            let name = self.tracks[&slice.track].0.strip_prefix("CPU ")?.strip_suffix(kind)?;
            name.trim().parse::<u16>().ok()
        };
        self.slices.iter().filter_map(|slice| Some((cpu(slice)?, slice))).collect()
    }
}

fn arguments(event: &Fields) -> BTreeMap<String, String> {
    let argument = |bytes: &[u8]| {
        let fields = Fields::of(bytes);
        let signed = |number: u64| number.cast_signed().to_string();
        let value = fields.number(3).map(|number| number.to_string()).or(fields.number(4).map(signed));
        (fields.text(10), value.unwrap_or_else(|| fields.text(6)))
    };
    event.bytes(4).into_iter().map(argument).collect()
}
