//! The workloads. Each has a file, which defines the experiments that run it.
//!
//! `stream` and `random` are shared by several workloads.

pub(crate) mod allocation_latency;
pub(crate) mod fork_heavy;
pub(crate) mod migrate;
pub(crate) mod mmap_read;
mod random;
mod stream;
pub(crate) mod switching;
pub(crate) mod tiered_inference;
pub(crate) mod tlb_flush2;
pub(crate) mod write_heavy;
