//! Obligations: what clears or narrows translations, and pays for them.
//!
//! `gather` pays before the operation returns, `batch` once for many pages. `settled` is the proof that a gather asks for,
//! `permit` the one that writing a page out takes.

mod batch;
mod gather;
mod permit;
mod settled;

pub use batch::{Batch, Schedule, BATCH};
pub use gather::{Gather, GATHER};
pub use permit::{Withheld, WritePermit};
pub use settled::Settled;
