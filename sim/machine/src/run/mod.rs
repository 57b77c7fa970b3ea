//! Setting a machine up, and running programs on it.
//!
//! `simulation` is the entry: `options` go in, an `outcome` or an `error` comes out. `program` is a thread as its own code
//! sees it, and `access` takes each of its accesses through the TLB and the page tables.

pub(crate) mod access;
pub(crate) mod error;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod simulation;
