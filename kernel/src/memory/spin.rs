//! The memory manager's short locks.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use ceasefire_memory::{Lock, LockClass};

use crate::arch::interrupts;
use crate::lock::spin_until;
use crate::manager::Kernel;
use crate::threads::current;

/// A lock whose waiters spin. A waiter holds nothing yet, so it answers interrupts even where the class has them off
/// for the holder.
pub(crate) struct Spin<T> {
    class: &'static LockClass,
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached through a guard alone, and `locked` lets one exist at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> fmt::Debug for Spin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.name)
    }
}

impl<T: fmt::Debug> Lock<T, Kernel> for Spin<T> {
    type Guard<'a>
        = Guard<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    fn lock<'a>(&'a self, _: &'a Kernel) -> Guard<'a, T> {
        let thread = current::thread();
        thread.held.acquire(self.class);
        // Only the scheduler moves a thread, and it moves no pinned one.
        thread.pin();
        let were_on = interrupts::are_on();
        let attempt = || {
            if self.class.interrupts_off {
                interrupts::off();
            }
            let got = !self.locked.load(Ordering::Relaxed) && !self.locked.swap(true, Ordering::Acquire);
            if !got && were_on {
                interrupts::on();
            }
            got
        };
        if !attempt() {
            spin_until(self.class.name, attempt);
        }
        Guard { lock: self, on_again: self.class.interrupts_off && were_on }
    }
}

/// Proof of holding a [`Spin`].
pub(crate) struct Guard<'a, T> {
    lock: &'a Spin<T>,
    on_again: bool,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
        if self.on_again {
            interrupts::on();
        }
        let thread = current::thread();
        thread.held.release(self.lock.class);
        thread.unpin();
    }
}
