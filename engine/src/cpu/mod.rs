//! One CPU: its ASID slots, its requests, and the state that other CPUs read.
//!
//! - `slots`: the ASIDs of the CPU's own. `places`: the sets of CPUs that it is in. `request`: the two ends of a
//!   shootdown. `mode`: whether a program or the kernel runs. Read these first.
//! - `state`: the record that holds them.

mod mode;
mod places;
mod request;
mod slots;
mod state;

#[cfg(ceasefire_checked)]
pub(crate) use request::Inbox;
pub(crate) use request::{Asked, Posted};
pub(crate) use slots::{Flushed, Slots};
pub use state::Cpu;
pub(crate) use state::{Loaded, Own, Reach, Seen};
