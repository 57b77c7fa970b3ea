//! The transports: how a flush reaches other CPUs. Interrupts and broadcasts, or both while a space changes between
//! them.
//!
//! - `pending`: a flush from its beginning to its end. Read it first.
//! - `shootdown`: interrupts.
//! - `broadcast`, with `global_asids`: broadcasts, and the tags that they need.
//! - `adoption`: the choice of the spaces that get a global ASID.
//! - `meeting`: interrupts that flush nothing, for walkers and for faults of processors.
//! - `transition`: a space between slots and a global ASID.
//! - `retirement`: the end of a space.

mod adoption;
mod broadcast;
mod global_asids;
mod meeting;
mod pending;
mod retirement;
mod shootdown;
mod transition;

pub(crate) use global_asids::GlobalAsids;
pub use pending::Pending;
pub use retirement::StillLoaded;
#[cfg(ceasefire_checked)]
pub(crate) use transition::Progress;
