//! The number of the running CPU, and the architecture's data for it. Their address is in the base of GS while the
//! kernel runs.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use x86_64::registers::model_specific::{FsBase, GsBase, KernelGsBase};
use x86_64::VirtAddr;

use super::segments::Segments;
use crate::arch::cpus::MOST_CPUS;

/// The architecture's data for each CPU.
#[repr(C)]
struct ArchCpu {
    /// Must be the first field: [`number`] reads it through GS.
    number: AtomicUsize,
    segments: Segments,
}

static CPUS: [ArchCpu; MOST_CPUS] =
    [const { ArchCpu { number: AtomicUsize::new(0), segments: Segments::new() } }; MOST_CPUS];

/// The number of the running CPU. It remains valid for the thread until it sleeps or gives way, since only the
/// scheduler moves a thread.
pub(crate) fn number() -> usize {
    let number: usize;
    // SAFETY: in the kernel GS leads to this CPU's `ArchCpu`, whose first field is the number. `set` wrote both before
    // any call of this.
    unsafe { asm!("mov {}, gs:[0]", out(reg) number, options(nostack, preserves_flags, readonly)) };
    number
}

/// This CPU's descriptor tables.
pub(super) fn segments() -> &'static Segments {
    &CPUS[number()].segments
}

/// Gives this CPU its number and its data, and loads its descriptor tables.
///
/// # Safety
/// Call it once on each CPU, before the CPU takes interrupts, with a number that no other CPU is given.
pub(crate) unsafe fn set(number: usize) {
    let cpu = &CPUS[number];
    cpu.number.store(number, Ordering::Relaxed);
    // SAFETY: no other CPU uses the tables, and this one takes no interrupt yet. Loading segments clears the base, so
    // the base is set after it. Programs begin with a base of 0.
    unsafe { cpu.segments.load() };
    GsBase::write(VirtAddr::from_ptr(cpu));
    KernelGsBase::write(VirtAddr::zero());
}

/// Puts a thread's number into the register that programs have for a pointer to their thread.
pub(crate) fn set_thread(number: u64) {
    FsBase::write(VirtAddr::new(number));
}
