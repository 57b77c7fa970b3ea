//! A small kernel whose whole memory management is `ceasefire` and `ceasefire-memory`.
//!
//! It boots on x86-64 and 64-bit Arm with up to 64 CPUs, gives each node's memory to the memory manager, and runs the
//! programs of `ceasefire-kernel-programs` in user mode. There a stale TLB entry has its real effect: a CPU that was
//! not told of a change keeps using the old frame. `cargo xtask kernel` builds and boots the kernel.
//!
//! `memory` implements what the memory manager and the engine ask of a kernel. It stands on `threads`, `lock` and
//! `arch`, which has one folder for each architecture. `traps` serves programs; `start` brings all of it up with the
//! information that `loader` reads; `report` prints the run's lines, result and failure.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(any(target_os = "none", test))]
extern crate alloc;

// The tests of these two run on the host.
#[cfg(any(target_os = "none", test))]
mod arch;
#[cfg(any(target_os = "none", test))]
mod loader;

#[cfg(target_os = "none")]
mod failure;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod serial;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod threads;
#[cfg(target_os = "none")]
mod traps;

#[cfg(target_os = "none")]
pub(crate) use start::{start, start_other};

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this kernel runs on no operating system: `cargo xtask kernel` builds and boots it");
}
