//! One address space: its name, its tag, how far its flushes have come, and until when it owes.
//!
//! Read `id`, `generation` and `stamp` first, then `asid` and `tag`, then `address_space`, which holds them all. `pace`
//! measures what flushes take.

mod address_space;
mod asid;
mod generation;
mod id;
mod in_flight;
mod pace;
mod stamp;
mod tag;

pub(crate) use address_space::leaked_asids;
pub use address_space::AddressSpace;
pub use asid::{Asid, DYNAMIC_ASIDS};
pub(crate) use generation::AtomicGeneration;
pub use generation::Generation;
pub use id::{Root, SpaceId};
pub use stamp::Stamp;
pub(crate) use tag::{Reading, Tagged};
