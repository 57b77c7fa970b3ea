//! The oracle: it checks the rules of TLB coherence in every run.
//!
//! `rule` lists the rules. `record` has the entries that CPUs may hold, `ways` the page-table pages that their walkers may
//! remember, and `debts` the frames that were released in debt. `view` is the part of the machine that the oracle looks at, and `judge` checks. `shadow` keeps the reports of
//! the memory manager's own record. Nothing here knows the engine's bookkeeping.

pub(crate) mod debts;
pub(crate) mod judge;
pub(crate) mod numbered;
pub(crate) mod record;
pub(crate) mod rule;
pub(crate) mod shadow;
pub(crate) mod view;
pub(crate) mod ways;
