//! What the kernel does with memory on its own account.
//!
//! Read in this order: frames taken back (`reclaim`), pages moved to other nodes (`migrate`), hints which CPUs use a page
//! (`hint`).

pub(crate) mod hint;
pub(crate) mod migrate;
pub(crate) mod reclaim;
