//! Locks, as the kernel brings them, and the order in which they are taken.
//!
//! The engine itself takes no lock. It defines the lock's interface because a memory manager written on it must
//! run on every machine: a spin lock in a kernel, a resource in simulated time in a simulator, a checker's lock
//! in a model checker. Every lock belongs to a [`LockClass`]; a task may only take a lock of a higher rank than
//! all it holds, which debug builds check through [`HeldLocks`].

use core::ops::{Deref, DerefMut};

use crate::primitive::{AtomicU64, Ordering};

/// A kind of lock: its place in the order, and how it is held.
#[derive(Debug, PartialEq, Eq)]
pub struct LockClass {
    /// What messages call it.
    pub name: &'static str,
    /// Its place in the order, below 64: locks are taken in rising rank.
    pub rank: u8,
    /// Held with interrupts off; a CPU that waits for it answers no interrupt either.
    pub interrupts_off: bool,
}

/// Mutual exclusion around a value.
pub trait Lock<T, P> {
    /// Proof of holding it; dropping it releases.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a,
        P: 'a;

    /// A free lock of `class` around `value`.
    fn new(class: &'static LockClass, value: T) -> Self;

    /// Waits until the lock is free and takes it.
    fn lock<'a>(&'a self, platform: &'a P) -> Self::Guard<'a>;
}

/// Shared or exclusive access to a value.
pub trait RwLock<T, P> {
    /// Proof of shared access.
    type Read<'a>: Deref<Target = T>
    where
        Self: 'a,
        T: 'a,
        P: 'a;
    /// Proof of exclusive access.
    type Write<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a,
        P: 'a;

    /// A free lock of `class` around `value`.
    fn new(class: &'static LockClass, value: T) -> Self;

    /// Waits until no one has exclusive access and takes shared access.
    fn read<'a>(&'a self, platform: &'a P) -> Self::Read<'a>;

    /// Waits until no one has access and takes exclusive access.
    fn write<'a>(&'a self, platform: &'a P) -> Self::Write<'a>;
}

/// The ranks that one task holds. The kernel keeps one per task; its locks report to it.
#[derive(Debug, Default)]
pub struct HeldLocks(AtomicU64);

impl HeldLocks {
    /// Holding nothing.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Notes that a lock of `class` is about to be taken.
    ///
    /// # Panics
    /// In debug builds, where the task holds a lock of the same or a higher rank: somewhere else the two could
    /// be taken the other way round.
    pub fn acquire(&self, class: &LockClass) {
        let held = self.0.load(Ordering::Relaxed);
        debug_assert!(
            held >> class.rank == 0,
            "lock order: {} (rank {}) taken while ranks {held:#b} are held",
            class.name,
            class.rank
        );
        self.0.store(held | 1 << class.rank, Ordering::Relaxed);
    }

    /// Notes that a lock of `class` was released. Locks may be released in any order.
    pub fn release(&self, class: &LockClass) {
        self.0.store(self.0.load(Ordering::Relaxed) & !(1 << class.rank), Ordering::Relaxed);
    }

    /// Whether the task holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOW: LockClass = LockClass { name: "low", rank: 1, interrupts_off: false };
    static HIGH: LockClass = LockClass { name: "high", rank: 2, interrupts_off: false };

    #[test]
    fn rising_ranks_pass_and_are_forgotten_on_release() {
        let held = HeldLocks::new();
        held.acquire(&LOW);
        held.acquire(&HIGH);
        held.release(&LOW);
        held.release(&HIGH);
        assert!(held.is_empty());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: low")]
    fn a_falling_rank_is_caught() {
        let held = HeldLocks::new();
        held.acquire(&HIGH);
        held.acquire(&LOW);
    }
}
