//! Locks in simulated time.
//!
//! A lock is a resource with a time at which it becomes free, and a queue, first come, first served. Taking it costs
//! its own instructions and, if another CPU touched it last, the transfer of its cache line. Only one CPU has the
//! line at a time. CPUs that come at once get it one after the other, even if they only want shared access. Releasing
//! shared access is an atomic operation too, so it takes the line once more.
//!
//! A lock's class says how a CPU waits for it. A CPU that waits for a spinning lock keeps interrupts on and answers
//! them, or has them off and does not answer. In the second case one contended lock delays every CPU that sends an
//! interrupt to the waiters. Such a lock is handed over by as many transfers as the machine states
//! ([`Contention`](crate::config::Contention)). A thread that waits for a sleeping lock leaves its CPU to other
//! threads, unless it holds another lock, which it cannot take with it. If there is no other thread, the CPU idles
//! and no flush of pages interrupts it. To wake the thread takes an interrupt from the CPU that releases the lock.
//! On some machines a thread that wants exclusive access first spins ([`spin`]).

mod spin;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

use ceasefire_memory::locks::{AREA, TABLE};
use ceasefire_memory::LockClass;

use crate::config::{Contention, Picoseconds};
use crate::measure::spent::Doing;
use crate::world::line::Line;
use crate::world::state::{Sim, World};
use crate::world::task::{Sleep, Stop, TaskId};

/// A waiter.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    cpu: usize,
    /// The thread, if it sleeps. `None`: the CPU spins.
    task: Option<TaskId>,
    shared: bool,
    /// The time from which it has waited.
    since: Picoseconds,
}

/// The state of a lock, exclusive or shared.
#[derive(Debug)]
struct Turnstile {
    class: &'static LockClass,
    /// The number of exclusive holders (0 or 1) and of shared ones.
    writers: Cell<u32>,
    readers: Cell<u32>,
    /// The time at which the last exclusive holder released it, and the last shared one. They may have run ahead of
    /// the next CPU.
    free_at: Cell<Picoseconds>,
    unread_at: Cell<Picoseconds>,
    line: Line,
    waiters: RefCell<VecDeque<Waiter>>,
    /// The line of the lock that guards the queue of those that sleep (Linux: `wait_lock`).
    queue: Line,
    /// The CPUs of threads that spin before they sleep, and the CPU of the exclusive holder.
    spinners: RefCell<VecDeque<usize>>,
    holder: Cell<usize>,
    /// The threads that were woken to share the lock, and whether one was woken that had slept for too long. Nobody who
    /// can sleep gets ahead of them.
    granted: Cell<u32>,
    handed_off: Cell<bool>,
    /// Whether a thread has spun for too long while others shared the lock.
    tired: Cell<bool>,
}

impl Turnstile {
    fn new(class: &'static LockClass) -> Self {
        Self {
            class,
            writers: Cell::new(0),
            readers: Cell::new(0),
            free_at: Cell::new(0),
            unread_at: Cell::new(0),
            line: Line::new(),
            waiters: RefCell::default(),
            queue: Line::new(),
            spinners: RefCell::default(),
            holder: Cell::new(0),
            granted: Cell::new(0),
            handed_off: Cell::new(false),
            tired: Cell::new(false),
        }
    }

    fn enter(&self, world: &World, shared: bool) {
        world.sync();
        let cpu = world.cpu();
        cpu.held.acquire(self.class);
        if self.class.interrupts_off {
            cpu.off.set(cpu.off.get() + 1);
        }
        let doing = cpu.doing.replace(Doing::Locks);
        let transfer = self.ask(world, shared);
        let begun = cpu.clock.get();
        let contended = !self.waiters.borrow().is_empty() || self.is_promised();
        if self.is_blocked(shared) || (contended && self.queues(world, shared)) {
            self.wait(world, shared);
        } else {
            self.admit(shared, world.here());
            self.follow(world, shared, transfer);
        }
        // The thread may be on another CPU by now.
        let cpu = world.cpu();
        cpu.doing.set(doing);
        let waited = cpu.clock.get().saturating_sub(begun);
        if waited > 0 {
            let tallies = &world.tallies;
            tallies.lock_waits.set(tallies.lock_waits.get() + 1);
            tallies.lock_wait_time.set(tallies.lock_wait_time.get() + waited);
            // Classes of ranks beyond the memory manager's exist in tests alone.
            if let Some(time) = tallies.lock_wait_of.get(usize::from(self.class.rank).wrapping_sub(1)) {
                time.set(time.get() + waited);
            }
        }
    }

    /// How often a CPU touches the lock's line to share it.
    fn shares_with(&self, contention: &Contention) -> u32 {
        if self.class.rank == AREA.rank {
            contention.shared_of_area
        } else {
            contention.shared
        }
    }

    /// The lines of guarded data that move to a new holder.
    fn guards(&self, contention: &Contention) -> u32 {
        if self.class.rank == TABLE.rank {
            0
        } else {
            contention.guarded
        }
    }

    /// Brings the lock's line and looks at the lock. Returns the time of a transfer of the line.
    fn ask(&self, world: &World, shared: bool) -> Picoseconds {
        let touches = if shared { self.shares_with(&world.machine.contention) } else { 1 };
        let transfer = self.line.fetch(world, touches);
        world.spend(world.machine.costs.lock);
        transfer
    }

    /// Whether the CPU goes behind those that wait, although it is not blocked. A CPU that cannot sleep must not wait
    /// for a thread that has no CPU yet. A thread that would spin gets ahead of those that sleep.
    #[cold]
    fn queues(&self, world: &World, shared: bool) -> bool {
        let steals = !shared && self.spins(world) && !self.is_promised();
        !self.class.sleeps || (!steals && self.may_sleep(world))
    }

    /// Whether the lock waits for threads that were woken.
    fn is_promised(&self) -> bool {
        self.granted.get() > 0 || self.handed_off.get()
    }

    /// Waits in the queue and takes the lock.
    #[cold]
    fn wait(&self, world: &World, shared: bool) {
        let since = world.cpu().clock.get();
        if !shared && self.spins(world) && self.may_sleep(world) && self.spin(world) {
            return;
        }
        let mut first = true;
        while self.may_sleep(world) {
            self.lock_queue(world);
            // The lock may have become free meanwhile.
            let free = !self.is_blocked(shared) && !self.is_promised() && self.waiters.borrow().is_empty();
            if free {
                self.admit(shared, world.here());
                self.follow(world, shared, 0);
                return;
            }
            self.sleep(world, shared, since, first);
            // The thread was woken at the head of the queue, and asks again.
            first = false;
            let transfer = self.ask(world, shared);
            if shared {
                self.granted.set(self.granted.get().saturating_sub(1));
            } else {
                self.handed_off.set(false);
            }
            if !self.is_blocked(shared) && (shared || self.granted.get() == 0) {
                self.admit(shared, world.here());
                self.follow(world, shared, transfer);
                return;
            }
        }
        let waiter = Waiter { cpu: world.here(), task: None, shared, since };
        self.waiters.borrow_mut().push_back(waiter);
        // The releasing CPU hands the lock over before it sets the time.
        world.wait();
    }

    fn is_blocked(&self, shared: bool) -> bool {
        self.writers.get() > 0 || (!shared && self.readers.get() > 0)
    }

    /// Whether the thread that has just asked for the lock may leave its CPU meanwhile: it holds no other lock.
    fn may_sleep(&self, world: &World) -> bool {
        if !self.class.sleeps || !world.running.in_task() {
            return false;
        }
        let cpu = world.cpu();
        cpu.held.release(self.class);
        let may = cpu.may_be_left();
        cpu.held.acquire(self.class);
        may
    }

    /// Sleeps until a releasing CPU wakes the thread, which then asks for the lock again. So a holder always has a
    /// CPU. Otherwise a CPU could wait for ever for a lock whose next holder waits for that CPU.
    fn sleep(&self, world: &World, shared: bool, since: Picoseconds, first: bool) {
        let cpu = world.cpu();
        let waiter = Waiter { cpu: world.here(), task: cpu.task.get(), shared, since };
        if first {
            self.waiters.borrow_mut().push_back(waiter);
        } else {
            self.waiters.borrow_mut().push_front(waiter);
        }
        cpu.held.release(self.class);
        world.running.stop(Stop::Sleep(Sleep::Amid));
        // The thread may be on another CPU by now.
        world.cpu().held.acquire(self.class);
    }

    /// Takes the lock of the queue, which is held for a moment: a spinning lock that is handed over where CPUs come to it
    /// together.
    fn lock_queue(&self, world: &World) {
        self.queue.fetch(world, world.machine.contention.hand_over);
    }

    /// Waits for the last holder, which may have run ahead.
    fn follow(&self, world: &World, shared: bool, transfer: Picoseconds) {
        let free_at = self.free_at.get().max(if shared { 0 } else { self.unread_at.get() });
        if free_at > world.cpu().clock.get() {
            world.spend_until(free_at + transfer * u64::from(world.machine.contention.hand_over));
        }
        let guarded = self.guards(&world.machine.contention);
        if !shared && guarded > 0 {
            world.stall(transfer * u64::from(guarded));
        }
    }

    fn admit(&self, shared: bool, cpu: usize) {
        let count = if shared { &self.readers } else { &self.writers };
        count.set(count.get() + 1);
        if !shared {
            self.holder.set(cpu);
            self.tired.set(false);
        }
    }

    fn leave(&self, world: &World, shared: bool) {
        let cpu = world.cpu();
        if shared {
            world.during(Doing::Locks, || self.line.fetch(world, 1));
        }
        let now = cpu.clock.get();
        let count = if shared { &self.readers } else { &self.writers };
        count.set(count.get() - 1);
        let released = if shared { &self.unread_at } else { &self.free_at };
        released.set(released.get().max(now));
        if !self.waiters.borrow().is_empty() || !self.spinners.borrow().is_empty() {
            self.let_in(world);
        }
        cpu.held.release(self.class);
        if self.class.interrupts_off {
            cpu.off.set(cpu.off.get() - 1);
            if cpu.off.get() == 0 {
                cpu.on_since.set(cpu.clock.get());
            }
        }
    }

    /// Hands the lock to the waiters that may have it now.
    #[cold]
    fn let_in(&self, world: &World) {
        let (spins, overdue) = (self.spins(world), self.is_overdue(world));
        if spins && !overdue {
            self.pass_to_spinning(world);
            self.pass_to_spinner(world);
        }
        let mut woken = false;
        if self.waiters.borrow().iter().any(|waiter| waiter.task.is_some()) {
            world.during(Doing::Locks, || self.lock_queue(world));
        }
        while self.writers.get() == 0 && !self.handed_off.get() {
            let next = self.waiters.borrow().front().copied();
            // A woken thread takes the lock when it runs. Until then only waiters that can share the lock with it are
            // woken.
            let alone = self.readers.get() == 0 && self.granted.get() == 0 && !woken;
            let Some(next) = next.filter(|next| next.shared || alone) else {
                break;
            };
            self.waiters.borrow_mut().pop_front();
            woken |= next.task.is_some();
            if next.task.is_none() {
                self.admit(next.shared, next.cpu);
            } else if spins && next.shared {
                self.granted.set(self.granted.get() + 1);
            } else {
                self.handed_off.set(overdue);
            }
            world.during(Doing::Locks, || self.hand_over(world, next));
            if next.task.is_some() && !next.shared {
                break;
            }
        }
        if woken || self.handed_off.get() {
            self.pass_to_spinning(world);
        }
        if self.writers.get() == 0 {
            self.spinners_look_again(world);
        }
    }

    /// A woken thread may have no CPU for a while, so the lock goes first to waiters that spin on their CPUs.
    fn pass_to_spinning(&self, world: &World) {
        while self.writers.get() == 0 {
            let readers = self.readers.get();
            let spins = |waiter: &Waiter| waiter.task.is_none() && (waiter.shared || readers == 0);
            let place = self.waiters.borrow().iter().position(spins);
            let Some(next) = place.and_then(|place| self.waiters.borrow_mut().remove(place)) else { return };
            self.admit(next.shared, next.cpu);
            world.during(Doing::Locks, || self.hand_over(world, next));
        }
    }

    /// Lets a waiter go on. A spinning one has the lock already. A sleeping one is woken to ask for it again.
    fn hand_over(&self, world: &World, next: Waiter) {
        let now = world.cpu().clock.get();
        let from = if next.shared { now } else { now.max(self.unread_at.get()) };
        let travel = world.between(world.here(), next.cpu);
        if let Some(task) = next.task {
            let costs = &world.machine.costs;
            world.spend(world.machine.contention.wake + costs.interrupt_send);
            world.stall(travel);
            let arrival = from.max(world.cpu().clock.get()) + costs.interrupt_deliver + travel;
            world.wake_task_at(task, Sleep::Amid, arrival);
            return;
        }
        self.line.moved_to(next.cpu);
        let contention = world.machine.contention;
        let transfers = contention.hand_over + if next.shared { 0 } else { self.guards(&contention) };
        world.wake_at(next.cpu, from + travel * u64::from(transfers));
    }
}

/// Mutual exclusion in simulated time.
#[derive(Debug)]
pub struct SimLock<T> {
    turnstile: Turnstile,
    value: RefCell<T>,
}

/// Proof of holding a [`SimLock`], or of exclusive access to a [`SimRwLock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    turnstile: &'a Turnstile,
    world: &'a World,
    value: RefMut<'a, T>,
}

impl<'a, T> Guard<'a, T> {
    fn enter(turnstile: &'a Turnstile, value: &'a RefCell<T>, world: &'a World) -> Self {
        turnstile.enter(world, false);
        Self { turnstile, world, value: value.borrow_mut() }
    }
}

impl<T: Debug> ceasefire_memory::Lock<T, Sim> for SimLock<T> {
    type Guard<'a>
        = Guard<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { turnstile: Turnstile::new(class), value: RefCell::new(value) }
    }

    fn lock<'a>(&'a self, platform: &'a Sim) -> Guard<'a, T> {
        Guard::enter(&self.turnstile, &self.value, platform)
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
        self.turnstile.leave(self.world, false);
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

impl<T: Debug> ceasefire_memory::RwLock<T, Sim> for SimRwLock<T> {
    type Read<'a>
        = ReadGuard<'a, T>
    where
        T: 'a;
    type Write<'a>
        = Guard<'a, T>
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

    fn write<'a>(&'a self, platform: &'a Sim) -> Guard<'a, T> {
        Guard::enter(&self.turnstile, &self.value, platform)
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

/// A value that is read without a lock, which takes no time of its own: no CPU writes to its lines while it is read.
#[derive(Debug)]
pub struct SimRcu<T>(RefCell<T>);

impl<T: Clone> ceasefire_memory::Rcu<T, Sim> for SimRcu<T> {
    fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    fn read<R>(&self, _: &Sim, body: impl FnOnce(&T) -> R) -> R {
        body(&self.0.borrow())
    }

    fn update(&self, _: &Sim, body: impl FnOnce(&mut T)) {
        // Nobody reads it now, so no copy is needed.
        body(&mut self.0.borrow_mut());
    }
}

#[cfg(test)]
mod tests;
