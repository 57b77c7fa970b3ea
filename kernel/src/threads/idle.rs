//! The idle thread of each CPU.

use crate::arch::{interrupts, this_cpu};
use crate::threads::{offline, schedule};

/// The loop of a CPU that has nothing to run.
pub(crate) fn idle() -> ! {
    loop {
        interrupts::off();
        let here = this_cpu::get();
        if here.presence.is_leaving() {
            offline::stay_away(here);
        }
        if !schedule::run_waiting(here) {
            interrupts::wait();
        }
    }
}
