//! Obligations: the operations that change translations, and pay for them.
//!
//! - `gather` pays before the operation returns, under the proof of `settled`. Its `room` keeps the `span` of the
//!   addresses, and the things that they led to. With a `mark` it pays after it has released page-table locks.
//! - `batch` pays once for many pages, from its `account`.
//! - `permit` allows a page to be written out.

mod account;
mod batch;
mod gather;
mod mark;
mod permit;
mod room;
mod settled;
mod span;

pub use batch::{Batch, Schedule, Unmapping, BATCH};
pub use gather::{Changes, Gather, RangeGuard};
pub use mark::Mark;
pub(crate) use mark::Marking;
pub use permit::WritePermit;
pub use room::Place;
pub(crate) use room::Room;
pub use settled::{Settled, TableGuard};
