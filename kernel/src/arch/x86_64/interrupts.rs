//! Turning interrupts on and off, waiting for one, and sending them.

use core::sync::atomic::{AtomicU32, Ordering};

use x86_64::instructions::interrupts as processor;
use x86_64::instructions::port::Port;

use super::{clock, local_apic};
use crate::threads::cpu::MOST_CPUS;

/// The vectors of interrupts.
pub(super) mod vector {
    pub(crate) const TICK: u8 = 0x20;
    pub(crate) const SHOOTDOWN: u8 = 0x21;
    pub(crate) const WAKE: u8 = 0x22;
    pub(crate) const SYSTEM_CALL: u8 = 0x80;
    pub(crate) const SPURIOUS: u8 = 0xff;
}

/// The numbers of the CPUs' local APICs.
static APICS: [AtomicU32; MOST_CPUS] = [const { AtomicU32::new(0) }; MOST_CPUS];

pub(super) fn set_apic(cpu: usize, id: u32) {
    APICS[cpu].store(id, Ordering::Relaxed);
}

pub(super) fn cpu_of_apic(id: u32) -> Option<usize> {
    APICS.iter().position(|apic| apic.load(Ordering::Relaxed) == id)
}

/// Keeps the interrupt controllers of old (8259) quiet for good: nothing here hangs on them, and as firmware leaves them their
/// interrupts look like exceptions.
pub(super) fn mask_old_controllers() {
    for port in [0x21, 0xa1] {
        // SAFETY: the controllers' mask registers; no memory is concerned.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Whether they are on.
pub(crate) fn are_on() -> bool {
    processor::are_enabled()
}

/// Turns them on.
pub(crate) fn on() {
    processor::enable();
}

/// Turns them off.
pub(crate) fn off() {
    processor::disable();
}

/// Runs `body` with them off.
pub(crate) fn without<R>(body: impl FnOnce() -> R) -> R {
    processor::without_interrupts(body)
}

/// Turns them on and stops the CPU until one comes. One that has come since they were turned off is taken at once: the
/// instruction after STI belongs to it.
pub(crate) fn wait() {
    processor::enable_and_hlt();
}

/// Asks `cpu` to do what was put into its inbox. All that this CPU stored before is visible there.
pub(crate) fn send_shootdown(cpu: usize) {
    send(cpu, vector::SHOOTDOWN);
}

/// Ends the wait of `cpu`.
pub(crate) fn send_wake(cpu: usize) {
    send(cpu, vector::WAKE);
}

fn send(cpu: usize, vector: u8) {
    without(|| local_apic::send(APICS[cpu].load(Ordering::Relaxed), vector));
}

/// Interrupts all others, whether they can be or not.
pub(crate) fn stop_others() {
    local_apic::send_nmi_to_others();
}

/// This CPU ticks from now on, each so many milliseconds.
pub(crate) fn start_ticks(milliseconds: u64) {
    local_apic::start_ticks(vector::TICK, clock::apic_counts(milliseconds));
}

/// Stops this CPU for good, if they are off.
pub(crate) fn stop() {
    x86_64::instructions::hlt();
}
