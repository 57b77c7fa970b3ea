//! The number of the running CPU, and the architecture's data for it. Their address is in a register that programs
//! cannot access.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::cpus::MOST_CPUS;

/// Bytes of the stack of last resort. A failure is reported on it.
const LAST_STACK: usize = 16 << 10;

/// The architecture's data for each CPU.
#[repr(C, align(16))]
pub(crate) struct ArchCpu {
    /// The stack for a trap that finds no room on the kernel stack. It must be the first field: see `trap.s`.
    last_stack: UnsafeCell<[u8; LAST_STACK]>,
    number: AtomicUsize,
}

// SAFETY: only traps of its own CPU use the stack.
unsafe impl Sync for ArchCpu {}

static CPUS: [ArchCpu; MOST_CPUS] = [const { ArchCpu::new() }; MOST_CPUS];

impl ArchCpu {
    /// The end of the stack of last resort, from the start of this structure.
    pub(crate) const LAST_STACK_END: usize = LAST_STACK;

    #[allow(clippy::large_stack_arrays, reason = "it is made for a static, on no stack")]
    const fn new() -> Self {
        Self { last_stack: UnsafeCell::new([0; LAST_STACK]), number: AtomicUsize::new(0) }
    }
}

/// The number of the running CPU. It remains valid for the thread until it sleeps or gives way, since only the
/// scheduler moves a thread.
pub(crate) fn number() -> usize {
    let cpu: *const ArchCpu;
    // SAFETY: `set` wrote the register before any call of this, and nothing else writes it.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) cpu, options(nostack, preserves_flags, readonly));
        (*cpu).number.load(Ordering::Relaxed)
    }
}

/// Gives this CPU its number and its data.
///
/// # Safety
/// Call it once on each CPU, before the CPU takes interrupts, with a number that no other CPU is given.
pub(crate) unsafe fn set(number: usize) {
    let cpu = &CPUS[number];
    cpu.number.store(number, Ordering::Relaxed);
    // SAFETY: only the kernel uses the register.
    unsafe { asm!("msr tpidr_el1, {}", in(reg) core::ptr::from_ref(cpu), options(nostack, preserves_flags)) };
}

/// Puts a thread's number into the register that programs have for a pointer to their thread.
pub(crate) fn set_thread(number: u64) {
    // SAFETY: the kernel does not use the register.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) number, options(nostack, preserves_flags)) };
}
