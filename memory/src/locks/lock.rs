//! The kernel's locks, and the order in which they are taken.
//!
//! Locks are an interface because the memory manager runs on every machine: a lock is a spin lock in a kernel, a
//! resource in simulated time in a simulator, and a checker's lock in a model checker. Every lock belongs to a
//! [`LockClass`]. A task may take a lock only if its rank is higher than those of all locks that the task holds. Debug
//! builds check this through [`HeldLocks`]. The class also says whether a task may sleep while it holds the lock, so
//! [`HeldLocks`] knows whether the task may sleep.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};

/// A kind of lock: its place in the order, and how it is held.
#[derive(Debug, PartialEq, Eq)]
pub struct LockClass {
    /// Its name in messages.
    pub name: &'static str,
    /// Its place in the order, below 64. Locks are taken in rising rank.
    pub rank: u8,
    /// The holder may sleep, and so does a task that waits for the lock, where the platform can. Otherwise the lock
    /// spins, and no task sleeps while it holds one.
    pub sleeps: bool,
    /// The lock is held with interrupts off. A CPU that waits for it need not answer interrupts either. Such a lock
    /// spins.
    pub interrupts_off: bool,
}

/// Mutual exclusion around a value.
pub trait Lock<T, P> {
    /// Proof that the lock is held. Dropping it releases the lock.
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

    /// Waits until no task has exclusive access, and takes shared access.
    fn read<'a>(&'a self, platform: &'a P) -> Self::Read<'a>;

    /// Waits until no task has access, and takes exclusive access.
    fn write<'a>(&'a self, platform: &'a P) -> Self::Write<'a>;
}

/// A value that many tasks read without a lock while one changes it (read-copy-update).
///
/// A kernel that has RCU changes a copy, puts it in the place of the value, and frees that when its readers are gone. A
/// spin lock, held for a moment by readers too, is as correct.
pub trait Rcu<T: Clone, P> {
    /// Makes `value` readable.
    fn new(value: T) -> Self;

    /// Gives `body` the present value. It must not sleep, and takes no lock.
    fn read<R>(&self, platform: &P, body: impl FnOnce(&T) -> R) -> R;

    /// Changes the value for all later reads, at once. The caller keeps other changes out. `body` takes no lock.
    fn update(&self, platform: &P, body: impl FnOnce(&mut T));
}

/// The ranks of the locks that one task holds. The kernel keeps one for each task, and its locks report to it.
#[derive(Debug, Default)]
pub struct HeldLocks {
    /// One bit for each rank: of locks that sleep here, of locks that spin below.
    sleeping: AtomicU64,
    spinning: AtomicU64,
}

impl HeldLocks {
    /// No lock held.
    pub const fn new() -> Self {
        Self { sleeping: AtomicU64::new(0), spinning: AtomicU64::new(0) }
    }

    /// Records that a lock of `class` is about to be taken.
    ///
    /// # Panics
    /// In debug builds, in three cases. The task holds a lock of the same or a higher rank: another task could take the
    /// two in the opposite order. A lock that sleeps would be held with interrupts off. A lock that sleeps is taken
    /// while one that spins is held: the task would sleep with the latter while it waits.
    pub fn acquire(&self, class: &LockClass) {
        debug_assert!(
            self.ranks() >> class.rank == 0,
            "lock order: {} (rank {}) taken while ranks {:#b} are held",
            class.name,
            class.rank,
            self.ranks()
        );
        debug_assert!(
            !(class.sleeps && class.interrupts_off),
            "{} sleeps and is held with interrupts off",
            class.name
        );
        debug_assert!(
            !class.sleeps || self.may_sleep(),
            "{} sleeps and is taken while a lock that spins is held, ranks {:#b}",
            class.name,
            self.spinning.load(Ordering::Relaxed)
        );
        let held = self.of(class);
        held.store(held.load(Ordering::Relaxed) | 1 << class.rank, Ordering::Relaxed);
    }

    /// Records that a lock of `class` was released. Locks may be released in any order.
    pub fn release(&self, class: &LockClass) {
        let held = self.of(class);
        held.store(held.load(Ordering::Relaxed) & !(1 << class.rank), Ordering::Relaxed);
    }

    /// Whether the task holds no lock.
    pub fn is_empty(&self) -> bool {
        self.ranks() == 0
    }

    /// Whether every lock that the task holds is one that sleeps. If nothing else ties the task to its CPU, it may
    /// sleep too.
    pub fn may_sleep(&self) -> bool {
        self.spinning.load(Ordering::Relaxed) == 0
    }

    fn of(&self, class: &LockClass) -> &AtomicU64 {
        if class.sleeps {
            &self.sleeping
        } else {
            &self.spinning
        }
    }

    fn ranks(&self) -> u64 {
        self.sleeping.load(Ordering::Relaxed) | self.spinning.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOW: LockClass = LockClass { name: "low", rank: 1, sleeps: true, interrupts_off: false };
    static HIGH: LockClass = LockClass { name: "high", rank: 2, sleeps: false, interrupts_off: false };

    #[test]
    fn rising_ranks_pass_and_are_forgotten_on_release() {
        let held = HeldLocks::new();
        held.acquire(&LOW);
        held.acquire(&HIGH);
        held.release(&LOW);
        assert!(!held.is_empty());
        held.release(&HIGH);
        assert!(held.is_empty());
    }

    #[test]
    fn a_task_may_sleep_while_no_lock_that_it_holds_spins() {
        let held = HeldLocks::new();
        assert!(held.may_sleep());
        held.acquire(&LOW);
        assert!(held.may_sleep());
        held.acquire(&HIGH);
        assert!(!held.may_sleep());
        held.release(&LOW);
        assert!(!held.may_sleep());
        held.release(&HIGH);
        assert!(held.may_sleep());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: low")]
    fn a_falling_rank_is_caught() {
        let held = HeldLocks::new();
        held.acquire(&HIGH);
        held.acquire(&LOW);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "both sleeps and is held with interrupts off")]
    fn a_lock_that_sleeps_with_interrupts_off_is_caught() {
        HeldLocks::new().acquire(&LockClass { name: "both", rank: 1, sleeps: true, interrupts_off: true });
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "last sleeps and is taken while a lock that spins is held, ranks 0b100")]
    fn a_lock_that_sleeps_is_not_taken_with_one_that_spins() {
        let held = HeldLocks::new();
        held.acquire(&HIGH);
        held.acquire(&LockClass { name: "last", rank: 3, sleeps: true, interrupts_off: false });
    }
}
