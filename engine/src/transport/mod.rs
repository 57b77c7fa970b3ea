//! How a flush reaches other CPUs: by interrupts, by broadcasts, or by both while a space changes from one to the other.
//!
//! Read `pending` first, then `shootdown`, then `broadcast` with `global_asids`, then `adoption`, `transition` and `retirement`.

mod adoption;
mod broadcast;
mod global_asids;
mod pending;
mod retirement;
mod shootdown;
mod transition;

pub(crate) use global_asids::GlobalAsids;
pub use pending::Pending;
pub use retirement::StillLoaded;
