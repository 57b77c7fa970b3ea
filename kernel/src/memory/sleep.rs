//! The memory manager's long locks, shared or exclusive. Their holders may sleep, and so do their waiters.
//!
//! They are first come, first served. A thread that unlocks hands the lock to the first waiter in line, or to all
//! sharing waiters at its head. So no waiter starves, and a woken thread holds the lock.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use ceasefire_memory::{LockClass, RwLock};

use crate::lock::IrqLock;
use crate::manager::Kernel;
use crate::threads::current;
use crate::threads::schedule;
use crate::threads::thread::Thread;

/// The holders, and the waiters in line.
struct State {
    sharing: u32,
    exclusive: bool,
    line: VecDeque<Waiter>,
}

struct Waiter {
    thread: Arc<Thread>,
    shared: bool,
    /// A flag on the waiter's own stack. It sleeps until the flag is true.
    admitted: *const AtomicBool,
}

// SAFETY: `admitted` points to a flag that lives until it is true. It is set under the lock around the line, and not
// touched afterwards.
unsafe impl Send for Waiter {}

impl State {
    fn is_free(&self, shared: bool) -> bool {
        !self.exclusive && (shared || self.sharing == 0)
    }

    fn admit(&mut self, shared: bool) {
        if shared {
            self.sharing += 1;
        } else {
            self.exclusive = true;
        }
    }
}

/// A lock whose waiters sleep.
pub(crate) struct Sleep<T> {
    class: &'static LockClass,
    state: IrqLock<State>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached through guards alone, and `state` admits one exclusive guard or any number of shared ones.
unsafe impl<T: Send + Sync> Sync for Sleep<T> {}

impl<T> fmt::Debug for Sleep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.name)
    }
}

impl<T> Sleep<T> {
    fn enter(&self, shared: bool) {
        let me = current::thread();
        me.held.acquire(self.class);
        let admitted = AtomicBool::new(false);
        {
            let mut state = self.state.lock();
            if state.line.is_empty() && state.is_free(shared) {
                state.admit(shared);
                return;
            }
            state.line.push_back(Waiter { thread: current::shared(), shared, admitted: &raw const admitted });
        }
        while !admitted.load(Ordering::Acquire) {
            schedule::park();
        }
    }

    fn leave(&self, shared: bool) {
        let mut state = self.state.lock();
        if shared {
            state.sharing -= 1;
        } else {
            state.exclusive = false;
        }
        // Waiters are woken after the lock around the line is released, so that no two locks are held at once.
        let mut woken: VecDeque<Arc<Thread>> = VecDeque::new();
        while let Some(first) = state.line.front() {
            if !state.is_free(first.shared) {
                break;
            }
            let Some(first) = state.line.pop_front() else { break };
            state.admit(first.shared);
            // SAFETY: the waiter stays on that stack until it sees this.
            unsafe { (*first.admitted).store(true, Ordering::Release) };
            woken.push_back(first.thread);
        }
        drop(state);
        woken.iter().for_each(schedule::unpark);
        current::thread().held.release(self.class);
    }
}

impl<T: fmt::Debug> RwLock<T, Kernel> for Sleep<T> {
    type Read<'a>
        = Shared<'a, T>
    where
        T: 'a;
    type Write<'a>
        = Exclusive<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        let state = State { sharing: 0, exclusive: false, line: VecDeque::new() };
        Self { class, state: IrqLock::new(state), value: UnsafeCell::new(value) }
    }

    fn read<'a>(&'a self, _: &'a Kernel) -> Shared<'a, T> {
        self.enter(true);
        Shared(self)
    }

    fn write<'a>(&'a self, _: &'a Kernel) -> Exclusive<'a, T> {
        self.enter(false);
        Exclusive(self)
    }
}

/// Proof of sharing a [`Sleep`].
pub(crate) struct Shared<'a, T>(&'a Sleep<T>);

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: no exclusive guard exists while this one does.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Shared<'_, T> {
    fn drop(&mut self) {
        self.0.leave(true);
    }
}

/// Proof of holding a [`Sleep`] alone.
pub(crate) struct Exclusive<'a, T>(&'a Sleep<T>);

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: no other guard exists while this one does.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Exclusive<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other guard exists while this one does.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Exclusive<'_, T> {
    fn drop(&mut self) {
        self.0.leave(false);
    }
}
