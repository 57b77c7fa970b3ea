//! The atomic types on which the crate is built.
//!
//! They are named in this one place. The checked build puts its own there, which a checker schedules.

// Generations and stamps have 64 bits, so that they never wrap. An emulation with a lock would be taken by handlers of
// interrupts too, and block the CPU that they interrupted.
#[cfg(not(target_has_atomic = "64"))]
compile_error!("this crate needs atomic instructions for 64 bits; the target has none");

#[cfg(ceasefire_checked)]
pub(crate) use ceasefire_atomics::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(ceasefire_checked))]
pub(crate) use core::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
