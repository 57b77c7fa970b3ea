//! The kernel's own locks ([`IrqLock`]): interrupts off, held for a few instructions, and never two at once. The heap's lock is
//! the exception; it is taken under all others. The memory manager's locks are in `memory`.

mod irq;

pub(crate) use irq::{IrqLock, RawIrqLock};

use core::sync::atomic::{fence, Ordering};

use crate::arch::{clock, interrupts, this_cpu, Frame};
use crate::report::failure::{self, Kind};
use crate::threads::cpu::PerCpu;

/// How long a CPU waits for another that is doing something short, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
/// How often it tries before it looks at the clock.
const TRIES: u32 = 1 << 12;

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

fn give_up(what: &str) -> ! {
    failure::stop(Kind::Hang, &Frame::here(), format_args!("waited for {what} in vain for 10 s"))
}

/// Spins until `done`. Something is wrong if that takes seconds: the run ends then, and `what` says what was waited for.
pub(crate) fn spin_until(what: &str, mut done: impl FnMut() -> bool) {
    let mut deadline = None;
    loop {
        for _ in 0..TRIES {
            if done() {
                return;
            }
            core::hint::spin_loop();
        }
        let now = clock::now();
        if now > *deadline.get_or_insert(now + PATIENCE) {
            give_up(what);
        }
    }
}
