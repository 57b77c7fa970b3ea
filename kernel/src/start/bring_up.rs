//! Bringing the CPUs up: what is the same whoever starts them. The first comes from the loader on a stack of the image's; it
//! numbers the others, sets out a stack for each, has the architecture start them, and waits until all have come.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arch::{boot, clock};
use crate::threads::cpu::MOST_CPUS;

/// How long all CPUs together may take to start, in nanoseconds: they may be emulated by few.
const PATIENCE: u64 = 10_000_000_000;
/// Bytes of the stack that the first CPU begins with; it becomes its idle thread's. The memory manager comes to be here, 33 KiB
/// of it, and is moved a few times on its way to where it stays.
pub(crate) const BOOT_STACK: usize = 256 * 1024;

#[repr(C, align(16))]
struct BootStack(UnsafeCell<[u8; BOOT_STACK]>);

// SAFETY: only the first CPU runs on it.
unsafe impl Sync for BootStack {}

#[unsafe(export_name = "BOOT_STACK")]
static STACK: BootStack = BootStack(UnsafeCell::new([0; BOOT_STACK]));

/// The ends of the stacks that CPUs begin with, by their numbers. The first has its own.
pub(crate) static STACKS: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
/// Other CPUs that have come as far as the kernel.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Numbers CPUs from 0, the `first` first and the others in the order in which they are `listed`, and lets `name` know of those
/// that can be used. How many there are.
pub(crate) fn number<I: Copy + PartialEq>(
    first: I,
    listed: impl Iterator<Item = I>,
    name: impl Fn(usize, I),
) -> usize {
    let all = core::iter::once(first).chain(listed.filter(|&id| id != first));
    let named = all.enumerate().map(|(number, id)| {
        if number < MOST_CPUS {
            name(number, id);
        }
    });
    named.count()
}

/// Starts all other CPUs, each on one of the stacks that end there; how many came in time.
///
/// # Safety
/// The stacks are given up for it.
pub(crate) unsafe fn start_others(stacks: &[u64]) -> usize {
    for (slot, &stack) in STACKS.iter().skip(1).zip(stacks) {
        slot.store(stack, Ordering::SeqCst);
    }
    // SAFETY: there is a stack for each, which nobody else uses.
    unsafe { boot::start_others(stacks.len()) };
    let deadline = clock::now() + PATIENCE;
    while STARTED.load(Ordering::Acquire) < stacks.len() && clock::now() < deadline {
        core::hint::spin_loop();
    }
    boot::forget_low_memory();
    STARTED.load(Ordering::Acquire)
}

/// Another CPU has come.
pub(crate) fn arrived() {
    STARTED.fetch_add(1, Ordering::AcqRel);
}
