//! Values that are read without waiting for those that change them.

use alloc::sync::Arc;
use core::fmt::Debug;
use core::mem;

use ceasefire_memory::{Lock as _, LockClass, Rcu};

use super::spin::Spin;
use crate::manager::Kernel;

static PUBLISHED: LockClass =
    LockClass { name: "published value", rank: 20, sleeps: false, interrupts_off: true };

/// A value that readers take a reference to under a lock that is held for a moment, since this kernel has no RCU. The
/// last of them frees it.
#[derive(Debug)]
pub(crate) struct Published<T: Debug>(Spin<Arc<T>>);

impl<T: Clone + Debug> Rcu<T, Kernel> for Published<T> {
    fn new(value: T) -> Self {
        Self(Spin::new(&PUBLISHED, Arc::new(value)))
    }

    fn read<R>(&self, kernel: &Kernel, body: impl FnOnce(&T) -> R) -> R {
        let value = self.0.lock(kernel).clone();
        body(&value)
    }

    fn update(&self, kernel: &Kernel, body: impl FnOnce(&mut T)) {
        let mut value = T::clone(&*self.0.lock(kernel).clone());
        body(&mut value);
        let value = Arc::new(value);
        let before = mem::replace(&mut *self.0.lock(kernel), value);
        // Freed with the lock released.
        drop(before);
    }
}
