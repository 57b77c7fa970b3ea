//! Answering the interrupts of other CPUs, and waiting for their answers.

use core::sync::atomic::{fence, Ordering};

use crate::arch::interrupts;
use crate::lock::give_up;
use crate::manager::memory;
use crate::patience;
use crate::threads::cpu::{self, PerCpu};

/// How many times a CPU looks before it halts until it is woken.
const LOOKS: u32 = 1 << 8;

/// Waits until `done`, answering interrupts; a call of [`wake`] must follow the change. With a host processor for each
/// CPU the wait is short. Where fewer processors emulate the CPUs, a spinning CPU takes time from the others, so this
/// CPU halts after some looks until it is woken.
pub(crate) fn halt_until(what: &str, done: &dyn Fn() -> bool) {
    for _ in 0..LOOKS {
        if done() {
            return;
        }
        core::hint::spin_loop();
    }
    let here = cpu::here();
    let ticks = || here.ticks.load(Ordering::Relaxed);
    let last = ticks() + patience::TICKS;
    loop {
        interrupts::off();
        // Either the waking CPU sees this store, or this CPU sees the change in `done`.
        here.stopped_for_answers.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if done() {
            break;
        }
        interrupts::wait();
        if ticks() > last {
            give_up(what);
        }
    }
    here.stopped_for_answers.store(false, Ordering::Relaxed);
    interrupts::on();
}

/// Ends the wait of a CPU if it has halted in [`halt_until`].
pub(crate) fn wake(cpu: &PerCpu) {
    fence(Ordering::SeqCst);
    if cpu.stopped_for_answers.swap(false, Ordering::Relaxed) {
        interrupts::send_wake(cpu.number());
    }
}

/// Answers the requests of other CPUs.
pub(crate) fn answer() {
    let here = cpu::here();
    here.answering.store(true, Ordering::Relaxed);
    memory().engine().handle_interrupt();
    here.answering.store(false, Ordering::Relaxed);
}
