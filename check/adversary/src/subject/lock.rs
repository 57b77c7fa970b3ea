//! The locks of the kernels on the machine. A CPU that waits for one answers interrupts, unless they are off.

use std::cell::{Cell, RefCell};

use crate::hardware::Hardware;
use crate::model::ordering::View;

/// Mutual exclusion.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    held: Cell<bool>,
    /// What the last holder had stored.
    view: RefCell<View>,
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a Lock,
    hardware: &'a Hardware,
}

impl Lock {
    pub(crate) fn take<'a>(&'a self, hardware: &'a Hardware) -> Held<'a> {
        hardware.step();
        while self.held.replace(true) {
            hardware.wait_a_moment();
        }
        hardware.learn(&self.view.borrow());
        Held { lock: self, hardware }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.lock.view.borrow_mut() = self.hardware.view();
        self.lock.held.set(false);
        self.hardware.step();
    }
}

/// Shared or exclusive access.
#[derive(Debug, Default)]
pub(crate) struct SharedLock {
    readers: Cell<u32>,
    writer: Cell<bool>,
    /// CPUs that wait for exclusive access: readers let them go first.
    waiting: Cell<u32>,
    /// What all holders so far had stored.
    view: RefCell<View>,
}

/// A lock that is held shared or exclusively.
#[derive(Debug)]
pub(crate) struct HeldShared<'a> {
    lock: &'a SharedLock,
    hardware: &'a Hardware,
}

impl SharedLock {
    pub(crate) fn read<'a>(&'a self, hardware: &'a Hardware) -> HeldShared<'a> {
        hardware.step();
        while self.writer.get() || self.waiting.get() > 0 {
            hardware.wait_a_moment();
        }
        self.readers.set(self.readers.get() + 1);
        self.held(hardware)
    }

    pub(crate) fn write<'a>(&'a self, hardware: &'a Hardware) -> HeldShared<'a> {
        hardware.step();
        self.waiting.set(self.waiting.get() + 1);
        while self.writer.get() || self.readers.get() > 0 {
            hardware.wait_a_moment();
        }
        self.waiting.set(self.waiting.get() - 1);
        self.writer.set(true);
        self.held(hardware)
    }

    fn held<'a>(&'a self, hardware: &'a Hardware) -> HeldShared<'a> {
        hardware.learn(&self.view.borrow());
        HeldShared { lock: self, hardware }
    }
}

impl Drop for HeldShared<'_> {
    fn drop(&mut self) {
        self.lock.view.borrow_mut().join(&self.hardware.view());
        if !self.lock.writer.replace(false) {
            self.lock.readers.set(self.lock.readers.get() - 1);
        }
        self.hardware.step();
    }
}
