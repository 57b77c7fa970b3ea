//! The messages of Perfetto's format, with the fields that the writer needs.
//!
//! The numbers are those of Perfetto's published definitions (protos/perfetto/trace at version 51).

use prost::Message;

/// All packets are one sequence, whose times ascend.
pub(crate) const SEQUENCE: u32 = 1;
/// `ChildTracksOrdering::EXPLICIT`.
pub(crate) const BY_RANK: i32 = 3;
/// `TrackEvent::Type::TYPE_SLICE_BEGIN`.
pub(crate) const BEGIN: i32 = 1;
/// `TrackEvent::Type::TYPE_SLICE_END`.
pub(crate) const END: i32 = 2;
/// `TrackEvent::Type::TYPE_INSTANT`.
pub(crate) const INSTANT: i32 = 3;
/// `TrackEvent::Type::TYPE_COUNTER`.
pub(crate) const COUNTER: i32 = 4;

/// `perfetto.protos.Trace`. A file may be written one packet after the other.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct File {
    #[prost(message, repeated, tag = "1")]
    pub(crate) packet: Vec<Packet>,
}

/// `perfetto.protos.TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    /// In nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(crate) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(crate) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    pub(crate) track_descriptor: Option<TrackDescriptor>,
}

/// `perfetto.protos.TrackEvent`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(crate) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    pub(crate) r#type: i32,
    #[prost(uint64, tag = "11")]
    pub(crate) track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub(crate) categories: Vec<String>,
    #[prost(string, tag = "23")]
    pub(crate) name: String,
    #[prost(int64, optional, tag = "30")]
    pub(crate) counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(crate) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(crate) terminating_flow_ids: Vec<u64>,
}

/// `perfetto.protos.DebugAnnotation`: an argument of a slice.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DebugAnnotation {
    #[prost(string, tag = "10")]
    pub(crate) name: String,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(crate) int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(crate) string_value: Option<String>,
}

/// `perfetto.protos.TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(crate) uuid: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(crate) counter: Option<CounterDescriptor>,
    #[prost(int32, tag = "11")]
    pub(crate) child_ordering: i32,
    #[prost(int32, tag = "12")]
    pub(crate) sibling_order_rank: i32,
}

/// `perfetto.protos.CounterDescriptor`. Its presence makes a track one of a counter.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct CounterDescriptor {}
