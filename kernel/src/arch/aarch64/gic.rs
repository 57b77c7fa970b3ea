//! The interrupt controller, of version 3 (IHI 0069): one distributor, and for each CPU a redistributor and an
//! interface in registers.
//!
//! Interrupts of group 1 reach a CPU as IRQs, which the kernel turns off and on. Those of group 0 reach it as FIQs,
//! which stay on. Group 0 has one interrupt: it stops a CPU at any instruction, as an NMI does elsewhere.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use super::clock;
use super::memory::direct;

/// Interrupts between CPUs, by number.
pub(crate) mod number {
    pub(crate) const SHOOTDOWN: u32 = 0;
    pub(crate) const WAKE: u32 = 1;
    pub(crate) const STOP: u32 = 2;
    pub(crate) const DOORBELL: u32 = 3;
}

/// Values of the priority mask: interrupts of that priority or a less urgent one, which is a higher number, wait.
pub(super) mod mask {
    pub(crate) const NOTHING: u64 = 0xff;
    pub(crate) const ORDINARY: u64 = super::ORDINARY as u64;
}

/// The address of the redistributors.
static REDISTRIBUTORS: AtomicU64 = AtomicU64::new(0);
/// The end of the redistributors.
static END: AtomicU64 = AtomicU64::new(0);

/// The distributor's control register. Its bits: groups 0 and 1 are on, by affinity; a change is under way.
const CONTROL: u64 = 0;
const ON: u32 = 1 | 1 << 1 | 1 << 4;
const PENDING: u32 = 1 << 31;

/// The distance from one redistributor to the next, and to its second frame, which is for the CPU's own interrupts.
const STRIDE: u64 = 0x2_0000;
const OWN: u64 = 0x1_0000;
/// Registers of a redistributor.
const TYPE: u64 = 0x08;
const WAKER: u64 = 0x14;
const GROUP: u64 = OWN + 0x80;
const ENABLE: u64 = OWN + 0x100;
const PRIORITY: u64 = OWN + 0x400;
/// In the type: the last redistributor. In the waker: the CPU sleeps, and the redistributor has noticed it.
const LAST: u64 = 1 << 4;
const SLEEP: u32 = 1 << 1;
const ASLEEP: u32 = 1 << 2;
/// The priority of all interrupts except two: the doorbell comes before them, and the one that stops a CPU before all.
const ORDINARY: u8 = 0xa0;
const URGENT: u8 = 0x80;

/// The number of a spurious interrupt. No number from here on is an interrupt.
const NONE: u32 = 1020;

fn read(address: u64) -> u32 {
    // SAFETY: a register of the controller, which is mapped all the time; reading it touches no memory.
    unsafe { direct::<u32>(address).read_volatile() }
}

fn write(address: u64, value: u32) {
    // SAFETY: a register of the controller; a write affects interrupts alone.
    unsafe { direct::<u32>(address).write_volatile(value) };
}

/// Sets the addresses of the distributor and of the redistributors with their bytes, and turns the distributor on.
pub(crate) fn set_place(distributor: u64, (redistributors, bytes): (u64, u64)) {
    REDISTRIBUTORS.store(redistributors, Ordering::Relaxed);
    END.store(redistributors + bytes, Ordering::Relaxed);
    write(distributor + CONTROL, ON);
    while read(distributor + CONTROL) & PENDING != 0 {
        core::hint::spin_loop();
    }
}

/// The redistributor of the CPU with that affinity.
fn redistributor(affinity: u64) -> Option<u64> {
    // Aff3 comes right after the others there.
    let wanted = affinity >> 32 << 24 | affinity & 0xff_ffff;
    let mut at = REDISTRIBUTORS.load(Ordering::Relaxed);
    while at < END.load(Ordering::Relaxed) {
        // SAFETY: as in `read`.
        let kind = unsafe { direct::<u64>(at + TYPE).read_volatile() };
        if kind >> 32 == wanted {
            return Some(at);
        }
        if kind & LAST != 0 {
            break;
        }
        at += STRIDE;
    }
    None
}

/// Turns on the interrupts of this CPU, which has that affinity. Returns whether it has a redistributor.
pub(crate) fn enable(affinity: u64) -> bool {
    let Some(own) = redistributor(affinity) else { return false };
    write(own + WAKER, read(own + WAKER) & !SLEEP);
    while read(own + WAKER) & ASLEEP != 0 {
        core::hint::spin_loop();
    }
    write(own + GROUP, !(1 << number::STOP));
    let ordinary = [number::SHOOTDOWN, number::WAKE, clock::INTERRUPT].map(|interrupt| (interrupt, ORDINARY));
    let all = ordinary.into_iter().chain([(number::DOORBELL, URGENT), (number::STOP, 0)]);
    let mut enabled = 0;
    for (interrupt, priority) in all {
        enabled |= 1 << interrupt;
        // SAFETY: as in `write`; priorities have a byte each.
        unsafe { direct::<u8>(own + PRIORITY + u64::from(interrupt)).write_volatile(priority) };
    }
    write(own + ENABLE, enabled);
    // SAFETY: turns the interface on, for both groups and all priorities.
    unsafe {
        asm!("msr icc_sre_el1, {}", "isb", in(reg) 7_u64, options(nostack, preserves_flags));
        asm!("msr icc_pmr_el1, {}", in(reg) mask::NOTHING, options(nostack, preserves_flags));
        asm!("msr icc_igrpen0_el1, {}", in(reg) 1_u64, options(nostack, preserves_flags));
        asm!("msr icc_igrpen1_el1, {}", "isb", in(reg) 1_u64, options(nostack, preserves_flags));
    }
    true
}

/// Sets this CPU's priority mask, to a value of [`mask`].
pub(super) fn set_mask(mask: u64) {
    // SAFETY: interrupts are delayed. The barriers make the controller know the mask before the CPU halts.
    unsafe {
        asm!("msr icc_pmr_el1, {}", "isb", "dsb sy", in(reg) mask, options(nostack, preserves_flags));
    }
}

/// Turns this CPU's interface off.
pub(super) fn disable() {
    // SAFETY: no interrupt reaches the CPU.
    unsafe {
        asm!(
            "msr icc_igrpen0_el1, xzr",
            "msr icc_igrpen1_el1, xzr",
            "isb",
            options(nostack, preserves_flags)
        );
    }
}

/// The interrupt that has come as an IRQ. Its handling begins here. Litmus: `interrupt.carries` needs the DSB, since a read
/// of `ICC_IAR1_EL1` orders nothing (IHI 0069).
pub(crate) fn begin() -> Option<u32> {
    let number: u64;
    // SAFETY: acknowledges the interrupt. The barrier makes the controller know it before the handler does anything.
    unsafe { asm!("mrs {}, icc_iar1_el1", "dsb sy", out(reg) number, options(nostack, preserves_flags)) };
    Some(number as u32).filter(|&number| number < NONE)
}

/// Ends the handling of an interrupt.
pub(crate) fn end(number: u32) {
    // SAFETY: lets the next interrupt come.
    unsafe {
        asm!("msr icc_eoir1_el1, {}", "isb", in(reg) u64::from(number), options(nostack, preserves_flags));
    }
}

/// The command that sends an interrupt to the CPU with that affinity.
fn request(number: u32, affinity: u64) -> u64 {
    let [aff0, aff1, aff2, _, aff3, ..] = affinity.to_le_bytes().map(u64::from);
    // 16 neighbours have a bit each; further ones are selected in groups of 16.
    aff3 << 48 | (aff0 >> 4) << 44 | aff2 << 32 | u64::from(number) << 24 | aff1 << 16 | 1 << (aff0 & 15)
}

/// Interrupts the CPU with that affinity. It sees all that this CPU stored before: litmus `interrupt.carries` needs the
/// DSB. The ISB makes the write take effect at once (IHI 0069).
pub(super) fn send(number: u32, affinity: u64) {
    // SAFETY: sends an interrupt, for which every CPU has a handler. Writes to registers do not wait for earlier
    // stores, so a barrier comes first.
    unsafe {
        asm!("dsb ishst", "msr icc_sgi1r_el1, {}", "isb", in(reg) request(number, affinity), options(nostack, preserves_flags));
    }
}

/// Stops all other CPUs, even those with interrupts off.
pub(super) fn stop_others() {
    const ALL_OTHERS: u64 = 1 << 40;
    let request = ALL_OTHERS | u64::from(number::STOP) << 24;
    // SAFETY: as above.
    unsafe {
        asm!("dsb ishst", "msr icc_sgi0r_el1, {}", "isb", in(reg) request, options(nostack, preserves_flags));
    }
}
