//! Guards that keep interrupts off, or a task on its CPU, until they are dropped.

use core::fmt;
use core::marker::PhantomData;

use super::contract::Platform;
use crate::Engine;

/// Keeps this CPU's interrupts off until it is dropped, and then restores their previous state.
///
/// Drop the guards of one CPU in the reverse order of their making. A guard stays with the CPU that made it:
///
/// ```compile_fail,E0277
/// # use ceasefire::{InterruptsOff, Platform};
/// fn elsewhere<P: Platform + Sync>(off: InterruptsOff<'_, P>) {
///     std::thread::scope(|scope| {
///         scope.spawn(move || drop(off));
///     });
/// }
/// ```
#[must_use = "interrupts are on again as soon as it is dropped"]
pub struct InterruptsOff<'p, P: Platform> {
    platform: &'p P,
    saved: P::Saved,
    here: PhantomData<*const ()>,
}

impl<'p, P: Platform> InterruptsOff<'p, P> {
    #[inline]
    pub(crate) fn new(platform: &'p P) -> Self {
        Self { platform, saved: platform.save_interrupts(), here: PhantomData }
    }
}

impl<P: Platform> Drop for InterruptsOff<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.platform.restore_interrupts(self.saved);
    }
}

impl<P: Platform> fmt::Debug for InterruptsOff<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterruptsOff")
    }
}

/// Keeps its task on this CPU until it is dropped. No other task runs on the CPU meanwhile.
#[must_use = "the task may be moved as soon as it is dropped"]
pub struct Pinned<'p, P: Platform> {
    platform: &'p P,
    here: PhantomData<*const ()>,
}

impl<'p, P: Platform> Pinned<'p, P> {
    #[inline]
    pub(crate) fn new(platform: &'p P) -> Self {
        platform.pin();
        Self { platform, here: PhantomData }
    }
}

impl<P: Platform> Drop for Pinned<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.platform.unpin();
    }
}

impl<P: Platform> fmt::Debug for Pinned<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned")
    }
}

impl<P: Platform> Engine<P> {
    /// Turns this CPU's interrupts off until the guard is dropped.
    pub fn interrupts_off(&self) -> InterruptsOff<'_, P> {
        InterruptsOff::new(self.platform())
    }

    /// Keeps the calling task on its CPU until the guard is dropped.
    pub fn pin(&self) -> Pinned<'_, P> {
        Pinned::new(self.platform())
    }
}
