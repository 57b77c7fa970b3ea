//! Interrupts: on and off, waiting for one, and sending them.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use super::{clock, gic};
use crate::arch::cpus::MOST_CPUS;

/// The CPUs' affinities, their names in the interrupt controller and in firmware.
static AFFINITIES: [AtomicU64; MOST_CPUS] = [const { AtomicU64::new(0) }; MOST_CPUS];
/// In DAIF: IRQs are masked.
const MASKED: u64 = 1 << 7;

pub(crate) fn set_affinity(cpu: usize, affinity: u64) {
    AFFINITIES[cpu].store(affinity, Ordering::Relaxed);
}

pub(super) fn affinity(cpu: usize) -> u64 {
    AFFINITIES[cpu].load(Ordering::Relaxed)
}

/// The affinity of the running CPU: fields Aff3 and Aff2 to Aff0 of `MPIDR_EL1`.
pub(crate) fn own_affinity() -> u64 {
    let value: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value & 0xff_00ff_ffff
}

/// Whether interrupts are on.
pub(crate) fn are_on() -> bool {
    let masks: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, daif", out(reg) masks, options(nostack, preserves_flags)) };
    masks & MASKED == 0
}

/// Turns interrupts on.
pub(crate) fn on() {
    // SAFETY: every caller expects interrupts from now on.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Turns interrupts off.
pub(crate) fn off() {
    // SAFETY: interrupts are delayed.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
}

/// Unmasks the interrupt that stops a CPU, as soon as the CPU has its data.
pub(crate) fn let_be_stopped() {
    // SAFETY: a trap leads into the kernel, which then stops.
    unsafe { asm!("msr daifclr, #1", options(nostack, preserves_flags)) };
}

/// Runs `body` with interrupts off.
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

/// Turns interrupts on and halts the CPU until one comes. An interrupt that came while they were off is taken at once,
/// because a CPU does not halt while one is pending, masked or not.
pub(crate) fn wait() {
    // SAFETY: halts, after all earlier stores are done.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
    on();
}

/// Interrupts `cpu`, which then answers the requests in its inbox. It sees all that this CPU stored before.
pub(crate) fn send_shootdown(cpu: usize) {
    gic::send(gic::number::SHOOTDOWN, affinity(cpu));
}

/// Ends the halt of `cpu`.
pub(crate) fn send_wake(cpu: usize) {
    gic::send(gic::number::WAKE, affinity(cpu));
}

/// Ends the halt of `cpu`, also while it admits nothing else.
pub(crate) fn send_doorbell(cpu: usize) {
    gic::send(gic::number::DOORBELL, affinity(cpu));
}

/// The interrupts that reach this CPU while they are on. Others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admitted {
    All,
    /// Those of [`send_doorbell`].
    Doorbell,
}

/// Sets which interrupts reach this CPU.
pub(crate) fn admit(admitted: Admitted) {
    gic::set_mask(match admitted {
        Admitted::All => gic::mask::NOTHING,
        Admitted::Doorbell => gic::mask::ORDINARY,
    });
}

/// Stops all other CPUs, even those with interrupts off.
pub(crate) fn stop_others() {
    gic::stop_others();
}

/// Starts this CPU's ticks, one in that many milliseconds.
pub(crate) fn start_ticks(milliseconds: u64) {
    clock::start_ticks(milliseconds);
}

/// Halts this CPU for good. Its interface is turned off first, since a pending interrupt would keep it running.
pub(crate) fn stop() {
    gic::disable();
    // SAFETY: halts.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}
