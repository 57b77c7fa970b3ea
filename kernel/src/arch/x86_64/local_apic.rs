//! The local APIC (SDM volume 3, chapter 11): interrupts to other CPUs, and this one's timer. Through registers of the
//! processor where it has an x2APIC, in memory where not.

use x86_64::registers::model_specific::Msr;

use super::features::X2APIC;
use super::memory::direct;

/// Where the registers are in memory, unless somebody moved them, and their first in the x2APIC's space.
const MEMORY: u64 = 0xfee0_0000;
const X2APIC_FIRST: u32 = 0x800;
/// `IA32_APIC_BASE`, and its bits that turn on the APIC and the x2APIC.
const BASE: u32 = 0x1b;
const ON: u64 = 1 << 11;
const X2APIC_ON: u64 = 1 << 10;

/// Registers, by their offset in memory.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Register {
    Id = 0x20,
    TaskPriority = 0x80,
    EndOfInterrupt = 0xb0,
    Spurious = 0xf0,
    Command = 0x300,
    CommandHigh = 0x310,
    Timer = 0x320,
    TimerInitial = 0x380,
    TimerCurrent = 0x390,
    TimerDivide = 0x3e0,
}

/// In the command register: how it is delivered, that it is asserted, to all but this CPU, and that it is under way.
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const NMI: u32 = 4 << 8;
const ASSERT: u32 = 1 << 14;
const ALL_OTHERS: u32 = 3 << 18;
const PENDING: u32 = 1 << 12;
/// In the spurious-interrupt register: the APIC is on.
const ENABLE: u32 = 1 << 8;
/// In the timer's register: again and again; and in its divider: by 16.
const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;
const BY_16: u32 = 3;

fn model_specific(register: Register) -> Msr {
    Msr::new(X2APIC_FIRST + (register as u32 >> 4))
}

fn read(register: Register) -> u32 {
    // SAFETY: the register exists and reading it has no effect on memory; in memory it is mapped all the time.
    unsafe {
        if X2APIC.is_there() {
            model_specific(register).read() as u32
        } else {
            direct::<u32>(MEMORY + register as u64).read_volatile()
        }
    }
}

fn write(register: Register, value: u32) {
    // SAFETY: the register exists; what is written affects interrupts alone.
    unsafe {
        if X2APIC.is_there() {
            model_specific(register).write(u64::from(value));
        } else {
            direct::<u32>(MEMORY + register as u64).write_volatile(value);
        }
    }
}

/// Turns this CPU's on. `spurious` is the vector of interrupts that were none after all.
pub(super) fn enable(spurious: u8) {
    let mut base = Msr::new(BASE);
    // SAFETY: turning the APIC on, in the mode that the processor has.
    unsafe {
        let value = base.read() | ON;
        base.write(value);
        if X2APIC.is_there() {
            base.write(value | X2APIC_ON);
        }
    }
    write(Register::TaskPriority, 0);
    write(Register::Spurious, ENABLE | u32::from(spurious));
}

/// This CPU's own number.
pub(super) fn id() -> u32 {
    let id = read(Register::Id);
    if X2APIC.is_there() {
        id
    } else {
        id >> 24
    }
}

/// The interrupt that is being handled is done.
pub(super) fn end_of_interrupt() {
    write(Register::EndOfInterrupt, 0);
}

fn command(target: u32, low: u32) {
    if X2APIC.is_there() {
        // WRMSR to the APIC does not wait for earlier stores (SDM volume 3, section 11.12.3).
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        // SAFETY: sending an interrupt; whoever gets it knows what to do.
        unsafe {
            core::arch::asm!("mfence", "lfence", options(nostack, preserves_flags));
            model_specific(Register::Command).write(u64::from(target) << 32 | u64::from(low));
        }
    } else {
        while read(Register::Command) & PENDING != 0 {
            core::hint::spin_loop();
        }
        write(Register::CommandHigh, target << 24);
        write(Register::Command, low);
    }
}

/// Interrupts the CPU whose APIC has that number. With interrupts off: the command takes two stores.
pub(super) fn send(target: u32, vector: u8) {
    command(target, ASSERT | u32::from(vector));
}

/// An NMI to all other CPUs.
pub(super) fn send_nmi_to_others() {
    command(0, ASSERT | ALL_OTHERS | NMI);
}

/// Resets all other CPUs.
pub(super) fn send_init_to_others() {
    command(0, ASSERT | ALL_OTHERS | INIT);
}

/// Lets all other CPUs that were reset begin at `page` of the first MiB.
pub(super) fn send_startup_to_others(page: u8) {
    command(0, ASSERT | ALL_OTHERS | STARTUP | u32::from(page));
}

/// Lets the timer run down once, without an interrupt, from as much as there is.
pub(super) fn start_count() {
    write(Register::TimerDivide, BY_16);
    write(Register::Timer, MASKED);
    write(Register::TimerInitial, u32::MAX);
}

/// How far it has run since [`start_count`].
pub(super) fn counted() -> u32 {
    u32::MAX - read(Register::TimerCurrent)
}

/// An interrupt each `count`.
pub(super) fn start_ticks(vector: u8, count: u32) {
    write(Register::TimerDivide, BY_16);
    write(Register::Timer, PERIODIC | u32::from(vector));
    write(Register::TimerInitial, count);
}
