//! What a kernel did: the events of a recording, and how they are made from the kernel's records.
//!
//! `event` says what there is, and `source` from which tracepoints it comes. `decode` reads records. `names` keeps names.

mod decode;
mod event;
mod names;
mod source;

pub use decode::{level_of, Decoder, Wanted};
pub use event::{Event, FlushReason, Kind, LockKind, MigrationReason, Spelled, SystemCall, Work};
pub(crate) use event::{PAGE_SHIFT, TABLE_SHIFT};
pub use names::{Name, Names};
pub use source::{Level, Lookup, Source, SOURCES};
