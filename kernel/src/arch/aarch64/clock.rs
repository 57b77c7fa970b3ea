//! Time: the generic timer's virtual count, which runs alike on all CPUs and states its own frequency; and this CPU's
//! ticks, from the timer's comparator.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// The interrupt of the virtual timer, private to each CPU (by the Arm Base System Architecture, and on QEMU).
pub(crate) const INTERRUPT: u32 = 27;

/// The count when the kernel started.
static START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds for each count, in units of 2^-32.
static SCALE: AtomicU64 = AtomicU64::new(0);
/// Counts from tick to tick.
static PERIOD: AtomicU64 = AtomicU64::new(0);

fn count() -> u64 {
    let count;
    // SAFETY: reads a register; the barrier keeps the read after earlier instructions.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// Counts in a second.
fn frequency() -> u64 {
    let frequency: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags)) };
    frequency.max(1)
}

/// Nanoseconds since the kernel started.
pub(crate) fn now() -> u64 {
    let passed = count().saturating_sub(START.load(Ordering::Relaxed));
    ((u128::from(passed) * u128::from(SCALE.load(Ordering::Relaxed))) >> 32) as u64
}

/// Notes the start of time.
pub(crate) fn begin() {
    START.store(count(), Ordering::Relaxed);
    SCALE.store(((1_000_000_000_u128 << 32) / u128::from(frequency())) as u64, Ordering::Relaxed);
}

/// Starts this CPU's timer interrupts, one in that many milliseconds, provided that each calls [`next_tick`].
pub(super) fn start_ticks(milliseconds: u64) {
    PERIOD.store(frequency() * milliseconds / 1000, Ordering::Relaxed);
    set_next(count() + PERIOD.load(Ordering::Relaxed));
    // SAFETY: turns the timer on, with its interrupt, from the barrier on.
    unsafe { asm!("msr cntv_ctl_el0, {}", "isb", in(reg) 1_u64, options(nostack, preserves_flags)) };
}

/// Sets the next tick while an interrupt of the timer is handled: a period after the last tick, or after now if that
/// time is past.
pub(crate) fn next_tick() {
    let last: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntv_cval_el0", out(reg) last, options(nomem, nostack, preserves_flags)) };
    let (now, period) = (count(), PERIOD.load(Ordering::Relaxed));
    set_next(if last + period > now { last + period } else { now + period });
}

fn set_next(at: u64) {
    // SAFETY: sets the time of the timer's interrupt, from the barrier on.
    unsafe { asm!("msr cntv_cval_el0, {}", "isb", in(reg) at, options(nostack, preserves_flags)) };
}
