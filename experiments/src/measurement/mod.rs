//! The parts of a measurement: where CPU time went, how long single operations took, and whether loads were right.

mod latency;
mod per_process;
mod reference;
mod time;

pub use latency::{Atomic, Latency};
pub use per_process::PerProcess;
pub use time::{Series, Time};

pub(crate) use latency::Latencies;
pub(crate) use reference::{Reference, Verdict};
