//! The lock itself.

use core::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardNoSend, RawMutex};

use super::spin_until;
use crate::arch::interrupts;

/// A value that one CPU at a time uses, with its interrupts off.
pub(crate) type IrqLock<T> = lock_api::Mutex<RawIrqLock, T>;

/// The lock without its value.
pub(crate) struct RawIrqLock {
    locked: AtomicBool,
    /// Whether the holder had its interrupts on. Only the holder reads and writes it.
    were_on: AtomicBool,
}

// SAFETY: `locked` goes from false to true for one CPU only, and back when that CPU unlocks. An acquisition comes after
// all that the last holder did. A holder's interrupts are off, so no code of its own CPU interrupts it to try the same
// lock.
unsafe impl RawMutex for RawIrqLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it: an initial lock")]
    const INIT: Self = Self { locked: AtomicBool::new(false), were_on: AtomicBool::new(false) };
    /// The holder's interrupts are off, and those of no other CPU.
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        let mut got = false;
        if self.try_lock() {
            return;
        }
        spin_until("a kernel lock", || {
            got = !self.locked.load(Ordering::Relaxed) && self.try_lock();
            got
        });
    }

    fn try_lock(&self) -> bool {
        let were_on = interrupts::are_on();
        interrupts::off();
        let got = !self.locked.swap(true, Ordering::Acquire);
        if got {
            self.were_on.store(were_on, Ordering::Relaxed);
        } else if were_on {
            interrupts::on();
        }
        got
    }

    unsafe fn unlock(&self) {
        let were_on = self.were_on.load(Ordering::Relaxed);
        self.locked.store(false, Ordering::Release);
        if were_on {
            interrupts::on();
        }
    }
}
