//! The kernel's side of the interface: what it implements, states and decides.
//!
//! `contract` has the trait; `capabilities` what a processor promises; `look` the choice that the kernel may make about
//! global ASIDs; `trace` what it may hear of each flush.

mod capabilities;
mod contract;
mod look;
mod trace;

pub use capabilities::{Broadcast, BroadcastError, Capabilities, Holders};
pub use contract::Platform;
pub use look::{Look, LOOK_EVERY, PATIENCE, WIDE};
pub use trace::{FlushEvent, Reason};
