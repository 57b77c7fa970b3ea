//! Bringing the CPUs up, as far as it does not depend on the architecture. The loader starts the first CPU, on a stack
//! in the image. The first CPU numbers the others, sets out a stack for each, has the architecture start them, and
//! waits for all of them.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::boot;
use crate::arch::first_stacks::STACKS;
use crate::failure::refuse;
use crate::patience;

/// The number of other CPUs that have reached the kernel.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Starts all other CPUs, each on one of the stacks that end at the given addresses. Waits for one after the other.
/// Returns how many came.
///
/// # Safety
/// The stacks must be given up for this.
pub(crate) unsafe fn start_others(stacks: &[u64]) -> usize {
    for (slot, &stack) in STACKS.iter().skip(1).zip(stacks) {
        slot.store(stack, Ordering::SeqCst);
    }
    // SAFETY: each CPU has a stack that nothing else uses.
    unsafe { boot::start_others(stacks.len()) }.unwrap_or_else(|error| refuse(format_args!("{error}")));
    let came = |count| patience::spin(|| STARTED.load(Ordering::Acquire) >= count);
    let started = (1..=stacks.len()).take_while(|&count| came(count)).count();
    boot::forget_low_memory();
    started
}

/// Counts another CPU that has reached the kernel.
pub(crate) fn arrived() {
    STARTED.fetch_add(1, Ordering::AcqRel);
}
