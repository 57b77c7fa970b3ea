//! The part that depends on the processor: system calls, accesses that may fail, the entry.

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod aarch64;
#[cfg(target_os = "none")]
mod access;
#[cfg(not(target_os = "none"))]
mod host;
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub(crate) use aarch64::{call, load};
#[cfg(target_os = "none")]
pub(crate) use access::{recovery, try_load, try_store};
#[cfg(not(target_os = "none"))]
pub(crate) use host::{call, load, recovery, try_load, try_store};
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub(crate) use x86_64::{call, load};

/// Instructions whose accesses may fail, and where they continue after a failure: the arguments of `Call::Recover`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recovery {
    /// The first instruction.
    pub(crate) start: u64,
    /// The address after the last.
    pub(crate) end: u64,
    /// Where a failed access continues.
    pub(crate) to: u64,
}
