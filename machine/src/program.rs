//! What a program can do: compute, and access memory through its CPU's TLB.

use std::rc::Rc;

use ceasefire_memory::{
    Access, Entry, FaultError, FrameNumber, Machine, Memory, SpaceHandle, Table, PAGE_SHIFT,
};

use crate::sim::Sim;
use crate::tlb::{Cached, Fill, Hit};
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
    /// says.
    ///
    /// # Errors
    /// [`FaultError`] if the page cannot be had: the program would get a signal.
    pub fn load(&self, address: u64, count: u32) -> Result<(), FaultError> {
        self.access(address, count, Access::Read)
    }

    /// Stores `count` times to the page at `address`.
    ///
    /// # Errors
    /// [`FaultError`], as for [`Program::load`].
    pub fn store(&self, address: u64, count: u32) -> Result<(), FaultError> {
        self.access(address, count, Access::Write)
    }

    fn access(&self, address: u64, count: u32, access: Access) -> Result<(), FaultError> {
        let world: &World = &self.sim;
        world.sync();
        self.translate(address, access)?;
        let accesses = &world.tallies.accesses;
        accesses.set(accesses.get() + u64::from(count));
        let before = (world.here.get(), world.cpu().invalidations.get());
        world.compute(world.machine.costs.access * u64::from(count));
        world.give_way();
        if count > 1 && before != (world.here.get(), world.cpu().invalidations.get()) {
            // Something was invalidated between the first of these accesses and the last.
            self.translate(address, access)?;
        }
        Ok(())
    }

    /// Makes the CPU's TLB hold a translation that allows the access.
    fn translate(&self, address: u64, access: Access) -> Result<(), FaultError> {
        let (world, page) = (&*self.sim, address >> PAGE_SHIFT);
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
                    oracle.hit(&self.sim, world.here.get(), &entry);
                }
                return Ok(());
            }
            let misses = match access {
                Access::Read => &world.tallies.misses_load,
                Access::Write => &world.tallies.misses_store,
            };
            misses.set(misses.get() + 1);
            if !self.walk(page, access) {
                // A fault invalidates what led to it (Intel SDM volume 3, section 4.10.4.1), or a stale way to a table
                // would lead to the same fault for ever.
                world.forget_page(page, world.cpu().asid.get());
                world.sync();
                self.memory.fault(&self.space, address, access)?;
                world.sync();
            }
        }
    }

    /// Walks the page tables for a page and caches what it finds; whether that allows the access.
    fn walk(&self, page: u64, access: Access) -> bool {
        let world: &World = &self.sim;
        let costs = &world.machine.costs;
        let cpu = world.cpu();
        let asid = cpu.asid.get();
        let incarnation = |frame: u32| world.oracle.as_ref().map_or(0, |oracle| oracle.incarnation(frame));
        let path = cpu.tlb.borrow().path(page, asid);
        let table = if let Some((table, born)) = path {
            if let Some(oracle) = &world.oracle {
                oracle.walked(world, world.here.get(), page, table, born);
            }
            FrameNumber::new(table)
        } else {
            world.spend(3 * costs.walk_step);
            let Some(table) = self.sim.descend(cpu.root.get(), page) else { return false };
            cpu.tlb.borrow_mut().fill_path(page, asid, table.get(), incarnation(table.get()));
            table
        };
        // Eight entries share a line; the next page's is there already.
        let line = page >> 3;
        let near = cpu.walked_line.replace(line) == line;
        world.spend(if near { costs.walk_step } else { costs.walk_memory });
        let index = Table::index(page << PAGE_SHIFT, 0);
        let entry: Entry = self.sim.table(table).get(index);
        let store = access == Access::Write;
        if !entry.present() || (store && !entry.writable()) {
            return false;
        }
        let Some(used) = self.sim.table(table).mark_used(index, entry, store) else { return true };
        let frame = used.frame().get();
        let fill = Fill {
            frame,
            incarnation: incarnation(frame),
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
