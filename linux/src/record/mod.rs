//! Records the running kernel.
//!
//! While the recording runs, `session` only moves pages of the kernel's buffers to a `spool`, so that it disturbs as
//! little as it can. At the end `merge` orders the events of all CPUs by time, `row` compares them with the TLB row of
//! `/proc/interrupts`, and the whole becomes a [recording](crate::recording).

mod machine;
mod merge;
mod overhead;
mod row;
mod session;
mod spool;

pub use session::{record, Length, Options, RecordError, Recorded};
