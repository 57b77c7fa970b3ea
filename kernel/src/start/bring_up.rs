//! Bringing the CPUs up, as far as it does not depend on the architecture. The loader starts the first CPU, on a stack
//! in the image. The first CPU numbers the others, sets out a stack for each, has the architecture start them, and
//! waits for all of them.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arch::{boot, clock};
use crate::threads::cpu::MOST_CPUS;

/// The time in which all CPUs together must start, in nanoseconds. It is long because few host CPUs may emulate many.
const PATIENCE: u64 = 10_000_000_000;
/// Bytes of the stack on which the first CPU begins; it becomes the stack of that CPU's idle thread. The memory
/// manager, 33 KiB, is built on this stack and moved a few times on its way to its final place.
pub(crate) const BOOT_STACK: usize = 256 * 1024;

#[repr(C, align(16))]
struct BootStack(UnsafeCell<[u8; BOOT_STACK]>);

// SAFETY: only the first CPU runs on it.
unsafe impl Sync for BootStack {}

#[unsafe(export_name = "BOOT_STACK")]
static STACK: BootStack = BootStack(UnsafeCell::new([0; BOOT_STACK]));

/// The ends of the stacks on which CPUs begin, by CPU number. The first CPU has its own stack.
pub(crate) static STACKS: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
/// The number of other CPUs that have reached the kernel.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Numbers the CPUs from 0: `first` first, the others in the order in which they are `listed`. Calls `name` for each
/// CPU that can be used. Returns how many CPUs there are.
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

/// Starts all other CPUs, each on one of the stacks that end at the given addresses. Returns how many came in time.
///
/// # Safety
/// The stacks must be given up for this.
pub(crate) unsafe fn start_others(stacks: &[u64]) -> usize {
    for (slot, &stack) in STACKS.iter().skip(1).zip(stacks) {
        slot.store(stack, Ordering::SeqCst);
    }
    // SAFETY: each CPU has a stack that nothing else uses.
    unsafe { boot::start_others(stacks.len()) };
    let deadline = clock::now() + PATIENCE;
    while STARTED.load(Ordering::Acquire) < stacks.len() && clock::now() < deadline {
        core::hint::spin_loop();
    }
    boot::forget_low_memory();
    STARTED.load(Ordering::Acquire)
}

/// Counts another CPU that has reached the kernel.
pub(crate) fn arrived() {
    STARTED.fetch_add(1, Ordering::AcqRel);
}
