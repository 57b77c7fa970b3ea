//! The atomic types on which the crate is built.
//!
//! They are named in this one place, so a model checker can substitute its own without a change elsewhere.

pub(crate) use core::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
