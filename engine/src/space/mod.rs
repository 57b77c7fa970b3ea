//! One address space: its name, its tag, its generations, and the stamp until which it owes.
//!
//! - `id`, `generation`, `stamp`: the values. Read them first.
//! - `asid` and `tag`: the tags on a space's entries.
//! - `in_flight`: the changes that are not flushed yet.
//! - `pace`: the time that flushes take.
//! - `address_space`: the record that holds them all.

mod address_space;
mod asid;
mod generation;
mod id;
mod in_flight;
mod pace;
mod stamp;
mod tag;
mod used_on;

pub(crate) use address_space::leaked_asids;
pub use address_space::AddressSpace;
pub use asid::{Asid, DYNAMIC_ASIDS};
pub(crate) use generation::AtomicGeneration;
pub use generation::Generation;
pub use id::{Root, SpaceId};
pub use stamp::Stamp;
pub(crate) use tag::{Reading, Tagged};
pub(crate) use used_on::Users;
