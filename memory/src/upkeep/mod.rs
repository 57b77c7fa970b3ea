//! What the kernel does with memory on its own account.
//!
//! Read in this order: taking back frames (`reclaim`), moving pages to other nodes (`migrate`), learning who uses a page
//! (`hint`).

pub(crate) mod hint;
pub(crate) mod migrate;
pub(crate) mod reclaim;
