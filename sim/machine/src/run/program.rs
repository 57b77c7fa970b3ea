//! A program's thread: it computes, and accesses memory through its CPU's TLB.

use std::ops::Range;
use std::rc::Rc;

use ceasefire_memory::{Access, FaultError, FrameNumber, Memory, SpaceHandle, PAGE_BYTES, PAGE_SHIFT};

use crate::config::Picoseconds;
use crate::hardware::contents::Word;
use crate::hardware::tlb::Side;
use crate::measure::reading::Reading;
use crate::run::error::SetupError;
use crate::schedule::scheduler;
use crate::world::state::{Sim, World};
use crate::world::task::Kind;

/// The way in which a program uses a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Load,
    Store,
    Fetch,
}

impl Use {
    /// The right that the page's entry must allow.
    pub(super) const fn access(self) -> Access {
        match self {
            Self::Load | Self::Fetch => Access::Read,
            Self::Store => Access::Write,
        }
    }

    /// The first level of the TLB that it asks.
    pub(super) const fn side(self) -> Side {
        match self {
            Self::Load | Self::Store => Side::Data,
            Self::Fetch => Side::Instruction,
        }
    }
}

/// A thread of a program on the simulated machine, as its own code sees it. A copy is for the same thread.
#[derive(Debug, Clone)]
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

    /// Enters the kernel, runs `call`, and leaves the kernel.
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

    /// The thread stops using its space, because it is about to end. It must call this before it informs the threads
    /// that will end the space ([`Memory::exit`]). Until then its CPU may have the space loaded.
    pub fn leave_space(&self) {
        self.sim.rest();
    }

    /// Computes for `picoseconds` without touching memory.
    pub fn compute(&self, picoseconds: u64) {
        self.sim.compute(picoseconds);
        self.sim.give_way();
    }

    /// Gives the CPU to the thread that has waited for it longest (`sched_yield`). Returns at once if none waits.
    pub fn yield_cpu(&self) {
        self.sim.spend(self.sim.machine.costs.system_call);
        self.sim.yield_cpu();
    }

    /// Sleeps for `picoseconds` (`nanosleep`). Its CPU goes on with other threads, or idles.
    pub fn sleep(&self, picoseconds: u64) {
        self.sim.spend(self.sim.machine.costs.system_call);
        self.sim.wait_until(self.now() + picoseconds);
    }

    /// Loads `count` times from the page at `address`, and works on the loaded data for as long as the machine file
    /// says. Returns the 8 bytes at `address & !7` at the first of these loads; 0 if pages have no contents.
    ///
    /// # Errors
    /// [`FaultError`] if the fault cannot be resolved: the program would get a signal.
    pub fn load(&self, address: u64, count: u32) -> Result<u64, FaultError> {
        Ok(self.access(address, count, Use::Load, |word| word.load())?.unwrap_or(0))
    }

    /// The same, and passes the word to `seen` at the instant of the first load, before any other CPU has a turn. If
    /// there are several loads, it does so again at the instant of the last, before which entries may have been
    /// invalidated. `seen` is not called if pages have no contents.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn load_then(&self, address: u64, count: u32, mut seen: impl FnMut(u64)) -> Result<(), FaultError> {
        self.access(address, count, Use::Load, |word| seen(word.load())).map(|_| ())
    }

    /// Passes to `seen` the words that loads could find now, through entries that this CPU may hold: those that it
    /// filled and has not invalidated since, even if its TLB was too small to keep them. Loads from one word of each
    /// page are tried, `addresses.start` being the first, until `most` have been passed on. Returns the address with
    /// which to go on, or `None` at the end.
    ///
    /// Takes no time. `seen` is not called if pages have no contents, or if the oracle is off, which keeps these
    /// entries.
    pub fn load_held(
        &self,
        addresses: Range<u64>,
        most: usize,
        mut seen: impl FnMut(u64, u64),
    ) -> Option<u64> {
        let world: &World = &self.sim;
        let (oracle, contents) = world.oracle.as_ref().zip(world.contents.as_ref())?;
        let (cpu, offset) = (world.here(), addresses.start % PAGE_BYTES);
        let pages = addresses.start >> PAGE_SHIFT..addresses.end.div_ceil(PAGE_BYTES);
        let held = oracle.held_frames(cpu, world.cpu().asid.get(), pages, most);
        for &(page, frame) in &held {
            let found = contents.word(&world.ram, FrameNumber::new(frame), offset).load();
            seen((page << PAGE_SHIFT) + offset, found);
        }
        let last = held.last().filter(|_| held.len() >= most)?;
        Some(((last.0 + 1) << PAGE_SHIFT) + offset)
    }

    /// Stores `count` times to the page at `address`. If pages have contents, the first of these stores writes
    /// `value` to the 8 bytes at `address & !7`.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn store(&self, address: u64, count: u32, value: u64) -> Result<(), FaultError> {
        self.access(address, count, Use::Store, |word| word.store(value)).map(|_| ())
    }

    /// The same, and calls `stored` at the instant of the first store, before any other CPU has a turn. `stored` is
    /// not called if pages have no contents.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn store_then(
        &self,
        address: u64,
        count: u32,
        value: u64,
        mut stored: impl FnMut(),
    ) -> Result<(), FaultError> {
        let write = |word: Word<'_>| {
            word.store(value);
            stored();
        };
        self.access(address, count, Use::Store, write).map(|_| ())
    }

    /// Executes `count` instructions from the page at `address` that touch no memory. Each takes as long as a load
    /// that hits the TLB. With a `count` of 0 the CPU only translates the address, since the time of loads and stores
    /// includes their instructions.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn fetch(&self, address: u64, count: u32) -> Result<(), FaultError> {
        self.access(address, count, Use::Fetch, |_| ()).map(|_| ())
    }

    /// Starts a thread in any space on a CPU. It may run from now on.
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
        let program = Self { space: space.clone(), ..self.clone() };
        program.start(name.into(), cpu, self.now(), body)
    }

    /// Starts this thread on a CPU at a time.
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

    /// The time on the clock of its CPU.
    pub fn now(&self) -> Picoseconds {
        World::cpu(&self.sim).clock.get()
    }

    /// All counts of the machine so far.
    pub fn reading(&self) -> Reading {
        self.sim.reading()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use ceasefire_memory::FaultError;

    use crate::testing::{alone, Slot, US};
    use crate::Program;

    #[test]
    fn a_thread_that_sleeps_leaves_its_cpu_to_another() {
        let outcome = alone(|program| {
            let work = |other: &Program| other.compute(90 * US);
            program.spawn("other", 0, program.space(), work).expect("a stack");
            let begun = program.now();
            program.sleep(100 * US);
            assert!(program.now() - begun >= 100 * US);
        });
        assert_eq!(outcome.reading.spent.user, 90 * US);
        assert!(outcome.elapsed < 190 * US, "{}", outcome.elapsed);
    }

    #[test]
    fn a_thread_starts_another_that_begins_no_earlier_in_another_space() {
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
                    "the child's space maps no page of the parent's"
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
