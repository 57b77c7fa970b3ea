//! The atomic types on which the crate is built.
//!
//! They are named in this one place. The checked build puts its own there, which a checker schedules.

#[cfg(ceasefire_checked)]
pub(crate) use ceasefire_atomics::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(ceasefire_checked))]
pub(crate) use core::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
