//! Waiting for the answers of other CPUs to an interrupt.

use core::sync::atomic::{fence, Ordering};

use crate::arch::{clock, interrupts, this_cpu};
use crate::lock::{give_up, PATIENCE};
use crate::threads::cpu::PerCpu;

/// How often a CPU looks before it stops until it is woken.
const LOOKS: u32 = 1 << 8;

/// Waits until `done`, answering interrupts, for something after which [`wake`] is called. On a machine of its own that takes
/// a moment. Where CPUs are emulated by fewer it may take long, and who spins keeps the others from running: so this CPU stops
/// after a while until it is woken.
pub(crate) fn halt_until(what: &str, done: &dyn Fn() -> bool) {
    for _ in 0..LOOKS {
        if done() {
            return;
        }
        core::hint::spin_loop();
    }
    let here = this_cpu::get();
    let deadline = clock::now() + PATIENCE;
    loop {
        interrupts::off();
        // Either whoever wakes sees this, or this CPU sees what was done before.
        here.stopped_for_answers.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if done() {
            break;
        }
        interrupts::wait();
        if clock::now() > deadline {
            give_up(what);
        }
    }
    here.stopped_for_answers.store(false, Ordering::Relaxed);
    interrupts::on();
}

/// Ends the wait of a CPU, if it has stopped for that.
pub(crate) fn wake(cpu: &PerCpu) {
    fence(Ordering::SeqCst);
    if cpu.stopped_for_answers.swap(false, Ordering::Relaxed) {
        interrupts::send_wake(cpu.number());
    }
}
