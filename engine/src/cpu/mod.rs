//! One CPU: its ASID slots, its requests, and what other CPUs read of it.
//!
//! Read `slots`, `request` and `mode` first, then `state`, which holds them.

mod mode;
mod request;
mod slots;
mod state;

pub(crate) use request::{Asked, Posted};
pub(crate) use slots::{Flushed, Slots};
pub use state::Cpu;
pub(crate) use state::{Loaded, Own, Reach};
