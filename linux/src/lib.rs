//! TLB shootdowns of a Linux machine: who interrupts whom, from which call, and what it costs.
//!
//! `tracefs` reads the events of the running kernel, and `kernel` what it says about itself. `events` are what a kernel
//! did, and a `recording` is a file of them. `tracing` begins to trace, for `record`, which makes a recording, and for
//! `live`, which watches. `import` makes a recording of a file of another program, and `export` a trace for Perfetto of
//! a recording. `shootdowns` says who interrupted whom, `locks` for which locks threads waited: one `observer` of the
//! events finds both for all of these. `replay` says what other mechanisms would have done, and `spread` how sure that
//! is. `difference` compares two recordings. `calibrate` measures what the machine's operations cost.

pub mod calibrate;
pub mod difference;
pub mod events;
pub mod export;
mod guarded;
pub mod import;
pub mod kernel;
mod latest;
pub mod live;
pub mod locks;
pub mod observer;
mod random;
pub mod record;
pub mod recording;
pub mod replay;
pub mod shootdowns;
pub mod spread;
pub mod tracefs;
mod tracing;
