//! The measurements of a run: CPU time by use, latencies of single operations, operations per process, and the check of
//! every load against a reference.

mod interval;
mod latency;
mod per_process;
mod reference;
mod time;

pub use interval::Interval;
pub use latency::{Atomic, Latency};
pub use per_process::PerProcess;
pub use time::{Series, Time};

pub(crate) use latency::Latencies;
pub(crate) use reference::{Reference, Verdict};
