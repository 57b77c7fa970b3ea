//! Locks.
//!
//! The memory manager's come in two kinds, and its lock classes say which they want: [`Spin`] for what is held for a short
//! time, with interrupts off where the class says so, and [`Sleep`] for what is held while its holder may sleep. Their order
//! is written down in `ceasefire_memory::locks`, and checked in debug builds. The kernel's own are all of one kind,
//! [`IrqLock`]: interrupts off, held for a few instructions, and never two at once, but for the heap's, which is taken under
//! all others.

mod irq;
mod sleep;
mod spin;

pub(crate) use irq::{IrqLock, RawIrqLock};
pub(crate) use sleep::Sleep;
pub(crate) use spin::Spin;

use crate::arch::{clock, Frame};
use crate::failure::{self, Kind};

/// How long a CPU waits for another that is doing something short, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
/// How often it tries before it looks at the clock.
const TRIES: u32 = 1 << 12;

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
            failure::stop(Kind::Hang, &Frame::here(), format_args!("waited for {what} in vain for 10 s"));
        }
    }
}
