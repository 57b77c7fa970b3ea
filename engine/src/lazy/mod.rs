//! Debts that outlive the operation which made them.
//!
//! Read `bounds` and `eligible` first (how long, and for which pages), then `owed` (what an allocator holds), then
//! `ledger` on `epoch_set` (the book of them), then `settling` (how they end).

mod bounds;
mod eligible;
mod epoch_set;
mod ledger;
mod owed;
mod settling;

pub use bounds::{Bounds, BoundsError, Settle, DEFAULT_AGE, LONGEST_AGE};
pub use eligible::Condition;
pub(crate) use eligible::{may_owe, Met};
pub(crate) use ledger::Ledger;
pub use owed::Owed;
