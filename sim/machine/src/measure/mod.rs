//! The counts and times of a run.
//!
//! `spent` divides the CPUs' time and `tallies` counts events. A `reading` is all counts at one moment, a `series` many
//! readings over time. `trace` writes each flush and each interrupt.

pub(crate) mod reading;
pub(crate) mod series;
pub(crate) mod spent;
pub(crate) mod tallies;
pub(crate) mod trace;
