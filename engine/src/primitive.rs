//! The atomics that everything here is built on.
//!
//! One place, so that a model checker's atomics can stand in for the processor's without a change elsewhere.

pub(crate) use core::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
