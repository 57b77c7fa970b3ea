//! Memory operations that the kernel starts itself.
//!
//! Read in this order: frames taken back (`reclaim`), pages moved to other nodes (`migrate`), NUMA hints (`hint`).

pub(crate) mod hint;
pub(crate) mod migrate;
pub(crate) mod reclaim;
