//! The workloads. Each has a file, which defines the experiments that run it.
//!
//! `stream` and `random` are shared by several workloads.

pub(crate) mod allocation_latency;
pub(crate) mod fork_heavy;
pub(crate) mod migrate;
mod random;
mod stream;
pub(crate) mod switching;
pub(crate) mod tiered_inference;

pub(crate) use random::Random;
pub(crate) use stream::{Reader, Stream};
