//! Locks in simulated time.
//!
//! A lock is a resource with a time at which it becomes free, and a queue, first come first served. Taking it costs
//! its own instructions and, if another CPU had it last, the transfer of its line. Who waits spins: with interrupts on
//! it answers them meanwhile, with interrupts off (a class says which) it does not, and that is how one contended lock
//! makes everybody wait who sends its holder's rivals an interrupt.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

use ceasefire::LockClass;

use crate::config::Picoseconds;
use crate::sim::Sim;
use crate::world::World;

/// Who waits, and for what.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    cpu: usize,
    shared: bool,
}

/// The state of a lock, exclusive or shared.
#[derive(Debug)]
struct Turnstile {
    class: &'static LockClass,
    /// Exclusive holders (0 or 1) and shared ones.
    writers: Cell<u32>,
    readers: Cell<u32>,
    /// When the last holder that kept others out let go.
    free_at: Cell<Picoseconds>,
    /// The CPU that touched it last.
    last: Cell<usize>,
    waiters: RefCell<VecDeque<Waiter>>,
}

impl Turnstile {
    fn new(class: &'static LockClass) -> Self {
        Self {
            class,
            writers: Cell::new(0),
            readers: Cell::new(0),
            free_at: Cell::new(0),
            last: Cell::new(usize::MAX),
            waiters: RefCell::default(),
        }
    }

    fn enter(&self, world: &World, shared: bool) {
        world.sync();
        let index = world.here.get();
        let cpu = world.cpu();
        cpu.held.acquire(self.class);
        if self.class.interrupts_off {
            cpu.off.set(cpu.off.get() + 1);
        }
        let last = self.last.replace(index);
        let transfer = if last == index || last == usize::MAX { 0 } else { world.between(last, index) };
        world.spend(world.machine.costs.lock + transfer);
        let before = cpu.clock.get();
        let blocked = self.writers.get() > 0 || (!shared && self.readers.get() > 0);
        if blocked || !self.waiters.borrow().is_empty() {
            self.waiters.borrow_mut().push_back(Waiter { cpu: index, shared });
            // Whoever lets go hands the lock over before it sets the time.
            world.wait();
        } else {
            self.admit(shared);
            world.spend_until(self.free_at.get());
        }
        let waited = world.cpu().clock.get().saturating_sub(before);
        if waited > 0 {
            let tallies = &world.tallies;
            tallies.lock_waits.set(tallies.lock_waits.get() + 1);
            tallies.lock_wait_time.set(tallies.lock_wait_time.get() + waited);
        }
    }

    fn admit(&self, shared: bool) {
        let count = if shared { &self.readers } else { &self.writers };
        count.set(count.get() + 1);
    }

    fn leave(&self, world: &World, shared: bool) {
        let cpu = world.cpu();
        let now = cpu.clock.get();
        let count = if shared { &self.readers } else { &self.writers };
        count.set(count.get() - 1);
        if !shared {
            self.free_at.set(now);
        }
        while self.writers.get() == 0 {
            let mut waiters = self.waiters.borrow_mut();
            let next = match waiters.front() {
                Some(waiter) if waiter.shared || self.readers.get() == 0 => *waiter,
                _ => break,
            };
            waiters.pop_front();
            drop(waiters);
            self.admit(next.shared);
            self.last.set(next.cpu);
            world.wake_at(next.cpu, now + world.between(world.here.get(), next.cpu));
        }
        cpu.held.release(self.class);
        if self.class.interrupts_off {
            cpu.off.set(cpu.off.get() - 1);
            if cpu.off.get() == 0 {
                cpu.on_since.set(now);
            }
        }
    }
}

/// Mutual exclusion in simulated time.
#[derive(Debug)]
pub struct SimLock<T> {
    turnstile: Turnstile,
    value: RefCell<T>,
}

/// Proof of holding a [`SimLock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a SimLock<T>,
    world: &'a World,
    value: RefMut<'a, T>,
}

impl<T: Debug> ceasefire::Lock<T, Sim> for SimLock<T> {
    type Guard<'a>
        = Guard<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { turnstile: Turnstile::new(class), value: RefCell::new(value) }
    }

    fn lock<'a>(&'a self, platform: &'a Sim) -> Guard<'a, T> {
        let world: &World = platform;
        self.turnstile.enter(world, false);
        Guard { lock: self, world, value: self.value.borrow_mut() }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.turnstile.leave(self.world, false);
    }
}

/// Shared or exclusive access in simulated time.
#[derive(Debug)]
pub struct SimRwLock<T> {
    turnstile: Turnstile,
    value: RefCell<T>,
}

/// Proof of shared access to a [`SimRwLock`].
#[derive(Debug)]
pub struct ReadGuard<'a, T> {
    lock: &'a SimRwLock<T>,
    world: &'a World,
    value: Ref<'a, T>,
}

/// Proof of exclusive access to a [`SimRwLock`].
#[derive(Debug)]
pub struct WriteGuard<'a, T> {
    lock: &'a SimRwLock<T>,
    world: &'a World,
    value: RefMut<'a, T>,
}

impl<T: Debug> ceasefire::RwLock<T, Sim> for SimRwLock<T> {
    type Read<'a>
        = ReadGuard<'a, T>
    where
        T: 'a;
    type Write<'a>
        = WriteGuard<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { turnstile: Turnstile::new(class), value: RefCell::new(value) }
    }

    fn read<'a>(&'a self, platform: &'a Sim) -> ReadGuard<'a, T> {
        let world: &World = platform;
        self.turnstile.enter(world, true);
        ReadGuard { lock: self, world, value: self.value.borrow() }
    }

    fn write<'a>(&'a self, platform: &'a Sim) -> WriteGuard<'a, T> {
        let world: &World = platform;
        self.turnstile.enter(world, false);
        WriteGuard { lock: self, world, value: self.value.borrow_mut() }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.turnstile.leave(self.world, true);
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.turnstile.leave(self.world, false);
    }
}
