//! The kernel's own locks ([`IrqLock`]). Interrupts are off while one is held. Each is held for a few instructions, and
//! never two at once, except the heap's, which is taken under all others. The locks of the memory manager are in
//! `memory`.

mod irq;

pub(crate) use irq::{IrqLock, RawIrqLock};

use crate::arch::{clock, Frame};
use crate::failure::{self, Kind};

/// How long a CPU waits for another CPU's short operation, in nanoseconds.
pub(crate) const PATIENCE: u64 = 10_000_000_000;
/// How many times a CPU tries before it reads the clock.
const TRIES: u32 = 1 << 12;

/// Ends the run because a wait for `what` took too long.
pub(crate) fn give_up(what: &str) -> ! {
    failure::stop(Kind::Hang, &Frame::here(), format_args!("waited 10 s in vain for {what}"))
}

/// Spins until `done`. If that takes longer than [`PATIENCE`], ends the run with a message that names `what`.
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
