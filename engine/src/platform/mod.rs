//! The kernel's side of the interface: what it implements, states and decides.
//!
//! `contract` has the trait, and `guard` what keeps interrupts off and a task on its CPU; `capabilities` what a processor promises; `look` the choice that the kernel may make about
//! global ASIDs; `trace` what it may hear of each flush.

mod capabilities;
mod contract;
mod guard;
mod look;
mod remote;
mod trace;

pub use capabilities::{Broadcast, BroadcastError, Capabilities, Holders};
pub use contract::Platform;
pub use guard::{InterruptsOff, Pinned};
pub use look::{Look, LOOK_EVERY, PATIENCE, WIDE};
pub use remote::Remote;
pub use trace::{FlushEvent, Reason};
