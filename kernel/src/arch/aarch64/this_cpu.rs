//! The CPU's own data: its address is in a register that programs do not see.

use core::arch::asm;
use core::cell::UnsafeCell;

use crate::threads::cpu::PerCpu;

/// Bytes of the stack of last resort: a report is made on it.
const LAST_STACK: usize = 16 << 10;

/// What the architecture keeps for each CPU; the first of what [`PerCpu`] has, so that the register leads to it.
#[repr(C, align(16))]
pub(crate) struct ArchCpu {
    /// Where a trap goes that finds no room on the kernel stack it came from: see `trap.s`.
    last_stack: UnsafeCell<[u8; LAST_STACK]>,
}

// SAFETY: only traps of the CPU that it belongs to use the stack.
unsafe impl Sync for ArchCpu {}

impl ArchCpu {
    /// Where the stack of last resort ends, from where this begins.
    pub(super) const LAST_STACK_END: usize = LAST_STACK;

    #[allow(clippy::large_stack_arrays, reason = "it is made for a static, on no stack")]
    pub(crate) const fn new() -> Self {
        Self { last_stack: UnsafeCell::new([0; LAST_STACK]) }
    }
}

/// The data of the CPU that executes this. It stays that CPU's for as long as the thread is not moved: until it sleeps or
/// gives way, which it does nowhere but in the scheduler.
pub(crate) fn get() -> &'static PerCpu {
    let cpu: *const PerCpu;
    // SAFETY: `set` wrote the register before anything could call this, and nobody else does.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) cpu, options(nostack, preserves_flags, readonly));
        &*cpu
    }
}

/// Makes this CPU the one with that data.
///
/// # Safety
/// Once on each CPU, before it takes interrupts, with data that no other CPU is given.
pub(super) unsafe fn set(cpu: &'static PerCpu) {
    // SAFETY: the register is the kernel's own.
    unsafe { asm!("msr tpidr_el1, {}", in(reg) core::ptr::from_ref(cpu), options(nostack, preserves_flags)) };
}
