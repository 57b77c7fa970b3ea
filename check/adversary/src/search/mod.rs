//! The search for a schedule that breaks a rule.
//!
//! `scenario` says what runs and what is taken away, `play` runs it under one schedule, and `check` under many.
//! `weakenings` and `equivalent` are about the orderings of the engine's accesses, `swaps` about the order of its
//! statements.

pub(crate) mod check;
pub(crate) mod equivalent;
mod play;
pub(crate) mod scenario;
pub(crate) mod swaps;
pub(crate) mod weakenings;
