//! Interrupts: on and off, waiting for one, and sending them.

use core::sync::atomic::{AtomicU32, Ordering};

use x86_64::instructions::interrupts as processor;
use x86_64::instructions::port::Port;

use super::{clock, local_apic};
use crate::arch::cpus::MOST_CPUS;

/// The vectors of interrupts.
pub(crate) mod vector {
    pub(crate) const TICK: u8 = 0x20;
    pub(crate) const SHOOTDOWN: u8 = 0x21;
    pub(crate) const WAKE: u8 = 0x22;
    /// Of a higher class than those above: see [`super::admit`].
    pub(crate) const DOORBELL: u8 = 0x30;
    pub(crate) const SYSTEM_CALL: u8 = 0x80;
    pub(crate) const SPURIOUS: u8 = 0xff;
}

/// The numbers of the CPUs' local APICs.
static APICS: [AtomicU32; MOST_CPUS] = [const { AtomicU32::new(0) }; MOST_CPUS];

pub(super) fn set_apic(cpu: usize, id: u32) {
    APICS[cpu].store(id, Ordering::Relaxed);
}

pub(crate) fn cpu_of_apic(id: u32) -> Option<usize> {
    APICS.iter().position(|apic| apic.load(Ordering::Relaxed) == id)
}

/// Masks the old interrupt controllers (8259) for good. Nothing is connected to them, and as firmware leaves them their
/// interrupts look like exceptions.
pub(crate) fn mask_old_controllers() {
    for port in [0x21, 0xa1] {
        // SAFETY: the controllers' mask registers touch no memory.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Whether interrupts are on.
pub(crate) fn are_on() -> bool {
    processor::are_enabled()
}

/// Turns interrupts on.
pub(crate) fn on() {
    processor::enable();
}

/// Turns interrupts off.
pub(crate) fn off() {
    processor::disable();
}

/// Runs `body` with interrupts off.
pub(crate) fn without<R>(body: impl FnOnce() -> R) -> R {
    processor::without_interrupts(body)
}

/// Turns interrupts on and halts the CPU until one comes. An interrupt that came while they were off is taken at once,
/// because the instruction after STI still runs before any interrupt.
pub(crate) fn wait() {
    processor::enable_and_hlt();
}

/// Interrupts `cpu`, which then answers the requests in its inbox. It sees all that this CPU stored before.
pub(crate) fn send_shootdown(cpu: usize) {
    send(cpu, vector::SHOOTDOWN);
}

/// Ends the halt of `cpu`.
pub(crate) fn send_wake(cpu: usize) {
    send(cpu, vector::WAKE);
}

fn send(cpu: usize, vector: u8) {
    without(|| local_apic::send(APICS[cpu].load(Ordering::Relaxed), vector));
}

/// Ends the halt of `cpu`, also while it admits nothing else.
pub(crate) fn send_doorbell(cpu: usize) {
    send(cpu, vector::DOORBELL);
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
    local_apic::block_up_to(match admitted {
        Admitted::All => 0,
        Admitted::Doorbell => vector::WAKE,
    });
}

/// Stops all other CPUs, even those with interrupts off.
pub(crate) fn stop_others() {
    local_apic::send_nmi_to_others();
}

/// Starts this CPU's ticks, one in that many milliseconds.
pub(crate) fn start_ticks(milliseconds: u64) {
    local_apic::start_ticks(vector::TICK, clock::apic_counts(milliseconds));
}

/// Halts this CPU for good if interrupts are off.
pub(crate) fn stop() {
    x86_64::instructions::hlt();
}
