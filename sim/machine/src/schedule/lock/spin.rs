//! Threads that spin before they sleep.
//!
//! A thread that wants exclusive access to a lock that sleeps first spins on its CPU, as on Linux
//! (`rwsem_optimistic_spin`). It stops when another thread should have the CPU, or when the holder sleeps. If several
//! threads share the lock, nobody knows whether they run, so it spins for a limited time. The CPU is busy meanwhile:
//! it keeps its address space loaded and takes interrupts. Threads that spin get the lock in the order in which they
//! came, ahead of those that sleep, unless the first of these has slept for too long.

use crate::config::{Picoseconds, Waiting};
use crate::hardware::numbers::cpu_id;
use crate::measure::spent::Doing;
use crate::schedule::lock::{Turnstile, Waiter};
use crate::world::state::World;

/// The time for which a thread spins while others share the lock, for each half microsecond of it: 20 and one for each
/// of them, but for no more than 30 (Linux: `rwsem_rspin_threshold`).
const STEP: Picoseconds = 500_000;

/// The time after which a thread that sleeps comes before those that spin (Linux: `RWSEM_WAIT_TIMEOUT`): 4 ms.
const PATIENCE: Picoseconds = 4_000_000_000;

impl World {
    /// A CPU that spins before its thread sleeps looks whether it still should.
    pub(crate) fn look_again(&self, index: usize) {
        if self.spinning.borrow().contains(cpu_id(index)) {
            self.wake_at(index, self.cpu().clock.get().min(self.cpus[index].wake.get()));
        }
    }

    /// All of them look.
    pub(crate) fn all_look_again(&self) {
        let spinning: Vec<_> = self.spinning.borrow().iter().collect();
        for cpu in spinning {
            self.look_again(cpu.index());
        }
    }
}

impl Turnstile {
    /// Whether threads spin before they sleep for it.
    pub(super) fn spins(&self, world: &World) -> bool {
        self.class.sleeps && world.machine.contention.waiting > Waiting::Sleeps
    }

    /// Spins as long as it should. Returns whether the CPU has the lock.
    pub(super) fn spin(&self, world: &World) -> bool {
        let (here, cpu) = (world.here(), world.cpu());
        self.spinners.borrow_mut().push_back(here);
        let mut limit = None;
        while let Some(until) = self.spins_until(world, &mut limit) {
            world.spinning.borrow_mut().insert(cpu_id(here));
            cpu.wake.set(until);
            world.running.pause();
            world.spinning.borrow_mut().remove(cpu_id(here));
            if !self.spinners.borrow().contains(&here) {
                return true;
            }
        }
        self.spinners.borrow_mut().retain(|spinner| *spinner != here);
        false
    }

    /// The time until which the CPU spins, as things stand. `None`: it should not.
    fn spins_until(&self, world: &World, limit: &mut Option<Picoseconds>) -> Option<Picoseconds> {
        let now = world.cpu().clock.get();
        let mut until = world.gives_way_at();
        let sharers = self.readers.get() + self.granted.get();
        if self.writers.get() > 0 {
            *limit = None;
            if world.cpus[self.holder.get()].doing.get() == Doing::Nothing {
                return None;
            }
        } else if sharers > 0 {
            if self.tired.get() || world.machine.contention.waiting < Waiting::SpinsOnReaders {
                return None;
            }
            let end = *limit.get_or_insert(now + STEP * u64::from(20 + sharers.min(30)));
            if end <= now {
                self.tired.set(true);
                self.spinners_look_again(world);
            }
            until = until.min(end);
        }
        (until > now).then_some(until)
    }

    /// Whether the first thread that sleeps has slept for too long.
    pub(super) fn is_overdue(&self, world: &World) -> bool {
        let first = self.waiters.borrow().front().copied().filter(|first| first.task.is_some());
        world.machine.contention.waiting >= Waiting::SpinsOnReaders
            && first.is_some_and(|first| world.cpu().clock.get() >= first.since + PATIENCE)
    }

    /// Hands a free lock to the first thread that spins.
    pub(super) fn pass_to_spinner(&self, world: &World) {
        if self.writers.get() > 0 || self.readers.get() > 0 || self.is_promised() {
            return;
        }
        let Some(cpu) = self.spinners.borrow_mut().pop_front() else { return };
        world.spinning.borrow_mut().remove(cpu_id(cpu));
        self.admit(false, cpu);
        world.during(Doing::Locks, || {
            self.hand_over(world, Waiter { cpu, task: None, shared: false, since: 0 });
        });
    }

    /// Those that spin look who has the lock now.
    pub(super) fn spinners_look_again(&self, world: &World) {
        for &cpu in &*self.spinners.borrow() {
            world.look_again(cpu);
        }
    }
}

#[cfg(test)]
mod tests;
