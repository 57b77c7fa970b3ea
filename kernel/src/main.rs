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

// What needs no machine is tested on the host.
#[cfg(any(all(target_os = "none", target_arch = "aarch64"), test))]
mod device_tree;
#[cfg(any(target_os = "none", test))]
mod free_memory;
#[cfg(any(target_os = "none", test))]
mod options;
#[cfg(any(all(target_os = "none", target_arch = "aarch64"), test))]
mod syndrome;
#[cfg(any(all(target_os = "none", target_arch = "aarch64"), test))]
mod tlbi;

#[cfg(target_os = "none")]
mod arch;
#[cfg(target_os = "none")]
mod bring_up;
#[cfg(target_os = "none")]
mod call;
#[cfg(target_os = "none")]
mod cpu;
#[cfg(target_os = "none")]
mod device;
#[cfg(target_os = "none")]
mod event;
#[cfg(target_os = "none")]
mod failure;
#[cfg(target_os = "none")]
mod heap;
#[cfg(target_os = "none")]
mod image;
#[cfg(target_os = "none")]
mod layout;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod log;
#[cfg(target_os = "none")]
mod platform;
#[cfg(target_os = "none")]
mod poison;
#[cfg(target_os = "none")]
mod process;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod schedule;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod thread;
#[cfg(target_os = "none")]
mod trap;
#[cfg(target_os = "none")]
mod user;
#[cfg(target_os = "none")]
mod wait;

#[cfg(target_os = "none")]
pub(crate) use start::{start, start_other};

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this kernel runs on no operating system: `cargo xtask kernel` builds and boots it");
}
