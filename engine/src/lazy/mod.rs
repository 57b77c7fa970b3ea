//! Debts that outlive the operation that made them.
//!
//! - `bounds`: how long a debt may stand. `eligible`: the pages that may owe. Read these first.
//! - `owed`: what an allocator holds while a debt stands.
//! - `ledger`, built on `epoch_set`: the record of all lazy debts of the machine.
//! - `settling`: how debts end.

mod bounds;
mod eligible;
mod epoch_set;
mod ledger;
mod owed;
mod settling;

pub use bounds::{Bounds, BoundsError, Payment, DEFAULT_AGE, LONGEST_AGE};
pub use eligible::Condition;
pub(crate) use eligible::{may_owe, Met};
pub(crate) use ledger::Ledger;
pub use owed::Owed;
