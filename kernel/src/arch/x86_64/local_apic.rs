//! The local APIC (SDM volume 3, chapter 11): interrupts to other CPUs, and this CPU's timer. It is reached through
//! registers of the processor with an x2APIC, and in memory without one.

use x86_64::registers::model_specific::Msr;

use super::features::X2APIC;
use super::memory::direct;

/// The address of the registers in memory unless they were moved, and the first register in the x2APIC's space.
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

/// In the command register: the kinds of delivery, assertion, the destination "all but this CPU", and a delivery under
/// way.
const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const NMI: u32 = 4 << 8;
const ASSERT: u32 = 1 << 14;
const ALL_OTHERS: u32 = 3 << 18;
const PENDING: u32 = 1 << 12;
/// In the spurious-interrupt register: the APIC is on.
const ENABLE: u32 = 1 << 8;
/// In the timer's register: periodic, or masked; and in its divider: by 16.
const PERIODIC: u32 = 1 << 17;
const MASKED: u32 = 1 << 16;
const BY_16: u32 = 3;

fn model_specific(register: Register) -> Msr {
    Msr::new(X2APIC_FIRST + (register as u32 >> 4))
}

fn read(register: Register) -> u32 {
    // SAFETY: the register exists, and reading it has no effect on memory. Its address in memory is mapped all the
    // time.
    unsafe {
        if X2APIC.is_there() {
            model_specific(register).read() as u32
        } else {
            direct::<u32>(MEMORY + register as u64).read_volatile()
        }
    }
}

fn write(register: Register, value: u32) {
    // SAFETY: the register exists, and a write affects interrupts alone.
    unsafe {
        if X2APIC.is_there() {
            model_specific(register).write(u64::from(value));
        } else {
            direct::<u32>(MEMORY + register as u64).write_volatile(value);
        }
    }
}

/// Turns this CPU's APIC on. `spurious` is the vector of spurious interrupts.
pub(crate) fn enable(spurious: u8) {
    let mut base = Msr::new(BASE);
    // SAFETY: turns the APIC on, in the mode that the processor has.
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

/// Keeps interrupts of the class of `vector`, its upper four bits, and of lower classes from this CPU. With 0 all come.
pub(super) fn block_up_to(vector: u8) {
    write(Register::TaskPriority, u32::from(vector & 0xf0));
}

/// The number of this CPU's APIC.
pub(crate) fn id() -> u32 {
    let id = read(Register::Id);
    if X2APIC.is_there() {
        id
    } else {
        id >> 24
    }
}

/// Ends the handling of the present interrupt.
pub(crate) fn end_of_interrupt() {
    write(Register::EndOfInterrupt, 0);
}

fn command(target: u32, low: u32) {
    if X2APIC.is_there() {
        // WRMSR to the APIC does not wait for earlier stores (SDM volume 3, section 11.12.3).
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        // SAFETY: sends an interrupt, for which every CPU has a handler.
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

/// Interrupts the CPU whose APIC has that number. Interrupts must be off: the command takes two stores.
pub(super) fn send(target: u32, vector: u8) {
    command(target, ASSERT | u32::from(vector));
}

/// Sends an NMI to all other CPUs.
pub(super) fn send_nmi_to_others() {
    command(0, ASSERT | ALL_OTHERS | NMI);
}

/// Resets all other CPUs.
pub(super) fn send_init_to_others() {
    command(0, ASSERT | ALL_OTHERS | INIT);
}

/// Starts all other CPUs, after a reset, at `page` of the first MiB.
pub(super) fn send_startup_to_others(page: u8) {
    command(0, ASSERT | ALL_OTHERS | STARTUP | u32::from(page));
}

/// Lets the timer run down once from its highest count, without an interrupt.
pub(super) fn start_count() {
    write(Register::TimerDivide, BY_16);
    write(Register::Timer, MASKED);
    write(Register::TimerInitial, u32::MAX);
}

/// The counts since [`start_count`].
pub(super) fn counted() -> u32 {
    u32::MAX - read(Register::TimerCurrent)
}

/// Starts an interrupt each `count` counts.
pub(super) fn start_ticks(vector: u8, count: u32) {
    write(Register::TimerDivide, BY_16);
    write(Register::Timer, PERIODIC | u32::from(vector));
    write(Register::TimerInitial, count);
}
