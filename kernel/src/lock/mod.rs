//! The kernel's own locks ([`IrqLock`]). Interrupts are off while one is held. Each is held for a few instructions, and
//! never two at once, except the heap's, which is taken under all others. The locks of the memory manager are in
//! `memory`.

mod irq;

pub(crate) use irq::{IrqLock, RawIrqLock};

use crate::arch::Frame;
use crate::failure::{self, Kind};
use crate::patience;

/// Ends the run because a wait for `what` took too long.
pub(crate) fn give_up(what: &str) -> ! {
    failure::stop(Kind::Hang, &Frame::here(), format_args!("a CPU waited in vain for {what}"))
}

/// Spins until `done`. If that takes too long, ends the run with a message that names `what`.
pub(crate) fn spin_until(what: &str, done: impl FnMut() -> bool) {
    if !patience::spin(done) {
        give_up(what);
    }
}
