//! Whether a CPU runs a program that flushes of the kernel's ranges leave undisturbed, and the generation of these
//! ranges that it has reached.
//!
//! One word decides the race between a flush and an entry into the kernel. The flush changes `USER` to `USER|PENDING`
//! by compare-exchange. The CPU that enters exchanges the word for `KERNEL`. If the entry comes first, the flush finds
//! `KERNEL` and interrupts the CPU. If the flush comes first, the entry finds `PENDING` and flushes. There is no third
//! order.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use crate::space::Generation;

/// The CPU may use the kernel's ranges, so a flusher interrupts it.
const KERNEL: u32 = 0;
/// The CPU runs a program and uses no kernel range before its next entry into the kernel.
const USER: u32 = 1;
/// Flushes were deferred to the entry. Stands with `USER` only.
const PENDING: u32 = 2;

/// The word, and the generation of the kernel's ranges that the CPU has reached.
#[derive(Debug)]
pub(crate) struct Mode {
    word: AtomicU32,
    /// Written by the CPU itself.
    reached: AtomicU64,
}

impl Mode {
    /// In the kernel, with no flush missed.
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(KERNEL), reached: AtomicU64::new(Generation::FIRST.get()) }
    }

    /// The CPU leaves the kernel: flushes may be deferred from here on. A flush that defers acquires what the CPU has
    /// done.
    pub(crate) fn leave_kernel(&self) {
        self.word.store(USER, Ordering::Release);
    }

    /// The CPU enters the kernel. True if flushes were deferred.
    ///
    /// The first read suffices on a CPU that never leaves by [`Mode::leave_kernel`]: only the CPU itself changes
    /// `KERNEL`.
    pub(crate) fn enter_kernel(&self) -> bool {
        self.word.load(Ordering::Relaxed) != KERNEL && self.word.swap(KERNEL, Ordering::SeqCst) & PENDING != 0
    }

    /// Defers a flush to the CPU's next entry into the kernel. True if that was possible. The generation was raised
    /// before.
    ///
    /// A word that says `PENDING` is not written again, so many flushes leave its cache line where it is. The read is
    /// sequentially consistent: an entry that comes after it reads the raised generation. An entry that exchanges the
    /// word written here acquires it.
    pub(crate) fn defer(&self) -> bool {
        loop {
            let word = self.word.load(Ordering::SeqCst);
            if word != USER {
                return word & PENDING != 0;
            }
            // Equivalent to Acquire: the read of the word above comes after the raise, and before an entry's exchange.
            let set = self.word.compare_exchange(USER, USER | PENDING, Ordering::AcqRel, Ordering::Relaxed);
            if set.is_ok() {
                return true;
            }
        }
    }

    /// The generation up to which the CPU has done every flush.
    pub(crate) fn reached(&self) -> Generation {
        Generation::from_raw(self.reached.load(Ordering::Relaxed))
    }

    /// The CPU has done every flush up to `generation`. The CPU itself calls it, with interrupts off.
    pub(crate) fn reach(&self, generation: Generation) {
        self.reached.store(generation.get(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_deferred_only_between_leaving_and_entering() {
        let mode = Mode::new();
        assert!(!mode.defer() && !mode.enter_kernel());
        mode.leave_kernel();
        assert!(!mode.enter_kernel(), "nothing was deferred");
        assert!(!mode.defer(), "the entry came first");
        mode.leave_kernel();
        assert!(mode.defer() && mode.defer(), "the flusher came first, twice");
        assert!(mode.enter_kernel() && !mode.enter_kernel(), "one entry takes both");
    }
}
