//! Records the running kernel.
//!
//! While the recording runs, `session` only moves pages of the kernel's buffers to a `spool`, so that it disturbs as
//! little as it can. At the end the events of all CPUs are ordered by time, `row` compares them with the TLB row of
//! `/proc/interrupts`, and `keep` makes a [recording](crate::recording) of them.

mod keep;
mod row;
mod session;
mod spool;

pub(crate) use keep::Keeper;
pub use keep::Recorded;
pub use session::{record, Length, Options, RecordError};
