//! A small kernel whose whole memory management is `ceasefire` and `ceasefire-memory`.
//!
//! It boots on x86-64 and 64-bit Arm with up to 64 CPUs, gives each node's memory to the memory manager, and runs the
//! programs of `ceasefire-kernel-programs` in user mode. There a stale TLB entry has its real effect: a CPU that was
//! not told of a change keeps using the old frame. `cargo xtask kernel` builds and boots the kernel.
//!
//! Each folder or file uses only those before it in this list:
//!
//! - `loader`: the information of the loader;
//! - `arch`: the processors, one folder for each architecture;
//! - `patience`: how long a CPU waits before it gives up;
//! - `serial` and `failure`: lines on the serial port, and the end of a run that failed;
//! - `lock`: the kernel's own locks;
//! - `manager`: the one memory manager;
//! - `threads`: threads, and the CPUs that they run on;
//! - `memory`: what the memory manager and the engine ask of a kernel;
//! - `report`: the run's lines, counters and result;
//! - `processes`: the beginning and the end of programs;
//! - `traps`: faults, interrupts and system calls;
//! - `start`: brings all of it up;
//! - `entry`: the ways into the kernel, from the loader and by traps.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(any(target_os = "none", test))]
extern crate alloc;

// The tests of these run on the host.
#[cfg(any(target_os = "none", test))]
mod arch;
#[cfg(any(target_os = "none", test))]
mod loader;
#[cfg(any(target_os = "none", test))]
#[cfg_attr(test, allow(dead_code, reason = "tests run on the host, where no CPU waits"))]
mod patience;

#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod failure;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod manager;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod processes;
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

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this kernel runs on no operating system: `cargo xtask kernel` builds and boots it");
}
