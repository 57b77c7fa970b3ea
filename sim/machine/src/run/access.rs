//! The translation of a program's access: TLB, page walk, fault.

use ceasefire_memory::{Access, FaultError, FrameNumber, PAGE_BYTES, PAGE_SHIFT, USER_END};

use crate::hardware::contents::Word;
use crate::hardware::numbers::level_of;
use crate::hardware::tlb::{Cached, Hit};
use crate::measure::spent::Doing;
use crate::run::program::{Program, Use};
use crate::world::state::World;
use crate::world::walk::Walk;

impl Program {
    /// Uses the page at `address` `count` times. Returns the result of `touch` on the word there at the first use, if
    /// pages have contents. If these are several loads, `touch` also gets the word that the last of them finds.
    pub(super) fn access<R>(
        &self,
        address: u64,
        count: u32,
        how: Use,
        mut touch: impl FnMut(Word<'_>) -> R,
    ) -> Result<Option<R>, FaultError> {
        let world: &World = &self.sim;
        world.sync();
        let frame = self.translate(address, how)?;
        // At the instant of the translation: no other CPU has had a turn since.
        let mut touch = |frame| {
            let contents = world.contents.as_ref()?;
            Some(touch(contents.word(&world.ram, FrameNumber::new(frame), address % PAGE_BYTES)))
        };
        let touched = touch(frame);
        if how != Use::Fetch {
            let accesses = &world.tallies.accesses;
            accesses.set(accesses.get() + u64::from(count));
        }
        let entries = || (world.here(), world.cpu().asid.get(), world.invalidations_of(world.here()));
        let before = entries();
        world.compute(world.machine.costs.access * u64::from(count));
        world.give_way();
        if count > 1 {
            // If no entry was invalidated between the first of these accesses and the last, the CPU may still hold the
            // one that the first used.
            let last = if before == entries() { frame } else { self.translate(address, how)? };
            if how == Use::Load {
                touch(last);
            }
        }
        Ok(touched)
    }

    /// Makes the CPU's TLB hold an entry that allows the use, and returns the frame of the page.
    fn translate(&self, address: u64, how: Use) -> Result<u32, FaultError> {
        let (world, page, access) = (&*self.sim, address >> PAGE_SHIFT, how.access());
        if address >= USER_END {
            return Err(FaultError::NotMapped(address));
        }
        let through = |entry: &Cached| {
            if let Some(oracle) = &world.oracle {
                oracle.hit(world, world.here(), page, entry);
            }
            Ok(entry.frame(page))
        };
        loop {
            let cpu = world.cpu();
            let hit = {
                let outdated = world.outdated.borrow();
                cpu.tlb.borrow_mut().find_valid(page, cpu.asid.get(), how.side(), &outdated)
            };
            let usable = |entry: &Cached| access == Access::Read || (entry.writable && entry.dirty);
            let found = match hit {
                Hit::First(entry) => Some(entry),
                Hit::Second(entry) => {
                    world.during(Doing::Walks, || world.spend(world.machine.costs.l2_hit));
                    Some(entry)
                }
                Hit::None => None,
            };
            if let Some(entry) = found.filter(usable) {
                return through(&entry);
            }
            let misses = match how {
                Use::Load => &world.tallies.misses_load,
                Use::Store => &world.tallies.misses_store,
                Use::Fetch => &world.tallies.misses_fetch,
            };
            misses.set(misses.get() + 1);
            match world.during(Doing::Walks, || self.walk(page, how)) {
                // A lookup would find it first.
                Walk::Filled(entry) if !entry.is_huge() => return through(&entry),
                Walk::Filled(_) | Walk::Changed => {}
                Walk::Fault => {
                    // A fault invalidates the entries that led to it (Intel SDM volume 3, section 4.10.4.1). Otherwise
                    // a stale path to a page-table page would lead to the same fault for ever.
                    world.forget_page(world.here(), world.cpu().asid.get(), page);
                    world.sync();
                    world.during(Doing::Faults, || self.memory.fault(&self.space, address, access))?;
                    world.sync();
                }
            }
        }
    }

    /// Walks the page tables for a page, and caches the result if that allows the access.
    fn walk(&self, page: u64, how: Use) -> Walk {
        let world: &World = &self.sim;
        let costs = &world.machine.costs;
        let cpu = world.cpu();
        let Some(reached) = world.reach(world.here(), page) else {
            world.spend(3 * costs.walk_step);
            return Walk::Fault;
        };
        let level = level_of(reached.size);
        if !reached.remembered {
            world.spend(u64::from(3 - level) * costs.walk_step);
        }
        // Eight page-table entries share a cache line, so the next page's entry is already cached. The level is part
        // of a line's number.
        let line = page >> (9 * level) >> 3 | u64::from(level) << 63;
        let near = cpu.walked_line.replace(line) == line;
        if near {
            world.spend(costs.walk_step);
        } else {
            world.stall(world.memories.walk(cpu.node, reached.table));
        }
        world.fill(world.here(), page, how.side(), reached, how == Use::Store)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ceasefire_memory::{Event, FaultError, FrameNumber, Machine as _, PAGE_SHIFT};

    use crate::config::TlbLevel;
    use crate::testing::{
        alone, alone_with_contents, broken, now, roomy, run_on, thread, Slot, FRAME, LARGE,
    };
    use crate::{Program, Rule};

    #[test]
    fn a_walk_for_a_huge_page_ends_one_level_up_and_its_entry_serves_all_pages() {
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

    #[test]
    fn a_fetch_misses_in_its_own_first_level_and_is_counted_apart() {
        let mut machine = roomy(1);
        machine.tlb.instruction = Some(TlbLevel { entries: 4, ways: 2 });
        let fetches = |program: &Program| {
            let slot = Slot::small(program);
            let costs = &program.sim.machine.costs;
            let time = || {
                let begun = now(program);
                program.fetch(slot.address, 0).expect("a present entry");
                now(program) - begun
            };
            let misses = || {
                let tallies = &program.sim.tallies;
                [&tallies.misses_load, &tallies.misses_store, &tallies.misses_fetch].map(Cell::get)
            };
            let before = misses();
            // The second level holds it since the store that made the page.
            assert_eq!([time(), time()], [costs.l2_hit, 0]);
            assert_eq!(misses(), before);
            let accesses = program.sim.tallies.accesses.get();
            program.sim.forget_page(0, program.sim.cpus[0].asid.get(), slot.address >> PAGE_SHIFT);
            assert!(time() >= costs.walk_step);
            assert_eq!(misses(), [before[0], before[1], before[2] + 1]);
            assert_eq!(program.sim.tallies.accesses.get(), accesses, "a fetch is neither a load nor a store");
            let begun = now(program);
            program.fetch(slot.address, 3).expect("a present entry");
            assert_eq!(now(program) - begun, 3 * costs.access);
        };
        let outcome = run_on(&machine, vec![thread(0, fetches)]);
        assert_eq!((outcome.violations, outcome.reading.misses_fetch), (0, 1));
    }

    #[test]
    fn the_oracle_checks_the_entries_that_fetches_use() {
        let mut machine = roomy(1);
        machine.tlb.instruction = Some(TlbLevel { entries: 4, ways: 2 });
        run_on(
            &machine,
            vec![thread(0, |program| {
                let slot = Slot::small(program);
                program.sim.forget_all(0);
                program.fetch(slot.address, 0).expect("a present entry");
                let frame = FrameNumber::new((slot.get(program) >> PAGE_SHIFT) as u32);
                program.sim.observe(Event::FrameFreed(frame));
                program.fetch(slot.address, 0).expect("an entry that is still cached");
                let rules: Vec<Rule> = broken(program).into_iter().map(|(rule, _)| rule).collect();
                assert!(rules.contains(&Rule::Frame), "{rules:?}");
            })],
        );
    }

    #[test]
    fn a_fetch_from_an_unmapped_address_faults() {
        alone(|program| assert_eq!(program.fetch(4096, 1), Err(FaultError::NotMapped(4096))));
    }
}
