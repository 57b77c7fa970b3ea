//! The kernel's side of the interface: the functions that a kernel writes, its promises and its decisions.
//!
//! - `contract`: the trait [`Platform`].
//! - `guard`: guards that keep interrupts off and a task on its CPU.
//! - `capabilities`: the promises of a processor.
//! - `look`: the choice of the spaces that get a global ASID.
//! - `trace`: the event that each flush reports.

mod capabilities;
mod contract;
mod guard;
mod look;
mod trace;

pub use capabilities::{Broadcast, BroadcastError, Capabilities, Errata, Holders, Walkers};
pub use contract::Platform;
pub use guard::{InterruptsOff, Pinned};
pub use look::{Look, LOOK_EVERY, PATIENCE, WIDE};
pub use trace::{FlushEvent, Reason};
