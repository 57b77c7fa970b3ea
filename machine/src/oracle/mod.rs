//! The oracle: it checks the rules of TLB coherence in every run.
//!
//! `rule` lists the rules. `holdings`, `chunks` and `place` record the translations that CPUs may hold, `reached` the
//! pages for which any CPU ever had one, `debts` the frames that were let go of owing. `view` is the part of the machine
//! that the oracle looks at, and `judge` checks. `shadow` keeps the reports of the memory manager's own record. Nothing
//! here knows the engine's bookkeeping.

pub(crate) mod chunks;
pub(crate) mod debts;
pub(crate) mod holdings;
pub(crate) mod judge;
pub(crate) mod numbered;
pub(crate) mod place;
pub(crate) mod reached;
pub(crate) mod rule;
pub(crate) mod shadow;
pub(crate) mod view;
