//! What the kernel asks of an architecture. One folder each, and the same names in every one of them:
//!
//! - [`Frame`]: the registers of what a trap stopped; a system call's arguments are in it and its result goes there;
//! - [`memory`]: where the kernel sees physical memory, mapping its stacks, and making code visible;
//! - [`boot`]: what the loader said, and starting the other CPUs;
//! - [`interrupts`]: turning them on and off, waiting for one, sending one to another CPU, the timer;
//! - [`tlb`]: loading roots and invalidating, which is what `ceasefire::Platform` is made of;
//! - [`stack`]: kernel stacks, going from one to another, and leaving for a program;
//! - [`user`]: the copy that may fault, to or from a program's memory;
//! - [`this_cpu`]: the CPU's own data;
//! - [`clock`]: time in nanoseconds;
//! - [`console`]: bytes out, and leaving with a status.

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod aarch64;
#[cfg(any(all(target_os = "none", target_arch = "aarch64"), test))]
mod aarch64_formats;
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub(crate) use aarch64::{boot, clock, console, interrupts, memory, stack, this_cpu, tlb, user, Frame, NAME};
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub(crate) use x86_64::{boot, clock, console, interrupts, memory, stack, this_cpu, tlb, user, Frame, NAME};
