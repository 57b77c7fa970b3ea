//! The CPU's own data. Its address is in a register that programs cannot access.

use core::arch::asm;
use core::cell::UnsafeCell;

use crate::threads::cpu::PerCpu;

/// Bytes of the stack of last resort. A failure is reported on it.
const LAST_STACK: usize = 16 << 10;

/// The architecture's data for each CPU. It is the first field of [`PerCpu`], so that the register leads to it.
#[repr(C, align(16))]
pub(crate) struct ArchCpu {
    /// The stack for a trap that finds no room on the kernel stack: see `trap.s`.
    last_stack: UnsafeCell<[u8; LAST_STACK]>,
}

// SAFETY: only traps of its own CPU use the stack.
unsafe impl Sync for ArchCpu {}

impl ArchCpu {
    /// The end of the stack of last resort, from the start of this structure.
    pub(super) const LAST_STACK_END: usize = LAST_STACK;

    #[allow(clippy::large_stack_arrays, reason = "it is made for a static, on no stack")]
    pub(crate) const fn new() -> Self {
        Self { last_stack: UnsafeCell::new([0; LAST_STACK]) }
    }
}

/// The data of the running CPU. They remain valid for the thread until it sleeps or gives way, since only the scheduler
/// moves a thread.
pub(crate) fn get() -> &'static PerCpu {
    let cpu: *const PerCpu;
    // SAFETY: `set` wrote the register before any call of this, and nothing else writes it.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) cpu, options(nostack, preserves_flags, readonly));
        &*cpu
    }
}

/// Gives this CPU its data.
///
/// # Safety
/// Call it once on each CPU, before the CPU takes interrupts, with data that no other CPU is given.
pub(super) unsafe fn set(cpu: &'static PerCpu) {
    // SAFETY: only the kernel uses the register.
    unsafe { asm!("msr tpidr_el1, {}", in(reg) core::ptr::from_ref(cpu), options(nostack, preserves_flags)) };
}
