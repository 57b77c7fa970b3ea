//! Speculation: walkers that fill translations which no access asked for.
//!
//! A processor may fill a translation of the root that it has loaded at any time, for any page, and also in the kernel
//! and while it is idle. Here a fill may happen at each moment at which CPUs can notice each other, on the CPU whose turn
//! it is or on any other. Half of the fills are beside the page that the CPU walked to last. The others follow a random
//! way through the page tables. A fill takes no time. It may replace another entry, and it sets the entry's accessed bit,
//! never its dirty bit.
//!
//! The seed of the run determines all fills. A machine that does not speculate draws nothing.

use std::cell::{Cell, RefCell};

use ceasefire_memory::{FrameNumber, ENTRIES, PAGE_SHIFT, USER_END};
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

use crate::hardware::numbers::KERNEL_ROOT;
use crate::hardware::tlb::Side;
use crate::world::state::World;
use crate::world::walk::Walk;

/// The number of small pages around the last walk among which a fill beside it chooses.
const AROUND: u64 = 32;

/// The choices of walkers that speculate.
#[derive(Debug)]
pub(crate) struct Speculation {
    /// The part of the moments with a fill, of 2^32.
    rate: u64,
    random: RefCell<SplitMix64>,
    filled: Cell<u64>,
}

impl Speculation {
    /// Speculation at a rate from 0 to 1; none at 0.
    pub(crate) fn new(rate: f64, seed: u64) -> Option<Self> {
        let rate = (rate * 2_f64.powi(32)) as u64;
        let random = RefCell::new(SplitMix64::seed_from_u64(seed));
        (rate > 0).then(|| Self { rate, random, filled: Cell::new(0) })
    }

    /// The number of translations filled so far.
    pub(crate) fn filled(&self) -> u64 {
        self.filled.get()
    }

    /// A number below `bound`, which is at most 2^32.
    fn below(&self, bound: u64) -> u64 {
        ((self.random.borrow_mut().next_u64() >> 32) * bound) >> 32
    }

    fn one_of_two(&self) -> bool {
        self.below(2) == 0
    }
}

impl World {
    /// A moment passes at which a CPU may fill a translation by itself.
    #[cold]
    #[inline(never)]
    pub(crate) fn speculate(&self, speculation: &Speculation) {
        if speculation.below(1 << 32) >= speculation.rate {
            return;
        }
        let any = speculation.below(self.cpus.len() as u64) as usize;
        let index = if speculation.one_of_two() { self.here() } else { any };
        if self.cpus[index].root.get() == KERNEL_ROOT {
            return;
        }
        let page = if speculation.one_of_two() {
            self.page_beside(speculation, index)
        } else {
            self.page_in_tables(speculation, index)
        };
        if let Some(page) = page {
            self.fill_ahead(speculation, index, page);
        }
    }

    /// A page near the last one to which a CPU has walked.
    fn page_beside(&self, speculation: &Speculation, index: usize) -> Option<u64> {
        // The walker keeps the line of eight entries from which it read the last one.
        let line = self.cpus[index].walked_line.get();
        let page = (line << 3 & (USER_END >> PAGE_SHIFT).wrapping_sub(1)) + speculation.below(AROUND);
        page.checked_sub(AROUND / 2).filter(|&page| page < USER_END >> PAGE_SHIFT)
    }

    /// A page that the tables which a CPU has loaded translate, at the end of a random way through them.
    fn page_in_tables(&self, speculation: &Speculation, index: usize) -> Option<u64> {
        let mut table = FrameNumber::new(self.cpus[index].root.get());
        let mut page = 0;
        for level in (0..4).rev() {
            let first = speculation.below(ENTRIES as u64) as usize;
            let indices = (0..ENTRIES).map(|offset| (first + offset) % ENTRIES);
            let entries = indices.map(|index| (index, self.ram.table(table).get(index)));
            let (index, entry) = entries.into_iter().find(|(_, entry)| entry.present())?;
            page |= (index as u64) << (9 * level);
            if level == 1 && entry.is_huge() {
                return Some(page | speculation.below(ENTRIES as u64));
            }
            table = entry.frame();
        }
        Some(page)
    }

    /// A CPU's walker fills the translation of a page, if there is one.
    fn fill_ahead(&self, speculation: &Speculation, index: usize, page: u64) {
        let Some(reached) = self.reach(index, page) else { return };
        if let Walk::Filled(_) = self.fill(index, page, Side::Data, reached, false) {
            speculation.filled.set(speculation.filled.get() + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use ceasefire::{PageSize, Schedule};
    use ceasefire_memory::{Pages, PAGE_BYTES};

    use super::*;
    use crate::config::Machine;
    use crate::testing::{roomy, run_on, thread, Slot, US};
    use crate::{Options, Outcome, Program, Simulation};

    fn eager(cpus: u16) -> Machine {
        roomy(cpus).speculating(1.0).expect("a rate")
    }

    /// Maps pages and loads from each.
    fn map(program: &Program, pages: u64) -> u64 {
        let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(pages)));
        let base = base.expect("room");
        (0..pages).for_each(|page| program.store(base + page * PAGE_BYTES, 1, 0).expect("a mapped page"));
        base
    }

    /// The pages of a range for which the oracle says that a CPU may hold a translation.
    fn held(program: &Program, cpu: usize, base: u64, pages: u64) -> usize {
        let (sim, first) = (&program.sim, base >> PAGE_SHIFT);
        let oracle = sim.oracle.as_ref().expect("it watches");
        oracle.held_frames(cpu, sim.cpus[cpu].asid.get(), first..first + pages, usize::MAX).len()
    }

    #[test]
    fn a_lazy_cpu_fills_translations_that_it_never_used() {
        for (machine, fills) in [(roomy(2), false), (eager(2), true)] {
            let body = move |program: &Program| {
                program.compute(50 * US);
                let base = map(program, 8);
                program.compute(50 * US);
                assert!(program.sim.cpus[1].engine.is_lazy());
                (0..200).for_each(|_| program.compute(US));
                assert_eq!(held(program, 1, base, 8) > 0, fills);
            };
            let outcome = run_on(&machine, vec![thread(0, body), thread(0, |program| program.compute(US))]);
            assert_eq!((outcome.violations, outcome.speculated > 0), (0, fills));
        }
    }

    #[test]
    fn a_fill_takes_no_time_and_sets_no_dirty_bit() {
        let times = [roomy(1), eager(1)].map(|machine| {
            let ended = Rc::new(Cell::new(0));
            let told = ended.clone();
            let body = move |program: &Program| {
                let slot = Slot::small(program);
                slot.set(program, slot.get(program) & !(3 << 5));
                program.sim.forget_all(0);
                let begun = program.now();
                (0..100).for_each(|_| program.compute(US));
                let speculates = program.sim.speculation.is_some();
                assert_eq!(slot.get(program) >> 5 & 3, u64::from(speculates), "accessed and not dirty");
                assert_eq!(held(program, 0, slot.address, 1), usize::from(speculates));
                told.set(program.now() - begun);
            };
            run_on(&machine, vec![thread(0, body)]);
            ended.get()
        });
        assert_eq!(times[0], times[1]);
    }

    #[test]
    fn a_cpu_that_has_left_its_space_fills_nothing() {
        run_on(
            &eager(1),
            vec![thread(0, |program| {
                let slot = Slot::of(program, Slot::small(program).address, PageSize::KIB_4);
                program.sim.forget_all(0);
                let root = program.sim.cpus[0].root.replace(KERNEL_ROOT);
                (0..100).for_each(|_| program.compute(US));
                program.sim.set_root(root);
                assert_eq!(held(program, 0, slot.address, 1), 0);
            })],
        );
    }

    /// Two CPUs share pages, and unmap some.
    fn run(rate: f64, seed: u64) -> Outcome {
        let machine = roomy(2).speculating(rate).expect("a rate");
        let options = Options { seed, ..Options::new(Schedule::Lazy) };
        let simulation = Simulation::new(&machine, options).expect("it fits");
        let space = simulation.memory().new_space().expect("a frame");
        for cpu in 0..2 {
            let body = |program: &Program| {
                for _ in 0..20 {
                    let base = map(program, 16);
                    let unmap =
                        program.system_call(|memory, space| memory.unmap(space, base, Pages::new(16)));
                    unmap.expect("mapped pages");
                }
            };
            simulation.spawn(cpu.to_string(), cpu, 0, &space, body).expect("a stack");
        }
        simulation.run(|_, _| true).expect("no trace")
    }

    #[test]
    fn the_seed_determines_all_fills_and_without_any_it_changes_nothing() {
        let one = run(0.3, 5);
        assert_eq!(one, run(0.3, 5));
        assert_ne!(one.speculated, run(0.3, 6).speculated);
        assert!(run(1.0, 5).speculated > one.speculated);
        assert_eq!(run(0.0, 5), run(0.0, 6));
        assert_eq!(run(0.0, 5).speculated, 0);
    }
}
