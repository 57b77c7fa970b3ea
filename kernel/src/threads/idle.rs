//! The idle thread of each CPU.

use crate::arch::interrupts;
use crate::threads::{cpu, offline, schedule};

/// The loop of a CPU that has nothing to run.
pub(crate) fn idle() -> ! {
    loop {
        interrupts::off();
        let here = cpu::here();
        if here.presence.is_leaving() {
            offline::stay_away(here);
        }
        if !schedule::run_waiting(here) {
            interrupts::wait();
        }
    }
}
