//! What a program can do: compute, and access memory through its CPU's TLB.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire::PageSize;
use ceasefire_memory::{
    Access, Entry, FaultError, FrameNumber, Machine, Memory, SpaceHandle, Table, PAGE_BYTES, PAGE_SHIFT,
    USER_END,
};

use crate::oracle::Oracle;
use crate::reading::Reading;
use crate::sim::{level_of, Sim};
use crate::tlb::{Cached, Fill, Hit, HUGE_SHIFT};
use crate::world::World;

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
        Ok(self.access(address, count, Access::Read, read)?.unwrap_or(0))
    }

    /// The same, and shows the word to `seen` at the instant of the first load, before any other CPU has a turn; not at all
    /// if pages have no contents.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn load_then(&self, address: u64, count: u32, seen: impl FnOnce(u64)) -> Result<(), FaultError> {
        let read = |word: &AtomicU64| seen(word.load(Ordering::Relaxed));
        self.access(address, count, Access::Read, read).map(|_| ())
    }

    /// Stores `count` times to the page at `address`: `value` into the 8 bytes at `address & !7`, if pages have
    /// contents, at the first of these stores.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn store(&self, address: u64, count: u32, value: u64) -> Result<(), FaultError> {
        let write = |word: &AtomicU64| word.store(value, Ordering::Relaxed);
        self.access(address, count, Access::Write, write).map(|_| ())
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
        self.access(address, count, Access::Write, write).map(|_| ())
    }

    /// What has been counted so far, on the whole machine.
    pub fn reading(&self) -> Reading {
        Reading::of(&self.sim, &self.memory)
    }

    /// Accesses the page at `address`; what `touch` makes of the word there, if pages have contents.
    fn access<R>(
        &self,
        address: u64,
        count: u32,
        access: Access,
        touch: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<Option<R>, FaultError> {
        let world: &World = &self.sim;
        world.sync();
        let frame = self.translate(address, access)?;
        // At the instant of the translation: no other CPU had a turn since.
        let touched = world.contents.is_some().then(|| {
            let words = world.ram.words(FrameNumber::new(frame));
            touch(&words[(address % PAGE_BYTES / 8) as usize])
        });
        let accesses = &world.tallies.accesses;
        accesses.set(accesses.get() + u64::from(count));
        let before = (world.here.get(), world.cpu().invalidations.get());
        world.compute(world.machine.costs.access * u64::from(count));
        world.give_way();
        if count > 1 && before != (world.here.get(), world.cpu().invalidations.get()) {
            // Something was invalidated between the first of these accesses and the last.
            self.translate(address, access)?;
        }
        Ok(touched)
    }

    /// Makes the CPU's TLB hold a translation that allows the access; the frame of the page.
    fn translate(&self, address: u64, access: Access) -> Result<u32, FaultError> {
        let (world, page) = (&*self.sim, address >> PAGE_SHIFT);
        if address >= USER_END {
            return Err(FaultError::NotMapped(address));
        }
        loop {
            let cpu = world.cpu();
            let hit = cpu.tlb.borrow_mut().find(page, cpu.asid.get());
            let usable = |entry: &Cached| access == Access::Read || (entry.writable && entry.dirty);
            let found = match hit {
                Hit::First(entry) => Some(entry),
                Hit::Second(entry) => {
                    world.spend(world.machine.costs.l2_hit);
                    Some(entry)
                }
                Hit::None => None,
            };
            if let Some(entry) = found.filter(usable) {
                if let Some(oracle) = &world.oracle {
                    oracle.hit(&self.sim, world.here.get(), page, &entry);
                }
                return Ok(entry.frame(page));
            }
            let misses = match access {
                Access::Read => &world.tallies.misses_load,
                Access::Write => &world.tallies.misses_store,
            };
            misses.set(misses.get() + 1);
            if !self.walk(page, access) {
                // A fault invalidates what led to it (Intel SDM volume 3, section 4.10.4.1), or a stale way to a table
                // would lead to the same fault for ever.
                world.forget_page(world.here.get(), world.cpu().asid.get(), page);
                world.sync();
                self.memory.fault(&self.space, address, access)?;
                world.sync();
            }
        }
    }

    /// Walks the page tables for a page and caches what it finds; whether that allows the access.
    ///
    /// # Panics
    /// If a huge translation leads to a frame that is not aligned to its size: the hardware has no way to say that.
    fn walk(&self, page: u64, access: Access) -> bool {
        let world: &World = &self.sim;
        let costs = &world.machine.costs;
        let cpu = world.cpu();
        let asid = cpu.asid.get();
        let now = || world.oracle.as_ref().map_or(0, Oracle::tick);
        let path = cpu.tlb.borrow().path(page, asid);
        let (table, size) = if let Some((table, filled)) = path {
            if let Some(oracle) = &world.oracle {
                oracle.walked(world, world.here.get(), page, table, filled);
            }
            (FrameNumber::new(table), PageSize::Small)
        } else {
            let Some((table, size)) = self.sim.descend(cpu.root.get(), page) else {
                world.spend(3 * costs.walk_step);
                return false;
            };
            world.spend(u64::from(3 - level_of(size)) * costs.walk_step);
            if size == PageSize::Small {
                cpu.tlb.borrow_mut().fill_path(page, asid, table.get(), now());
            }
            (table, size)
        };
        // Eight entries share a line; the next page's is there already. Lines are told apart by their entries' level.
        let level = level_of(size);
        let line = page >> (9 * level) >> 3 | u64::from(level) << 63;
        let near = cpu.walked_line.replace(line) == line;
        world.spend(if near { costs.walk_step } else { costs.walk_memory });
        let index = Table::index(page << PAGE_SHIFT, level);
        let entry: Entry = self.sim.table(table).get(index);
        let store = access == Access::Write;
        if !entry.present() || (store && !entry.writable()) {
            return false;
        }
        let Some(used) = self.sim.table(table).mark_used(index, entry, store) else { return true };
        let frame = used.frame().get();
        assert!(
            size == PageSize::Small || frame.is_multiple_of(1 << HUGE_SHIFT),
            "{used:?} is huge and not aligned"
        );
        let fill = Fill {
            size,
            frame,
            filled: now(),
            root: cpu.root.get(),
            writable: used.writable(),
            dirty: used.dirty(),
        };
        cpu.tlb.borrow_mut().fill(page, asid, fill);
        if let Some(oracle) = &world.oracle {
            oracle.filled(world.here.get(), page, asid, &fill);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_memory::FrameNumber;

    use crate::lock::tests::now;
    use crate::testing::{alone, alone_with_contents, Slot, FRAME, LARGE};

    #[test]
    fn a_huge_entry_is_found_one_level_up_and_then_serves_all_its_pages() {
        alone(|program| {
            let huge = Slot::huge(program);
            let costs = &program.sim.machine.costs;
            let time = |page: u64| {
                let begun = now(program);
                program.load(huge.at(page), 1).expect("a present entry");
                now(program) - begun
            };
            assert_eq!(time(100), 2 * costs.walk_step + costs.walk_memory + costs.access);
            for page in [100, 0, 511] {
                assert_eq!(time(page), costs.access, "page {page}");
            }
            let misses = program.sim.tallies.misses_load.get();
            assert_eq!(huge.get(program) >> 5 & 3, 1, "accessed and not dirty");
            program.store(huge.at(3), 1, 0).expect("a present entry");
            assert_eq!(huge.get(program) >> 5 & 3, 3, "the first store walks again");
            assert_eq!(program.sim.tallies.misses_load.get(), misses);
            assert_eq!(huge.get(program) & LARGE, LARGE);
        });
    }

    #[test]
    fn a_huge_page_has_the_bytes_of_512_frames() {
        let outcome = alone_with_contents(|program| {
            let huge = Slot::huge(program);
            program.store(huge.at(511) + 8, 1, 77).expect("a present entry");
            let word = &program.sim.ram.words(FrameNumber::new(FRAME + 511))[1];
            assert_eq!(word.load(std::sync::atomic::Ordering::Relaxed), 77);
            assert_eq!(program.load(huge.at(511) + 8, 1), Ok(77));
            assert_eq!(program.load(huge.at(510) + 8, 1), Ok(0));
        });
        assert_eq!(outcome.violations, 0);
    }
}
