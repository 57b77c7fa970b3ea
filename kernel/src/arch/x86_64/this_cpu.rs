//! The CPU's own data. Its address is in the base of GS while the kernel runs.

use core::arch::asm;

use x86_64::registers::model_specific::{GsBase, KernelGsBase};
use x86_64::VirtAddr;

use super::segments::Segments;
use crate::threads::cpu::PerCpu;

/// The architecture's data for each CPU. It is the first field of [`PerCpu`], so that GS leads to it.
#[repr(C)]
pub(crate) struct ArchCpu {
    /// Its own address, because reading through the base is the fastest way to learn the base.
    own: core::cell::UnsafeCell<*const PerCpu>,
    pub(super) segments: Segments,
}

// SAFETY: its own CPU writes `own` once, before it reads it.
unsafe impl Sync for ArchCpu {}

impl ArchCpu {
    pub(crate) const fn new() -> Self {
        Self { own: core::cell::UnsafeCell::new(core::ptr::null()), segments: Segments::new() }
    }
}

/// The data of the running CPU. They remain valid for the thread until it sleeps or gives way, since only the scheduler
/// moves a thread.
pub(crate) fn get() -> &'static PerCpu {
    let cpu: *const PerCpu;
    // SAFETY: in the kernel GS leads to this CPU's `ArchCpu`, whose first field leads to the `PerCpu` in a static.
    // `set` wrote both before any call of this.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, preserves_flags, readonly));
        &*cpu
    }
}

/// Gives this CPU its data, and loads its descriptor tables.
///
/// # Safety
/// Call it once on each CPU, before the CPU takes interrupts, with data that no other CPU is given.
pub(super) unsafe fn set(cpu: &'static PerCpu) {
    // SAFETY: no other CPU uses the data, and this one takes no interrupt yet. Loading segments clears the base, so the
    // base is set after it. Programs begin with a base of 0.
    unsafe {
        *cpu.arch.own.get() = cpu;
        cpu.arch.segments.load();
    }
    GsBase::write(VirtAddr::from_ptr(&raw const cpu.arch));
    KernelGsBase::write(VirtAddr::zero());
}
