//! Invalidation: by one CPU in its own TLB, and by broadcast in all TLBs.
//!
//! A broadcast takes effect on every CPU when the CPU that started it waits for it. Real hardware may be faster, but
//! no code may rely on that. So every entry lives until the wait, which is the worst case. A CPU also waits before
//! another thread gets it, since a thread that moves to another CPU could not wait for its broadcasts there.
//!
//! The interconnect takes one broadcast after the other, from all CPUs. A CPU that sends while others do waits for
//! theirs too. No CPU is visited when a broadcast takes effect ([`Outdated`](crate::hardware::outdated::Outdated)).
//! Only the oracle, which records the entries that each CPU may hold, is informed.

use ceasefire::{Extent, Flush};
use ceasefire_memory::shadow::Shadow;
use ceasefire_memory::PAGE_SHIFT;

use crate::hardware::outdated::Broadcast;
use crate::world::state::World;

impl World {
    /// A CPU drops its entries for a page, of either size.
    pub(crate) fn forget_page(&self, index: usize, asid: u16, page: u64) {
        self.cpus[index].tlb.borrow_mut().invalidate_page(page, asid);
        if let Some(oracle) = &self.oracle {
            oracle.invalidated(index, asid, Some(page));
        }
    }

    /// This CPU's walker drops ways to tables, as an invalidation of one page under an ASID makes it do. INVLPG drops all
    /// (Intel SDM volume 3, section 4.10.4.1). Arm's instruction drops those to the page's tables, and its form for the last
    /// level none.
    pub(crate) fn forget_ways(&self, asid: u16, page: u64, tables: bool) {
        let (Some(oracle), index) = (&self.oracle, self.here()) else { return };
        if self.machine.processor.broadcast_asids.is_none() {
            oracle.dropped_ways(index, asid);
        } else if tables {
            oracle.dropped_way(index, asid, page);
        }
    }

    /// A CPU drops its entries under an ASID.
    pub(crate) fn forget_asid(&self, index: usize, asid: u16) {
        self.cpus[index].tlb.borrow_mut().invalidate_asid(asid);
        if let Some(oracle) = &self.oracle {
            oracle.invalidated(index, asid, None);
        }
    }

    /// A CPU drops all its entries.
    pub(crate) fn forget_all(&self, index: usize) {
        self.cpus[index].tlb.borrow_mut().invalidate_all();
        if let Some(oracle) = &self.oracle {
            oracle.invalidated_all(index);
        }
    }

    /// Counts an invalidation on a CPU. A thread there that accesses a page many times must look it up again.
    pub(crate) fn count_invalidation(&self, index: usize) {
        let invalidations = &self.cpus[index].invalidations;
        invalidations.set(invalidations.get() + 1);
    }

    /// This CPU starts to invalidate some or all entries under an ASID on all CPUs.
    pub(crate) fn broadcast(&self, asid: u16, flush: Flush) {
        self.start_broadcast(Broadcast::Tagged(asid, flush));
    }

    /// This CPU starts to invalidate everything on all CPUs.
    pub(crate) fn broadcast_everything(&self) {
        self.start_broadcast(Broadcast::Everything);
    }

    fn start_broadcast(&self, broadcast: Broadcast) {
        self.spend(self.machine.costs.broadcast_send);
        let cpu = self.cpu();
        let begun = cpu.clock.get().max(self.interconnect.get());
        let done = begun + self.machine.processor.broadcast_interval;
        if !self.standing.get() {
            self.interconnect.set(done);
            cpu.broadcast_at.set(done);
        }
        cpu.broadcasts.borrow_mut().push(broadcast);
    }

    /// Waits until the broadcasts that this CPU started have taken effect on all CPUs.
    pub(crate) fn broadcast_wait(&self) {
        for broadcast in self.cpu().broadcasts.borrow_mut().drain(..) {
            self.take_effect(broadcast);
        }
        self.tell(Shadow::waited);
        let begun = self.cpu().clock.get();
        self.spend_until(self.cpu().broadcast_at.get());
        self.stall(self.machine.costs.broadcast_wait);
        let tally = &self.tallies.answer_wait_time;
        tally.set(tally.get() + (self.cpu().clock.get() - begun));
    }

    /// This CPU gets another thread. It first waits for the broadcasts that it started, if there are any.
    pub(crate) fn finish_broadcasts(&self) {
        if !self.cpu().broadcasts.borrow().is_empty() {
            self.broadcast_wait();
        }
    }

    fn take_effect(&self, broadcast: Broadcast) {
        let mut outdated = self.outdated.borrow_mut();
        match broadcast {
            Broadcast::Everything => {
                outdated.everything(self.moment());
                if let Some(oracle) = &self.oracle {
                    (0..self.cpus.len()).for_each(|index| oracle.invalidated_all(index));
                }
                self.may_hold.borrow_mut().all_emptied();
            }
            Broadcast::Tagged(asid, Flush { extent: Extent::All, .. }) => {
                outdated.all(asid, self.moment());
                if let Some(oracle) = &self.oracle {
                    self.may_hold.borrow().of(asid).for_each(|index| oracle.invalidated(index, asid, None));
                }
                self.may_hold.borrow_mut().emptied(asid);
            }
            Broadcast::Tagged(asid, Flush { extent: Extent::Pages { start, count, size }, tables, .. }) => {
                for number in 0..u64::from(count) {
                    let page = (start + (number << size.shift())) >> PAGE_SHIFT;
                    if outdated.page(asid, page, self.moment()) {
                        for index in self.may_hold.borrow().of(asid) {
                            let mut tlb = self.cpus[index].tlb.borrow_mut();
                            tlb.drop_outdated(asid, &outdated);
                        }
                        outdated.forget(asid);
                    }
                }
                if let Some(oracle) = &self.oracle {
                    let page_of = |number| (start + (number << size.shift())) >> PAGE_SHIFT;
                    let pages = (0..u64::from(count)).map(page_of);
                    oracle.invalidated_everywhere(self.may_hold.borrow().of(asid), asid, pages.clone());
                    if tables {
                        let cpus = self.may_hold.borrow();
                        let ways = cpus.of(asid).flat_map(|cpu| pages.clone().map(move |page| (cpu, page)));
                        ways.for_each(|(cpu, page)| oracle.dropped_way(cpu, asid, page));
                    }
                }
            }
        }
    }

    /// The number of invalidations of entries that a CPU may use.
    pub(crate) fn invalidations_of(&self, index: usize) -> u64 {
        let cpu = &self.cpus[index];
        cpu.invalidations.get() + self.outdated.borrow().count(cpu.asid.get())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use ceasefire::{PageSize, Schedule};
    use ceasefire_memory::{Event, FrameNumber, Machine as _, Pages};

    use super::*;
    use crate::config::TlbLevel;
    use crate::testing::{broken, now, roomy, run_on, thread, Notes, Slot, US};
    use crate::{Options, Program, Simulation};

    /// Whether CPU 1 could still use a page, by its TLB, its walk cache and the oracle.
    fn held_by_1(program: &Program, address: u64) -> [bool; 3] {
        let (page, cpu) = (address >> PAGE_SHIFT, &program.sim.cpus[1]);
        let (asid, tlb, outdated) = (cpu.asid.get(), cpu.tlb.borrow(), program.sim.outdated.borrow());
        let before = broken(program).len();
        let frame = Slot::of(program, address, PageSize::KIB_4).get(program) >> PAGE_SHIFT;
        program.sim.observe(Event::Superseded(FrameNumber::new(frame as u32)));
        let entry = tlb.peek(page, asid).filter(|entry| !outdated.has_page(asid, page, entry.filled));
        let path = tlb.path(page, asid).filter(|&(_, filled)| !outdated.has_table(asid, page, filled));
        [entry.is_some(), path.is_some(), broken(program).len() > before]
    }

    /// CPU 1 uses a page at 20 us; CPU 0 then broadcasts from 50 us on.
    fn broadcast_beside(broadcast: impl FnOnce(&Program, u64) + 'static) {
        let shared = Rc::new(Cell::new(0));
        let base = shared.clone();
        run_on(
            &roomy(2),
            vec![
                thread(0, move |program| {
                    let address = Slot::small(program).address;
                    program.sim.forget_all(0);
                    base.set(address);
                    program.compute(50 * US);
                    broadcast(program, address);
                }),
                thread(20 * US, move |program| {
                    program.load(shared.get(), 1).expect("a mapped page");
                    for _ in 0..200 {
                        program.compute(US);
                    }
                }),
            ],
        );
    }

    /// The ASID under which CPU 1 runs.
    fn asid_of_1(program: &Program) -> u16 {
        program.sim.cpus[1].asid.get()
    }

    #[test]
    fn a_broadcast_takes_effect_on_all_cpus_at_the_wait() {
        type Start = fn(&Program, u64);
        let page: Start = |program, address| {
            let flush = Flush::range(address - 4096, address + 2 * 4096, PageSize::KIB_4);
            program.sim.broadcast(asid_of_1(program), flush);
        };
        let asid: Start = |program, _| program.sim.broadcast(asid_of_1(program), Flush::ALL);
        let everything: Start = |program, _| program.sim.broadcast_everything();
        for start in [page, asid, everything] {
            broadcast_beside(move |program, address| {
                let invalidations = program.sim.invalidations_of(1);
                start(program, address);
                assert_eq!(held_by_1(program, address), [true; 3], "no entry is dropped before the wait");
                program.sim.broadcast_wait();
                assert_eq!(held_by_1(program, address), [false; 3]);
                assert!(program.sim.invalidations_of(1) > invalidations);
            });
        }
    }

    #[test]
    fn a_broadcast_invalidates_its_own_pages_and_asid_alone() {
        broadcast_beside(|program, address| {
            let asid = asid_of_1(program);
            program.sim.broadcast(asid + 1, Flush::ALL);
            program.sim.broadcast(asid, Flush::range(address + 4096, address + 5 * 4096, PageSize::KIB_4));
            program.sim.broadcast_wait();
            // Only the path to the page-table page is gone, which the neighbouring pages share.
            assert_eq!(held_by_1(program, address), [true, false, true]);
        });
    }

    #[test]
    fn starting_and_waiting_for_a_broadcast_cost_time() {
        broadcast_beside(|program, _| {
            let costs = &program.sim.machine.costs;
            let begun = now(program);
            program.sim.broadcast(0, Flush::ALL);
            program.sim.broadcast(1, Flush::ALL);
            assert_eq!(now(program), begun + 2 * costs.broadcast_send);
            program.sim.broadcast_wait();
            assert_eq!(now(program), begun + 2 * costs.broadcast_send + costs.broadcast_wait);
            program.sim.finish_broadcasts();
            assert_eq!(
                now(program),
                begun + 2 * costs.broadcast_send + costs.broadcast_wait,
                "no broadcast is left"
            );
        });
    }

    /// The times at which four CPUs that start a broadcast at once have waited for it. The interconnect takes
    /// `interval` for each.
    fn together(interval: u64) -> Vec<u64> {
        let mut machine = roomy(4);
        machine.processor.broadcast_interval = interval;
        let done: Notes<u64> = Notes::default();
        let sender = || {
            let done = done.clone();
            thread(0, move |program: &Program| {
                program.compute(50 * US - now(program));
                program.sim.broadcast(3, Flush::ALL);
                program.sim.broadcast_wait();
                done.borrow_mut().push(now(program));
            })
        };
        run_on(&machine, (0..4).map(|_| sender()).collect());
        let mut done = done.borrow().clone();
        done.sort_unstable();
        done
    }

    #[test]
    fn the_interconnect_takes_one_broadcast_after_the_other() {
        let free = together(0);
        assert!(free.windows(2).all(|pair| pair[0] == pair[1]), "{free:?}");
        let taken = together(5 * US);
        for (number, (busy, free)) in (1..).zip(taken.iter().zip(&free)) {
            assert_eq!(busy - free, number * 5 * US);
        }
    }

    /// The number of misses of two programs that take turns on a CPU with a TLB of two entries. A broadcast
    /// invalidates all entries of one of them.
    fn misses_in_turns(oracle: bool) -> u64 {
        let mut machine = roomy(1);
        machine.costs.time_slice = 10 * US;
        (machine.tlb.l1, machine.tlb.l2) =
            (TlbLevel { entries: 2, ways: 2 }, TlbLevel { entries: 2, ways: 2 });
        let options = Options { oracle, ..Options::new(Schedule::Batched) };
        let simulation = Simulation::new(&machine, options).expect("it fits");
        let page = |program: &Program| {
            let page = program
                .system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)))
                .expect("room");
            program.load(page, 1).expect("a mapped page");
            page
        };
        let other = move |program: &Program| {
            let page = page(program);
            (0..100).for_each(|_| program.compute(US));
            program.load(page, 1).expect("a mapped page");
        };
        let broadcasts = move |program: &Program| {
            let page = page(program);
            program.sim.broadcast(program.sim.cpu().asid.get(), Flush::ALL);
            program.sim.broadcast_wait();
            program.load(page, 1).expect("a mapped page");
        };
        let space = || simulation.memory().new_space().expect("a frame");
        simulation.spawn("other", 0, 0, &space(), other).expect("a stack");
        simulation.spawn("broadcasts", 0, 5 * US, &space(), broadcasts).expect("a stack");
        simulation.run(|_, _| true).expect("no trace").reading.misses_load
    }

    #[test]
    fn the_misses_after_a_broadcast_do_not_depend_on_the_oracle() {
        assert_eq!(misses_in_turns(true), misses_in_turns(false));
    }

    #[test]
    fn a_thread_that_loses_its_cpu_first_waits_for_its_broadcasts() {
        let mut machine = roomy(2);
        machine.costs.time_slice = 10 * US;
        let options = Options::new(Schedule::Batched);
        let simulation = Simulation::new(&machine, options).expect("it fits");
        let space = simulation.memory().new_space().expect("a frame");
        let (seen, shared) = (Notes::default(), Rc::new(Cell::new(0)));
        let (base, user) = (shared.clone(), shared.clone());
        simulation
            .spawn("broadcasts", 0, 0, &space, move |program| {
                base.set(Slot::small(program).address);
                program.sim.forget_all(0);
                program.compute(50 * US);
                program.sim.broadcast(asid_of_1(program), Flush::ALL);
                // The third thread has waited for the CPU since 60 us.
                program.compute(50 * US);
            })
            .expect("a stack");
        simulation
            .spawn("uses", 1, 20 * US, &space, move |program| {
                program.load(user.get(), 1).expect("a mapped page");
                for _ in 0..300 {
                    program.compute(US);
                }
            })
            .expect("a stack");
        let notes: Notes<[bool; 3]> = seen.clone();
        simulation
            .spawn("sees", 0, 60 * US, &space, move |program| {
                notes.borrow_mut().push(held_by_1(program, shared.get()));
            })
            .expect("a stack");
        simulation.run(|_, _| true).expect("no trace");
        assert_eq!(*seen.borrow(), [[false; 3]]);
    }
}
