//! The simulated machine as the engine and the memory manager see it.

use std::ops::Deref;
use std::rc::Rc;

use ceasefire::{Asid, Capabilities, Cpu, CpuId, CpuSet, FlushEvent, HeldLocks, PageSize, Platform, Root};
use ceasefire_memory::{Block, Event, FrameNumber, Machine, NodeId, SpaceHandle, Table, Work, PAGE_SHIFT};

use crate::lock::{SimLock, SimRwLock};
use crate::world::{World, KERNEL_ROOT};

/// A handle to a simulated machine.
#[derive(Debug, Clone)]
pub struct Sim(Rc<World>);

impl Sim {
    pub(crate) fn new(world: World) -> Self {
        Self(Rc::new(world))
    }

    /// The lowest-level table for a page in the tables that start at `root`.
    pub(crate) fn descend(&self, root: u32, page: u64) -> Option<FrameNumber> {
        let mut frame = FrameNumber::new(root);
        for level in (1..4).rev() {
            let entry = self.table(frame).get(Table::index(page << PAGE_SHIFT, level));
            if !entry.present() {
                return None;
            }
            frame = entry.frame();
        }
        Some(frame)
    }
}

impl Deref for Sim {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

// SAFETY: one host thread runs everything. `this_cpu` is the CPU whose turn it is; a thread moves to another only in
// `give_way` or when it sleeps, which nothing inside `interrupts_off` or `pinned` does. With interrupts off (`off` > 0)
// `take_interrupts` does nothing and the queue does not consider the CPU's interrupt; the bodies that the engine runs
// with interrupts off contain no point at which another CPU could take its turn on the same state, since each `Cpu`
// belongs to one index of the array.
unsafe impl Platform for Sim {
    type Space = SpaceHandle<Self>;
    type Lock<T: std::fmt::Debug> = SimLock<T>;
    type RwLock<T: std::fmt::Debug> = SimRwLock<T>;

    fn capabilities(&self) -> Capabilities {
        Capabilities { clean_stores_walk: true, asids: true, broadcast: None }
    }

    fn this_cpu(&self) -> CpuId {
        // The configuration bounds the number of CPUs.
        CpuId::new(self.here.get()).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self> {
        &self.cpus[cpu.index()].engine
    }

    fn interrupts_off<R>(&self, body: impl FnOnce() -> R) -> R {
        let cpu = World::cpu(self);
        cpu.off.set(cpu.off.get() + 1);
        let result = body();
        cpu.off.set(cpu.off.get() - 1);
        if cpu.off.get() == 0 {
            cpu.on_since.set(cpu.clock.get());
        }
        result
    }

    fn pinned<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        let cpu = World::cpu(self);
        self.spend(self.machine.costs.root_load);
        if flush {
            self.invalidate_asid(asid);
        }
        cpu.root.set((root.0 >> PAGE_SHIFT) as u32);
        cpu.asid.set(asid.get());
    }

    fn load_kernel_root(&self) {
        self.spend(self.machine.costs.root_load);
        World::cpu(self).root.set(KERNEL_ROOT);
    }

    fn invalidate_page(&self, asid: Asid, address: u64, _: PageSize) {
        let cpu = World::cpu(self);
        self.spend(self.machine.costs.invalidate_page);
        self.forget_page(address >> PAGE_SHIFT, asid.get());
        cpu.invalidations.set(cpu.invalidations.get() + 1);
    }

    fn invalidate_asid(&self, asid: Asid) {
        let cpu = World::cpu(self);
        self.spend(self.machine.costs.invalidate_asid);
        cpu.tlb.borrow_mut().invalidate_asid(asid.get());
        if let Some(oracle) = &self.oracle {
            oracle.invalidated(self.here.get(), asid.get(), None);
        }
        cpu.invalidations.set(cpu.invalidations.get() + 1);
    }

    fn invalidate_all(&self) {
        let cpu = World::cpu(self);
        self.spend(self.machine.costs.invalidate_asid);
        cpu.tlb.borrow_mut().invalidate_all();
        if let Some(oracle) = &self.oracle {
            oracle.invalidated_all(self.here.get());
        }
        cpu.invalidations.set(cpu.invalidations.get() + 1);
    }

    fn interrupt(&self, targets: &CpuSet) {
        let me = self.here.get();
        let costs = &self.machine.costs;
        for target in targets.iter() {
            let target = target.index();
            let travel = self.between(me, target);
            // The request's line goes to the target as the interrupt does.
            self.spend(costs.interrupt_send + travel);
            let arrival = World::cpu(self).clock.get() + costs.interrupt_deliver + travel;
            let interrupt = &self.cpus[target].interrupt;
            interrupt.set(interrupt.get().min(arrival));
            self.requeue(target);
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        let start = World::cpu(self).clock.get();
        while !done() {
            World::wait(self);
        }
        let tally = &self.tallies.answer_wait_time;
        tally.set(tally.get() + (World::cpu(self).clock.get() - start));
    }

    fn answered(&self, initiator: CpuId, last: bool) {
        let travel = self.between(self.here.get(), initiator.index());
        self.spend(travel);
        // Who answers last need not be who is done last: a handler runs ahead of those that began after it.
        let answered_at = &self.cpus[initiator.index()].answered_at;
        answered_at.set(answered_at.get().max(World::cpu(self).clock.get() + travel));
        if last {
            self.wake_at(initiator.index(), answered_at.take());
        }
    }

    fn now(&self) -> u64 {
        World::cpu(self).clock.get() / 1000
    }

    fn trace(&self, event: FlushEvent) {
        self.trace.flush(World::cpu(self).clock.get(), self.here.get(), event);
    }

    fn held_locks(&self) -> &HeldLocks {
        &World::cpu(self).held
    }
}

impl Machine for Sim {
    fn table(&self, frame: FrameNumber) -> &Table {
        self.ram.table(frame)
    }

    fn zero(&self, _: FrameNumber, count: u32) {
        // Frames hold nothing but page tables, and a table that is freed has lost all its entries.
        self.spend(self.machine.costs.frame_zero * u64::from(count));
    }

    fn copy(&self, _: FrameNumber, _: FrameNumber, count: u32) {
        self.spend(2 * self.machine.costs.frame_zero * u64::from(count));
    }

    fn load(&self, _: FrameNumber, _: usize, into: &mut [u8]) {
        into.fill(0);
    }

    fn store(&self, _: FrameNumber, _: usize, _: &[u8]) {}

    fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        self.spend(self.machine.costs.write_out * pages.len() as u64);
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        self.spend(self.machine.costs.write_out * pages.len() as u64);
    }

    fn wait_for_page(&self, _: FrameNumber, busy: &dyn Fn() -> bool) {
        while busy() {
            self.spend(self.machine.costs.context_switch);
            self.give_way();
        }
    }

    fn page_ready(&self, _: FrameNumber) {}

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId(self.cpus[cpu.index()].node)
    }

    fn wake_reclaim(&self, node: NodeId) {
        let reclaimer = self.reclaimers.borrow().get(node.index()).copied();
        if let Some(task) = reclaimer {
            self.wake_task(task);
        }
    }

    fn reschedule(&self) {
        self.give_way();
    }

    fn work(&self, work: Work, count: u32) {
        self.spend(self.prices.of(work) * u64::from(count));
    }

    fn observe(&self, event: Event<'_>) {
        if let Some(oracle) = &self.oracle {
            oracle.observe(self, event);
        }
    }
}
