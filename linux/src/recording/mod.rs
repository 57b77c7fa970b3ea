//! Recordings: files of events.
//!
//! A recording is a Parquet file with one row for each event, in the order of time. `columns` says what the columns
//! mean, `facts` what the file says about the machine and the recording as a whole. `write` and `read` stream, so a
//! recording may be longer than the memory. `anonymous` takes out what names the programs of the machine.

mod anonymous;
mod columns;
mod error;
mod facts;
mod read;
mod rows;
mod words;
mod write;
mod zstd;

pub use anonymous::anonymize;
pub use columns::{Column, COLUMNS};
pub use error::RecordingError;
pub(crate) use facts::TRACE_DAT;
pub use facts::{Count, Facts, Foreign, Loss};
pub use read::Recording;
pub(crate) use read::MOST_CPUS;
pub(crate) use rows::LATEST_NS;
pub use write::Writer;

use crate::events::{Event, Name};

/// A row: an event with the process and the program of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The event.
    pub event: Event,
    /// The process of the thread.
    pub process: u32,
    /// The name of the thread.
    pub program: Name,
}
