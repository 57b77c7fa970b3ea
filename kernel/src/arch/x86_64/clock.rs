//! Time: the time-stamp counter, measured once against the timer of every PC (the 8254).

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::instructions::port::Port;

use super::local_apic;

/// The 8254 counts down at this frequency, in Hz.
const TIMER_HZ: u64 = 1_193_182;
/// The length of the measurement in its counts: about 20 ms.
const SPAN: u64 = 23_864;
/// The longest valid reading of both clocks, in cycles. A longer one means that the emulator was suspended in between.
const BELIEVED: u64 = 200_000;

/// The counter's value when the kernel started.
static START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds for each cycle, in units of 2^-32.
static SCALE: AtomicU64 = AtomicU64::new(0);
/// Counts of the local APIC's timer in a millisecond.
static APIC_PER_MS: AtomicU64 = AtomicU64::new(0);

fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it is allowed here at every privilege level.
    unsafe { _rdtsc() }
}

/// Nanoseconds since the kernel started. The counters of all CPUs run alike.
pub(crate) fn now() -> u64 {
    let passed = cycles().saturating_sub(START.load(Ordering::Relaxed));
    ((u128::from(passed) * u128::from(SCALE.load(Ordering::Relaxed))) >> 32) as u64
}

/// Notes the start of time.
pub(crate) fn begin() {
    START.store(cycles(), Ordering::Relaxed);
}

/// Measures the clocks. The local APIC must be on.
pub(crate) fn measure() {
    let (first, last) = loop {
        let mut timer = Timer::start();
        local_apic::start_count();
        let first = timer.read();
        let mut last = first;
        while first.1.saturating_sub(last.1) < SPAN && !timer.has_ended() {
            last = timer.read();
        }
        // The timer counts on from the top, so the count is invalid if the machine was suspended until then.
        if !timer.has_ended() {
            break (first, last);
        }
    };
    let ((first_cycle, first_count, first_apic), (last_cycle, last_count, last_apic)) = (first, last);
    let (passed, cycles) = (first_count - last_count, last_cycle - first_cycle);
    let nanoseconds = passed * 1_000_000_000 / TIMER_HZ;
    SCALE.store(((u128::from(nanoseconds) << 32) / u128::from(cycles)) as u64, Ordering::Relaxed);
    APIC_PER_MS.store(u64::from(last_apic - first_apic) * 1_000_000 / nanoseconds, Ordering::Relaxed);
}

/// The counts of the local APIC's timer in that many milliseconds.
pub(super) fn apic_counts(milliseconds: u64) -> u32 {
    (APIC_PER_MS.load(Ordering::Relaxed) * milliseconds) as u32
}

/// The 8254's third counter, which causes no interrupt.
struct Timer {
    data: Port<u8>,
    command: Port<u8>,
    gate: Port<u8>,
}

impl Timer {
    /// Starts it from the top.
    fn start() -> Self {
        let (mut data, mut command, mut gate) = (Port::new(0x42), Port::new(0x43), Port::<u8>::new(0x61));
        // SAFETY: these ports are the timer's. The third counter drives the speaker, which stays off.
        unsafe {
            let value = gate.read();
            gate.write(value & !2 | 1);
            // Counter 2, both bytes, once, binary.
            command.write(0b1011_0000_u8);
            data.write(0xff_u8);
            data.write(0xff_u8);
        }
        Self { data, command, gate }
    }

    /// Whether it has reached zero; its output stays high from then on.
    fn has_ended(&mut self) -> bool {
        const OUTPUT: u8 = 1 << 5;
        // SAFETY: reading the port has no effect.
        unsafe { self.gate.read() & OUTPUT != 0 }
    }

    /// All clocks at one moment: cycles, the rest of the counter, and the count of the local APIC.
    fn read(&mut self) -> (u64, u64, u32) {
        loop {
            let before = cycles();
            // SAFETY: latching and reading the counter has no other effect.
            let count = unsafe {
                self.command.write(0b1000_0000_u8);
                u64::from(self.data.read()) | u64::from(self.data.read()) << 8
            };
            let apic = local_apic::counted();
            if cycles() - before < BELIEVED {
                return (before, count, apic);
            }
        }
    }
}
