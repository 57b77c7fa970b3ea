//! The kernel's own locks ([`IrqLock`]): interrupts off, held for a few instructions, and never two at once. The heap's lock is
//! the exception; it is taken under all others. The memory manager's locks are in `memory`.

mod irq;

pub(crate) use irq::{IrqLock, RawIrqLock};

use crate::arch::{clock, Frame};
use crate::report::failure::{self, Kind};

/// How long a CPU waits for another that is doing something short, in nanoseconds.
pub(crate) const PATIENCE: u64 = 10_000_000_000;
/// How often it tries before it looks at the clock.
const TRIES: u32 = 1 << 12;

/// Ends the run: a wait for `what` took too long.
pub(crate) fn give_up(what: &str) -> ! {
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
