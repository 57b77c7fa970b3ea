//! Turning interrupts on and off, waiting for one, and sending them.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use super::{clock, gic};
use crate::threads::cpu::MOST_CPUS;

/// The CPUs' affinities: what they are called by the interrupt controller and by firmware.
static AFFINITIES: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
/// In DAIF: IRQs are masked.
const MASKED: u64 = 1 << 7;

pub(super) fn set_affinity(cpu: usize, affinity: u64) {
    AFFINITIES[cpu].store(affinity, Ordering::Relaxed);
}

pub(super) fn affinity(cpu: usize) -> u64 {
    AFFINITIES[cpu].load(Ordering::Relaxed)
}

/// The affinity of the CPU that executes this: fields Aff3 and Aff2 to Aff0 of `MPIDR_EL1`.
pub(super) fn own_affinity() -> u64 {
    let value: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value & 0xff_00ff_ffff
}

/// Whether they are on.
pub(crate) fn are_on() -> bool {
    let masks: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, daif", out(reg) masks, options(nostack, preserves_flags)) };
    masks & MASKED == 0
}

/// Turns them on.
pub(crate) fn on() {
    // SAFETY: whoever calls this expects interrupts from now on.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Turns them off.
pub(crate) fn off() {
    // SAFETY: interrupts come later.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
}

/// Lets the one interrupt come that stops a CPU wherever it is: from the first moment on that the CPU knows who it is.
pub(super) fn let_be_stopped() {
    // SAFETY: traps lead into the kernel, which then stops.
    unsafe { asm!("msr daifclr, #1", options(nostack, preserves_flags)) };
}

/// Runs `body` with them off.
pub(crate) fn without<R>(body: impl FnOnce() -> R) -> R {
    let were_on = are_on();
    if were_on {
        off();
    }
    let result = body();
    if were_on {
        on();
    }
    result
}

/// Turns them on and stops the CPU until one comes. One that has come since they were turned off is taken at once: a CPU does
/// not wait while one is pending, masked or not.
pub(crate) fn wait() {
    // SAFETY: waits, for what was stored before to be done first.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
    on();
}

/// Asks `cpu` to do what was put into its inbox. All that this CPU stored before is visible there.
pub(crate) fn send_shootdown(cpu: usize) {
    gic::send(gic::number::SHOOTDOWN, affinity(cpu));
}

/// Ends the wait of `cpu`.
pub(crate) fn send_wake(cpu: usize) {
    gic::send(gic::number::WAKE, affinity(cpu));
}

/// Interrupts all others, whether they can be or not.
pub(crate) fn stop_others() {
    gic::stop_others();
}

/// This CPU ticks from now on, each so many milliseconds.
pub(crate) fn start_ticks(milliseconds: u64) {
    clock::start_ticks(milliseconds);
}

/// Stops this CPU for good: it is sent no interrupts any more, for one that is pending would keep it going.
pub(crate) fn stop() {
    gic::disable();
    // SAFETY: waits.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}
