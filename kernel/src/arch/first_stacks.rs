//! The stacks on which CPUs begin. `boot.s` loads their ends.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU64;

use super::cpus::MOST_CPUS;

/// Bytes of the stack on which the first CPU begins; it becomes the stack of that CPU's idle thread. The memory
/// manager, 33 KiB, is built on this stack and moved a few times on its way to its final place.
pub(crate) const BOOT_STACK: usize = 256 * 1024;

#[repr(C, align(16))]
struct BootStack(UnsafeCell<[u8; BOOT_STACK]>);

// SAFETY: only the first CPU runs on it.
unsafe impl Sync for BootStack {}

#[unsafe(export_name = "BOOT_STACK")]
static STACK: BootStack = BootStack(UnsafeCell::new([0; BOOT_STACK]));

/// The ends of the other CPUs' stacks, by CPU number.
pub(crate) static STACKS: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
