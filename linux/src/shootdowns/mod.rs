//! Shootdowns: who interrupted whom, from which call, and what it cost.
//!
//! A shootdown is one flush that asks other CPUs. The kernel's events are parts of it: the flush, a request to
//! each CPU that is not left out, and a handler there. `queues` says which requests interrupt, and
//! `answers` counts those that are answered. `tracker` puts them together again. `cause` says why it happened: from
//! the system call, the fault, the reclaim or the migration under way in the thread, or from the kernel's functions if
//! they were recorded. `purge` says which pages a call gives back. `tally` adds shootdowns up, and `totals` are its sums.

mod answers;
mod cause;
mod purge;
mod queues;
mod tally;
mod timeline;
mod totals;
mod tracker;

pub(crate) use answers::{Answered, Answers};
pub use cause::Cause;
pub(crate) use cause::{Call, Doing};
#[cfg(test)]
pub(crate) use purge::DONTNEED;
pub(crate) use purge::{pages_of, Pages, Purge};
pub(crate) use queues::Queues;
pub use tally::Tally;
pub use timeline::Timeline;
pub use totals::{CpuSum, Process, Sum, Totals};
pub(crate) use tracker::Tracker;
pub use tracker::{Request, Sender, Shootdown, Victim};
