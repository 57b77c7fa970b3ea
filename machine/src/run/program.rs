//! What a program can do: compute, and access memory through its CPU's TLB.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire_memory::{FaultError, Memory, SpaceHandle};

use crate::config::Picoseconds;
use crate::measure::reading::Reading;
use crate::run::access::Use;
use crate::run::error::SetupError;
use crate::schedule::scheduler;
use crate::world::state::{Sim, World};
use crate::world::task::Kind;

/// A thread of a program on the simulated machine, seen from inside.
#[derive(Debug)]
pub struct Program {
    pub(crate) sim: Sim,
    pub(crate) memory: Rc<Memory<Sim>>,
    pub(crate) space: SpaceHandle<Sim>,
}

impl Program {
    /// The machine's memory manager, for system calls.
    pub fn memory(&self) -> &Memory<Sim> {
        &self.memory
    }

    /// The program's address space.
    pub fn space(&self) -> &SpaceHandle<Sim> {
        &self.space
    }

    /// Enters the kernel and leaves it again around `call`.
    pub fn system_call<R>(&self, call: impl FnOnce(&Memory<Sim>, &SpaceHandle<Sim>) -> R) -> R {
        self.sim.spend(self.sim.machine.costs.system_call);
        let watched = self.sim.oracle.as_ref().zip(World::cpu(&self.sim).task.get());
        if let Some((oracle, thread)) = watched {
            oracle.called(thread.0);
        }
        let result = call(&self.memory, &self.space);
        if let Some((oracle, thread)) = watched {
            oracle.left(thread.0);
        }
        result
    }

    /// The thread uses its space no more and is about to end: what it says to those that will take the space apart
    /// ([`Memory::exit`]) it says after this. Until then its CPU may have the space loaded.
    pub fn leave_space(&self) {
        self.sim.rest();
    }

    /// Computes for `picoseconds` without touching memory.
    pub fn compute(&self, picoseconds: u64) {
        self.sim.compute(picoseconds);
        self.sim.give_way();
    }

    /// Loads `count` times from the page at `address`, and works with what it loads for as long as the machine's file
    /// says. The 8 bytes at `address & !7` as they were at the first of these loads; 0 if pages have no contents.
    ///
    /// # Errors
    /// [`FaultError`] if the page cannot be had: the program would get a signal.
    pub fn load(&self, address: u64, count: u32) -> Result<u64, FaultError> {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Ok(self.access(address, count, Use::Load, read)?.unwrap_or(0))
    }

    /// The same, and shows the word to `seen` at the instant of the first load, before any other CPU has a turn; not at all
    /// if pages have no contents.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn load_then(&self, address: u64, count: u32, seen: impl FnOnce(u64)) -> Result<(), FaultError> {
        let read = |word: &AtomicU64| seen(word.load(Ordering::Relaxed));
        self.access(address, count, Use::Load, read).map(|_| ())
    }

    /// Stores `count` times to the page at `address`: `value` into the 8 bytes at `address & !7`, if pages have
    /// contents, at the first of these stores.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn store(&self, address: u64, count: u32, value: u64) -> Result<(), FaultError> {
        let write = |word: &AtomicU64| word.store(value, Ordering::Relaxed);
        self.access(address, count, Use::Store, write).map(|_| ())
    }

    /// The same, and calls `stored` at the instant of the first store, before any other CPU has a turn; not at all if pages
    /// have no contents.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn store_then(
        &self,
        address: u64,
        count: u32,
        value: u64,
        stored: impl FnOnce(),
    ) -> Result<(), FaultError> {
        let write = |word: &AtomicU64| {
            word.store(value, Ordering::Relaxed);
            stored();
        };
        self.access(address, count, Use::Store, write).map(|_| ())
    }

    /// Executes from the page at `address`: `count` instructions that touch no memory, each of which takes as long as a
    /// load that hits the TLB. With a `count` of 0 the CPU only comes by: loads and stores have the time of the
    /// instructions that make them.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn fetch(&self, address: u64, count: u32) -> Result<(), FaultError> {
        self.access(address, count, Use::Fetch, |_| ()).map(|_| ())
    }

    /// Starts a thread in another space, or another one in its own, on a CPU; it may run from now on.
    ///
    /// # Errors
    /// [`SetupError::Host`] if the host has no room for its stack.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn spawn(
        &self,
        name: impl Into<String>,
        cpu: u16,
        space: &SpaceHandle<Sim>,
        body: impl FnOnce(&Self) + 'static,
    ) -> Result<(), SetupError> {
        let program = Self { sim: self.sim.clone(), memory: self.memory.clone(), space: space.clone() };
        program.start(name.into(), cpu, self.now(), body)
    }

    /// Starts the thread that this is on a CPU at a time.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub(super) fn start(
        self,
        name: String,
        cpu: u16,
        start: Picoseconds,
        body: impl FnOnce(&Self) + 'static,
    ) -> Result<(), SetupError> {
        let sim = self.sim.clone();
        assert!((cpu as usize) < sim.cpus.len(), "CPU {cpu} of {}", sim.cpus.len());
        let kind = Kind::Program(self.space.clone());
        let id = scheduler::add(&sim, name, kind, move || body(&self)).map_err(SetupError::Host)?;
        sim.alive.set(sim.alive.get() + 1);
        sim.start_on(id, cpu as usize, start);
        Ok(())
    }

    /// The time on the clock of the CPU that it runs on.
    pub fn now(&self) -> Picoseconds {
        World::cpu(&self.sim).clock.get()
    }

    /// What has been counted so far, on the whole machine.
    pub fn reading(&self) -> Reading {
        self.sim.reading()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use ceasefire_memory::FaultError;

    use crate::testing::{alone, Slot};
    use crate::Program;

    #[test]
    fn a_thread_starts_one_in_another_space_that_begins_no_earlier() {
        let ran = Rc::new(Cell::new(0));
        let times = ran.clone();
        let outcome = alone(move |program| {
            program.compute(1_000);
            let own = Slot::small(program).address;
            let (begun, space) = (program.now(), program.memory().new_space().expect("a frame"));
            let body = move |child: &Program| {
                assert!(child.now() >= begun);
                assert_eq!(
                    child.load(own, 1),
                    Err(FaultError::NotMapped(own)),
                    "it maps nothing of its parent's"
                );
                times.set(times.get() + 1);
            };
            program.spawn("child", 0, &space, body).expect("a stack");
            assert_eq!(program.load(own, 1), Ok(0));
        });
        assert_eq!(ran.get(), 1);
        let child = outcome.threads.last().expect("a thread");
        assert_eq!((child.name.as_str(), child.ended), ("child", Some(outcome.elapsed)));
    }
}
