//! The kernel's interface to an architecture: one folder each, with the same names in every folder.
//! `entry` has the assembly and calls the kernel.
//!
//! - [`Frame`]: the registers at a trap, which hold a system call's arguments and take its result;
//! - [`memory`]: where the kernel maps physical memory, mapping its stacks, and making code visible;
//! - [`boot`]: counting the CPUs and starting them;
//! - [`interrupts`]: turning them on and off, waiting for one, sending one to another CPU, the timer;
//! - [`tlb`]: loading roots and invalidating, the processor's side of `ceasefire::Platform`;
//! - [`stack`]: kernel stacks, switching from one to another, and leaving for a program;
//! - [`user`]: the accesses that may fault: copies to or from a program's memory, and words of kernel areas;
//! - [`this_cpu`]: the number of the running CPU;
//! - [`clock`]: time in nanoseconds;
//! - [`console`]: output of bytes, and the end of the machine with a status.
//!
//! Three files are the same for all architectures: [`user`], [`cpus`], which counts the CPUs, and [`first_stacks`], on
//! which they begin. `aarch64_formats` is the part of 64-bit Arm that is tested on any host.

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub(crate) mod aarch64;
#[cfg(any(all(target_os = "none", target_arch = "aarch64"), test))]
pub(crate) mod aarch64_formats;
#[cfg(target_os = "none")]
pub(crate) mod cpus;
#[cfg(target_os = "none")]
pub(crate) mod first_stacks;
#[cfg(target_os = "none")]
pub(crate) mod user;
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub(crate) mod x86_64;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub(crate) use aarch64::{boot, clock, console, interrupts, memory, stack, this_cpu, tlb, Frame, NAME};
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub(crate) use x86_64::{boot, clock, console, interrupts, memory, stack, this_cpu, tlb, Frame, NAME};
