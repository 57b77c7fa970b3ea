//! The simulated machine as the engine and the memory manager see it.

use ceasefire::{
    AddressSpace, Asid, Broadcast, BroadcastError, Capabilities, Cpu, CpuId, CpuSet, Errata, Flush,
    FlushEvent, Generation, Holders, Look, Platform, Root, SpaceId, Walkers,
};
use ceasefire_memory::shadow::{Misuse, Shadow};
use ceasefire_memory::{Block, Event, FrameNumber, Machine, NodeId, SpaceHandle, Table, Work, PAGE_SHIFT};

use crate::config::{Picoseconds, Processor};
use crate::hardware::numbers::{cpu_id, KERNEL_ROOT};
use crate::hardware::prices::Prices;
use crate::measure::spent::Doing;
use crate::schedule::lock::{SimLock, SimRcu, SimRwLock};
use crate::world::state::{Sim, World};
use crate::world::task::Sleep;

impl Sim {
    /// The CPU has read or written `count` pages of a node since `begun`. It waits if the node's memory has not.
    fn stream(&self, node: u16, count: u32, begun: Picoseconds) {
        if !self.standing.get() {
            self.spend_until(self.memories.stream(node, count.into(), begun));
        }
    }

    /// The promises of a processor to a kernel that turns its broadcasts on (`broadcast`) or does not.
    ///
    /// # Errors
    /// [`BroadcastError`] if the processor has too few ASIDs for broadcasts.
    pub(crate) fn promises(processor: &Processor, broadcast: bool) -> Result<Capabilities, BroadcastError> {
        let pages = processor.broadcast_pages;
        let every = processor.broadcast_asids.map(|asids| Broadcast::new(asids, pages, Holders::Every));
        let wide = (broadcast && processor.asids)
            // x86 keeps PCID 0 for the kernel, and the last stays unused (Linux: `MAX_ASID_AVAILABLE`).
            .then(|| Broadcast::new(processor.asid_space.saturating_sub(2), pages, Holders::Wide));
        let errata =
            Errata { repeated: processor.broadcast_repeated, everyone: processor.broadcast_everyone };
        Ok(Capabilities {
            clean_stores_walk: true,
            asids: processor.asids,
            broadcast: every.or(wide).transpose()?.map(|broadcast| broadcast.with_errata(errata)),
            walkers: Walkers::Locked,
        })
    }
}

// SAFETY: one host thread runs everything. `this_cpu` is the CPU whose turn it is. A thread moves to another CPU only
// in `give_way` or when it sleeps. Both go through `leave`, which refuses this inside `interrupts_off` and `pinned`.
// With interrupts off (`off` > 0) `take_interrupts` does nothing, and the queue ignores the CPU's interrupt. The
// bodies that the engine runs with interrupts off contain no point at which another CPU could take its turn on the
// same state, since each `Cpu` belongs to one index of the array.
unsafe impl Platform for Sim {
    type Space = SpaceHandle<Self>;
    /// The CPU: where a simulation is given up, its threads are unwound on whichever CPU had its turn.
    type Saved = usize;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        cpu_id(self.here())
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space> {
        &self.cpus[cpu.index()].engine
    }

    fn save_interrupts(&self) -> usize {
        let cpu = World::cpu(self);
        cpu.off.set(cpu.off.get() + 1);
        self.here()
    }

    fn restore_interrupts(&self, saved: usize) {
        let cpu = &self.cpus[saved];
        cpu.off.set(cpu.off.get() - 1);
        if cpu.off.get() == 0 {
            cpu.on_since.set(cpu.clock.get());
        }
    }

    fn interrupts_on(&self) -> bool {
        World::cpu(self).off.get() == 0
    }

    fn pin(&self) {
        let cpu = World::cpu(self);
        cpu.pins.set(cpu.pins.get() + 1);
    }

    fn unpin(&self) {
        self.charge_looks();
        let cpu = World::cpu(self);
        // Where a simulation is given up, its threads are unwound on whichever CPU had its turn.
        cpu.pins.set(cpu.pins.get().saturating_sub(1));
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        self.ask(|shadow, cpu| shadow.loads(cpu, root, asid, flush));
        let cpu = World::cpu(self);
        self.spend(self.machine.costs.root_load);
        if flush {
            self.invalidate(asid, Flush::ALL);
        }
        self.set_root((root.0 >> PAGE_SHIFT) as u32);
        let before = cpu.asid.replace(asid.get());
        self.may_hold.borrow_mut().loads(self.here(), before, asid.get());
        if let Some(oracle) = &self.oracle {
            oracle.loads(&**self, self.here(), cpu.root.get(), asid.get());
        }
    }

    fn load_kernel_root(&self) {
        self.tell(Shadow::leaves);
        self.spend(self.machine.costs.root_load);
        self.set_root(KERNEL_ROOT);
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        self.report_work(|| match flush.addresses() {
            None => {
                self.tell(|shadow, cpu| shadow.forgets_asid(cpu, asid));
                self.during(Doing::Flushes, || self.spend(self.machine.costs.invalidate_asid));
                self.forget_asid(self.here(), asid.get());
                self.count_invalidation(self.here());
            }
            Some(addresses) => addresses.for_each(|address| {
                // Like INVLPG, this drops the entries of either size for the address.
                self.tell(|shadow, cpu| shadow.forgets_page(cpu, asid, address));
                self.during(Doing::Flushes, || self.spend(self.machine.costs.invalidate_page));
                self.forget_page(self.here(), asid.get(), address >> PAGE_SHIFT);
                self.forget_ways(asid.get(), address >> PAGE_SHIFT, flush.tables);
                self.count_invalidation(self.here());
            }),
        });
    }

    fn invalidate_all(&self) {
        self.report_work(|| {
            self.tell(Shadow::forgets_all);
            self.during(Doing::Flushes, || self.spend(self.machine.costs.invalidate_asid));
            self.forget_all(self.here());
            self.count_invalidation(self.here());
        });
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        self.tell(|shadow, cpu| shadow.broadcasts(cpu, asid, flush.extent));
        self.during(Doing::Flushes, || World::broadcast(self, asid.get(), flush));
    }

    fn broadcast_everything(&self) {
        self.tell(Shadow::broadcasts_everything);
        self.during(Doing::Flushes, || World::broadcast_everything(self));
    }

    fn broadcast_wait(&self) {
        self.note_wait();
        self.report_work(|| self.during(Doing::Answers, || World::broadcast_wait(self)));
    }

    fn looks_at(&self, _: &AddressSpace, generation: Generation) -> bool {
        generation.get().is_multiple_of(self.look_every)
    }

    fn deserves_asid(&self, _: &AddressSpace, look: Look) -> bool {
        look.deserves(self.wide)
    }

    fn flush_for(&self, targets: &mut CpuSet, _: SpaceId, _: Flush) {
        // It flushes for none of them. Each gets a request, also if it is being interrupted already.
        let me = self.here();
        let travel = targets.iter().map(|target| self.between(me, target.index())).sum::<Picoseconds>();
        let lines = u64::from(self.machine.contention.enqueue);
        self.during(Doing::Flushes, || self.stall(travel * lines));
    }

    fn interrupt(&self, targets: &CpuSet) {
        // The sender has looked at all CPUs of the set before.
        self.charge_looks();
        let me = self.here();
        let costs = &self.machine.costs;
        for target in targets.iter() {
            let target = target.index();
            let travel = self.between(me, target);
            self.during(Doing::Flushes, || self.spend(costs.interrupt_send));
            let arrival = World::cpu(self).clock.get() + costs.interrupt_deliver + travel;
            let interrupt = &self.cpus[target].interrupt;
            interrupt.set(interrupt.get().min(arrival));
            self.report(|recorder, cpu, _| recorder.interrupts(cpu, target));
            self.requeue(target);
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        self.note_wait();
        let start = World::cpu(self).clock.get();
        self.during(Doing::Answers, || {
            while !done() {
                World::wait(self);
            }
        });
        let tally = &self.tallies.answer_wait_time;
        tally.set(tally.get() + (World::cpu(self).clock.get() - start));
    }

    fn spin(&self) {
        let Some(oracle) = &self.oracle else { panic!("R9: a CPU waits for others with interrupts off") };
        oracle.waits(&**self, self.here());
        World::spin(self);
    }

    fn answered(&self, initiator: CpuId, last: bool) {
        let travel = self.between(self.here(), initiator.index());
        self.stall(travel * u64::from(self.machine.contention.request));
        // The CPU that answers last need not be the last one done: a handler runs ahead of handlers that began after
        // it.
        let answered_at = &self.cpus[initiator.index()].answered_at;
        answered_at.set(answered_at.get().max(World::cpu(self).clock.get() + travel));
        if last {
            let time = answered_at.take();
            self.report(|recorder, _, _| recorder.answered(initiator.index(), time));
            self.wake_at(initiator.index(), time);
        }
    }

    fn now(&self) -> u64 {
        World::cpu(self).clock.get() / 1000
    }

    fn trace(&self, event: FlushEvent) {
        self.report(|recorder, cpu, now| recorder.flush(cpu, now, event));
    }
}

impl Machine for Sim {
    type Lock<T: std::fmt::Debug> = SimLock<T>;
    type RwLock<T: std::fmt::Debug> = SimRwLock<T>;
    type Rcu<T: Clone + std::fmt::Debug> = SimRcu<T>;

    fn table(&self, frame: FrameNumber) -> &Table {
        self.ram.table(frame)
    }

    fn zero(&self, first: FrameNumber, count: u32) {
        let begun = World::cpu(self).clock.get();
        self.stall(self.machine.costs.frame_zero * u64::from(count));
        self.stream(self.memories.node_of(first), count, begun);
        // Without contents only page-table pages use their bytes, and a freed page-table page has lost all its
        // entries.
        if let Some(contents) = &self.contents {
            neighbours(first, count).for_each(|frame| contents.zero(&self.ram, frame));
        }
    }

    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32) {
        let begun = World::cpu(self).clock.get();
        let nodes = [from, to].map(|frame| self.memories.node_of(frame));
        self.stall(self.machine.copy_cost(nodes[0], nodes[1]) * u64::from(count));
        for node in nodes {
            self.stream(node, count, begun);
        }
        if let Some(contents) = &self.contents {
            let pairs = neighbours(from, count).zip(neighbours(to, count));
            pairs.for_each(|(from, to)| contents.copy(&self.ram, from, to));
        }
    }

    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        match &self.contents {
            Some(contents) => contents.load(&self.ram, frame, offset, into),
            None => into.fill(0),
        }
    }

    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        if let Some(contents) = &self.contents {
            contents.store(&self.ram, frame, offset, from);
        }
    }

    fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        World::write_out(self, pages);
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        World::read_in(self, pages);
    }

    fn wait_for_page(&self, frame: FrameNumber, busy: &dyn Fn() -> bool) {
        World::wait_for_page(self, frame, busy);
    }

    fn page_ready(&self, frame: FrameNumber) {
        World::page_ready(self, frame);
    }

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId(self.cpus[cpu.index()].node)
    }

    fn wake_reclaim(&self, node: NodeId) {
        let reclaimer = self.reclaimers.borrow().get(node.index()).copied();
        if let Some(task) = reclaimer {
            self.wake_task(task, Sleep::AtRest);
        }
    }

    fn shadow(&self, body: impl FnOnce(&mut Shadow)) {
        if let Some(watch) = &self.watch {
            watch.with(body);
        }
    }

    fn misused(&self, misuse: Misuse) {
        if let Some(watch) = &self.watch {
            watch.misused(misuse);
        }
    }

    fn reschedule(&self) {
        self.give_way();
    }

    fn work(&self, work: Work, count: u32) {
        let time = self.prices.of(work) * u64::from(count);
        if Prices::waits_for_memory(work) {
            self.stall(time);
        } else {
            self.spend(time);
        }
    }

    #[inline]
    fn observe(&self, event: Event<'_>) {
        if self.oracle.is_some() || self.contents.is_some() {
            self.note(event);
        }
    }
}

impl Sim {
    /// Informs the oracle that this CPU begins to wait for a flush.
    fn note_wait(&self) {
        if let Some(oracle) = &self.oracle {
            oracle.waits_for_flush(&**self, self.here());
        }
    }

    /// Informs the oracle of an event, and keeps the bytes of pages up to date.
    #[inline(never)]
    fn note(&self, event: Event<'_>) {
        if let Some(oracle) = &self.oracle {
            oracle.observe(&**self, event);
        }
        let Some(contents) = &self.contents else { return };
        match event {
            Event::FrameFreed(frame) => contents.free(frame),
            Event::HoleFilled { frame, block } => contents.fill_hole(frame, block),
            _ => {}
        }
    }
}

/// `count` frames from `first` on.
fn neighbours(first: FrameNumber, count: u32) -> impl Iterator<Item = FrameNumber> {
    (first.get()..first.get() + count).map(FrameNumber::new)
}
