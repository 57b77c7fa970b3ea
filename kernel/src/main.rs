//! A small kernel whose whole memory management is `ceasefire` and `ceasefire-memory`.
//!
//! It boots on x86-64 and on 64-bit Arm with as many CPUs as there are (64 at most), gives each node's memory to the memory
//! manager, and runs the programs of `ceasefire-kernel-programs` in user mode, where a stale TLB entry is what it is in
//! earnest: a CPU that was not told keeps using the old frame. `cargo xtask kernel` builds and boots it.
//!
//! `platform` is what the memory manager and the engine ask for; below it lie `lock`, `schedule` and `wait`, and below
//! those one folder for each architecture (`arch`). Above it are processes and their system calls.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(any(target_os = "none", test))]
extern crate alloc;

// The tests of these run on the host.
#[cfg(any(target_os = "none", test))]
mod arch;
#[cfg(any(target_os = "none", test))]
mod loader;

#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod report;
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
