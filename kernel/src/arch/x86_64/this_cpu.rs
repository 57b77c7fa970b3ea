//! The CPU's own data: its address is in the base of GS while the kernel runs.

use core::arch::asm;

use x86_64::registers::model_specific::{GsBase, KernelGsBase};
use x86_64::VirtAddr;

use super::segments::Segments;
use crate::threads::cpu::PerCpu;

/// What the architecture keeps for each CPU; the first of what [`PerCpu`] has, so that GS leads to it.
#[repr(C)]
pub(crate) struct ArchCpu {
    /// Its own address, since a base cannot be read faster than through itself.
    own: core::cell::UnsafeCell<*const PerCpu>,
    pub(super) segments: Segments,
}

// SAFETY: `own` is written once, by its own CPU before it reads it.
unsafe impl Sync for ArchCpu {}

impl ArchCpu {
    pub(crate) const fn new() -> Self {
        Self { own: core::cell::UnsafeCell::new(core::ptr::null()), segments: Segments::new() }
    }
}

/// The data of the CPU that executes this. It stays that CPU's for as long as the thread is not moved: until it sleeps or
/// gives way, which it does nowhere but in the scheduler.
pub(crate) fn get() -> &'static PerCpu {
    let cpu: *const PerCpu;
    // SAFETY: in the kernel GS leads to this CPU's `ArchCpu`, whose first field leads to the `PerCpu` in a static; `set`
    // wrote both before anything could call this.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, preserves_flags, readonly));
        &*cpu
    }
}

/// Makes this CPU the one with that data, and load its descriptor tables.
///
/// # Safety
/// Once on each CPU, before it takes interrupts, with data that no other CPU is given.
pub(super) unsafe fn set(cpu: &'static PerCpu) {
    // SAFETY: the CPU is alone with its data, and takes no interrupt yet; loading segments clears the base, so it comes
    // after. Programs begin with a base of 0.
    unsafe {
        *cpu.arch.own.get() = cpu;
        cpu.arch.segments.load();
    }
    GsBase::write(VirtAddr::from_ptr(&raw const cpu.arch));
    KernelGsBase::write(VirtAddr::zero());
}
