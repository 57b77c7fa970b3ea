//! The memory manager's locks, with the values that they guard.

use std::cell::{Ref, RefCell, RefMut};
use std::fmt;
use std::ops::{Deref, DerefMut};

use ceasefire_memory::{LockClass, Rcu, RwLock};

use super::managed::Managed;
use crate::hardware::platform::Adverse;
use crate::model::ordering::View;
use crate::subject::lock::{Held, HeldShared, Lock, SharedLock};

/// A guard of a value. On drop the value goes first, then the lock, and then interrupts come back.
pub(crate) struct Guard<'a, V, L> {
    value: V,
    _lock: L,
    _section: Section<'a>,
}

/// The rank of a held lock, and interrupts that are off for it.
struct Section<'a> {
    platform: &'a Adverse<Managed>,
    class: &'static LockClass,
}

impl<'a> Section<'a> {
    fn enter(platform: &'a Adverse<Managed>, class: &'static LockClass) -> Self {
        platform.held().acquire(class);
        if class.interrupts_off {
            let off = &platform.hardware.core().off;
            off.set(off.get() + 1);
        }
        Self { platform, class }
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.platform.held().release(self.class);
        if self.class.interrupts_off {
            let off = &self.platform.hardware.core().off;
            off.set(off.get() - 1);
        }
    }
}

impl<V: Deref, L> Deref for Guard<'_, V, L> {
    type Target = V::Target;

    fn deref(&self) -> &V::Target {
        &self.value
    }
}

impl<V: DerefMut, L> DerefMut for Guard<'_, V, L> {
    fn deref_mut(&mut self) -> &mut V::Target {
        &mut self.value
    }
}

/// Mutual exclusion around a value.
#[derive(Debug)]
pub(crate) struct Exclusive<T> {
    class: &'static LockClass,
    lock: Lock,
    value: RefCell<T>,
}

impl<T: fmt::Debug> ceasefire_memory::Lock<T, Adverse<Managed>> for Exclusive<T> {
    type Guard<'a>
        = Guard<'a, RefMut<'a, T>, Held<'a>>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, lock: Lock::default(), value: RefCell::new(value) }
    }

    fn lock<'a>(&'a self, platform: &'a Adverse<Managed>) -> Self::Guard<'a> {
        let section = Section::enter(platform, self.class);
        let lock = self.lock.take(&platform.hardware);
        Guard { value: self.value.borrow_mut(), _lock: lock, _section: section }
    }
}

/// Shared or exclusive access to a value.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    class: &'static LockClass,
    lock: SharedLock,
    value: RefCell<T>,
}

impl<T: fmt::Debug> RwLock<T, Adverse<Managed>> for Shared<T> {
    type Read<'a>
        = Guard<'a, Ref<'a, T>, HeldShared<'a>>
    where
        T: 'a;
    type Write<'a>
        = Guard<'a, RefMut<'a, T>, HeldShared<'a>>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, lock: SharedLock::default(), value: RefCell::new(value) }
    }

    fn read<'a>(&'a self, platform: &'a Adverse<Managed>) -> Self::Read<'a> {
        let section = Section::enter(platform, self.class);
        let lock = self.lock.read(&platform.hardware);
        Guard { value: self.value.borrow(), _lock: lock, _section: section }
    }

    fn write<'a>(&'a self, platform: &'a Adverse<Managed>) -> Self::Write<'a> {
        let section = Section::enter(platform, self.class);
        let lock = self.lock.write(&platform.hardware);
        Guard { value: self.value.borrow_mut(), _lock: lock, _section: section }
    }
}

/// A value that is read without a lock.
#[derive(Debug)]
pub(crate) struct Published<T> {
    value: RefCell<T>,
    /// What those that changed it had stored.
    view: RefCell<View>,
}

impl<T: Clone + fmt::Debug> Rcu<T, Adverse<Managed>> for Published<T> {
    fn new(value: T) -> Self {
        Self { value: RefCell::new(value), view: RefCell::default() }
    }

    fn read<R>(&self, platform: &Adverse<Managed>, body: impl FnOnce(&T) -> R) -> R {
        platform.hardware.step();
        platform.hardware.learn(&self.view.borrow());
        // Others change the value while `body` uses the one that it found.
        let value = self.value.borrow().clone();
        let read = body(&value);
        // The value may be an old one when it is used.
        platform.hardware.linger();
        platform.hardware.step();
        read
    }

    fn update(&self, platform: &Adverse<Managed>, body: impl FnOnce(&mut T)) {
        platform.hardware.step();
        *self.view.borrow_mut() = platform.hardware.view();
        body(&mut self.value.borrow_mut());
        platform.hardware.step();
    }
}
