//! Locks, as the kernel brings them, and the order in which they are taken.
//!
//! They are an interface because the memory manager runs on every machine: a lock is a spin lock in a kernel, a resource
//! in simulated time in a simulator, a checker's lock in a model checker. Every lock belongs to a [`LockClass`]; a task may only take a lock of a higher rank than
//! all it holds, which debug builds check through [`HeldLocks`]. The class also says whether a task may sleep with the
//! lock, so [`HeldLocks`] knows whether it may with all that it holds.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};

/// A kind of lock: its place in the order, and how it is held.
#[derive(Debug, PartialEq, Eq)]
pub struct LockClass {
    /// What messages call it.
    pub name: &'static str,
    /// Its place in the order, below 64: locks are taken in rising rank.
    pub rank: u8,
    /// Its holder may sleep, so whoever waits for it sleeps too, where the platform can. Else it spins: nobody sleeps
    /// while holding it.
    pub sleeps: bool,
    /// Held with interrupts off; a CPU that waits for it need not answer any either. Such a lock spins.
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
pub struct HeldLocks {
    /// A bit for each rank whose lock sleeps, and for each whose lock spins.
    sleeping: AtomicU64,
    spinning: AtomicU64,
}

impl HeldLocks {
    /// Holding nothing.
    pub const fn new() -> Self {
        Self { sleeping: AtomicU64::new(0), spinning: AtomicU64::new(0) }
    }

    /// Notes that a lock of `class` is about to be taken.
    ///
    /// # Panics
    /// In debug builds, where the task holds a lock of the same or a higher rank: somewhere else the two could
    /// be taken the other way round. And where a lock that sleeps would be held with interrupts off, or is taken while
    /// one that spins is held: waiting for it, the task would sleep with that one.
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

    /// Notes that a lock of `class` was released. Locks may be released in any order.
    pub fn release(&self, class: &LockClass) {
        let held = self.of(class);
        held.store(held.load(Ordering::Relaxed) & !(1 << class.rank), Ordering::Relaxed);
    }

    /// Whether the task holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ranks() == 0
    }

    /// Whether all that the task holds are locks that sleep. If nothing else ties it to its CPU, it may sleep too.
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
