//! The atomic types on which the crate is built.
//!
//! They are named in this one place. The checked build puts its own there, which a checker schedules.

#[cfg(ceasefire_checked)]
pub(crate) use ceasefire_atomics::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};
#[cfg(not(ceasefire_checked))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};
