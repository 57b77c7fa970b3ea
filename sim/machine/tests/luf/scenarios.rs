//! The scenarios of a stale read, in the order in which they were raised. The eighth concerns the allocator alone and
//! is in `memory/tests/owing.rs`.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::{Payment, Schedule, LONGEST_AGE};
use ceasefire_machine::{Options, Outcome, Program, Rule, Simulation};
use ceasefire_memory::{
    Block, FrameNumber, Machine as _, Moved, NodeId, Pages, Placement, Store, PAGE_BYTES,
};

use super::{all, holds, setups, write, Actor, Mapped, Way, NEW, OLD, PAGES};
#[cfg(ceasefire_sabotage)]
use crate::common::guards::Guard;
use crate::common::{at, machine, now, rules, run, run_clean, Random, US};
#[cfg(ceasefire_sabotage)]
use crate::{fails_without, play, Played, Setup, SETTLE, SLOT, STAMP};

/// A program maps another file over the one it reads (Linux: `MAP_FIXED`; here `mremap` to a fixed address).
fn maps_over(actor: &Actor<'_>) -> Option<u64> {
    let other = actor.call(|memory, _| memory.create_file(PAGES as u32)).expect("a free object");
    actor.call(|memory, _| write(memory, other, NEW));
    let length = Pages::new(PAGES);
    let map = actor
        .call(|memory, space| memory.map_shared(space, other, 0, Pages::new(PAGES), false))
        .expect("room");
    actor.take_away();
    let to = actor.address();
    actor.call(|memory, space| memory.remap(space, map, length, length, Placement::At(to))).expect("room");
    actor.seen()
}

#[test]
fn scenario_01_another_file_is_mapped_at_the_same_address() {
    holds(all(), maps_over, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SETTLE], all(), maps_over, Some(NEW));
}

/// `munmap` of a page whose entry is already empty, so there is nothing to flush; then new memory at the same
/// address.
fn unmaps_and_maps(actor: &Actor<'_>) -> Option<u64> {
    let start = actor.address();
    // Its page-table page must stay: freeing it would flush.
    actor.program.load(at(start, 1), 1).expect("a page of a file");
    let fresh = actor.call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room");
    actor.take_away();
    actor.call(|memory, space| memory.unmap(space, start, Pages::new(1))).expect("in range");
    let unmapped = actor.seen();
    let to = Placement::At(start);
    actor.call(|memory, space| memory.remap(space, fresh, Pages::new(1), Pages::new(1), to)).expect("room");
    unmapped.or(actor.seen())
}

#[test]
fn scenario_02_munmap_finds_nothing_and_the_address_is_used_again() {
    holds(all(), unmaps_and_maps, Some(0));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SETTLE], all(), unmaps_and_maps, Some(0));
}

/// Another program writes to the file.
fn is_written_elsewhere(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    let file = actor.file;
    actor.elsewhere(move |program| program.system_call(|memory, _| write(memory, file, NEW)));
    actor.seen()
}

#[test]
fn scenario_03_a_file_written_by_another_process() {
    holds(all(), is_written_elsewhere, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT], all(), is_written_elsewhere, Some(NEW));
}

/// The same program stores through a second mapping of the file.
fn is_stored_to_beside(actor: &Actor<'_>) -> Option<u64> {
    let map = actor
        .call(|memory, space| memory.map_shared(space, actor.file, 0, Pages::new(PAGES), true))
        .expect("room");
    actor.take_away();
    actor.program.store(map, 1, NEW).expect("a mapped page");
    actor.seen()
}

#[test]
fn scenario_04_a_store_through_a_second_mapping() {
    holds(all(), is_stored_to_beside, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT, SETTLE], all(), is_stored_to_beside, Some(NEW));
}

/// Another program stores to the page at its new location.
fn is_stored_to_elsewhere(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    let file = actor.file;
    actor.elsewhere(move |program| {
        let map =
            program.system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(PAGES), true));
        program.store(map.expect("room"), 1, NEW).expect("a mapped page");
    });
    actor.seen()
}

#[test]
fn scenario_05_another_process_stores_to_the_page_where_it_is_now() {
    holds(all(), is_stored_to_elsewhere, Some(NEW));
    // While reclaim is at work, the other program's own memory is paid for, and the page with it.
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT], all().filter(|setup| setup.way == Way::Moves), is_stored_to_elsewhere, Some(NEW));
}

/// The device's bytes change without an action of this machine, as on a server. Then the page is invalidated, whether
/// or not it is in memory.
pub(crate) fn changes_on_its_device(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.call(|memory, _| {
        let sent = memory.allocate_atomic(NodeId(0)).expect("a free frame");
        memory.platform().store(sent.number(), 0, &NEW.to_le_bytes());
        let block = Block { store: Store::File(actor.file), index: 0 };
        memory.platform().write_out(&[(block, sent.number())]);
        memory.free(sent);
        memory.invalidate(actor.file, 0, PAGES as u32).expect("the page is not busy");
    });
    actor.seen()
}

#[test]
fn scenario_06_contents_that_change_without_a_local_write() {
    holds(all(), changes_on_its_device, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT], all(), changes_on_its_device, Some(NEW));
}

/// The kernel takes every free frame that it can get without waiting, then some for which it must wait, and fills
/// them with data that no program may read.
fn frames_become_the_kernels(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    let taken = actor.call(|memory, _| {
        let take = || memory.allocate_atomic(NodeId(0));
        let taken: Vec<_> = std::iter::from_fn(take).collect();
        for frame in &taken {
            memory.platform().store(frame.number(), 0, &NEW.to_le_bytes());
        }
        taken
    });
    assert!(taken.len() > 1, "there is some memory left");
    let seen = actor.seen();
    actor.call(|memory, _| {
        for frame in taken {
            memory.free(frame);
        }
        // A space's root is a page of the kernel.
        let spaces: Vec<_> = (0..64).map_while(|_| memory.new_space().ok()).collect();
        for space in spaces {
            memory.exit(space);
        }
    });
    seen.filter(|&word| word == OLD).and(actor.seen())
}

#[test]
fn scenario_07_a_freed_page_becomes_the_kernels() {
    holds(all(), frames_become_the_kernels, Some(OLD));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[STAMP], all(), frames_become_the_kernels, Some(OLD));
}

/// Another program fills all available memory, while no check looks at the word that the reader sees.
fn frames_become_anothers(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.elsewhere(|program| {
        let map =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(300))).expect("room");
        (0..300).for_each(|page| program.store(at(map, page), 1, NEW).expect("there is memory"));
    });
    actor.seen()
}

#[test]
fn scenario_09_a_missing_flush_before_reuse_is_seen_by_the_oracle_itself() {
    holds(all(), frames_become_anothers, Some(OLD));
    #[cfg(ceasefire_sabotage)]
    for setup in all() {
        // The oracle reports it whether or not the reader looks.
        let without: &[Guard] = &[STAMP];
        let Played { outcome, .. } = play(Setup { without, ..setup }, |actor| {
            actor.take_away();
            None
        });
        assert!(rules(&outcome).contains(&Rule::Frame), "{setup:?}: {:?}", outcome.broken);
    }
}

/// A thread stores to the pages of a file and loads the stored words. Another syncs the file, which removes the right
/// to store until the next store. A third moves the pages to and fro, and a fourth loads from them all the time. Returns
/// the number of lost stores and the outcome.
fn stores_beside_sync(payment: Payment) -> (u64, Outcome) {
    const ROUNDS: u64 = 200;
    const FILE: u64 = 24;
    let options = Options { contents: true, payment, ..Options::new(Schedule::Lazy) };
    let simulation = Simulation::new(&machine(&[4, 0], 2048), options).expect("the machine fits the host");
    let file = simulation.memory().create_file(FILE as u32).expect("a free object");
    let space = simulation.memory().new_space().expect("a frame");
    let base = simulation.memory().map_shared(&space, file, 0, Pages::new(FILE), true).expect("room");
    let (done, lost) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (finished, missing) = (done.clone(), lost.clone());
    let stores = move |program: &Program| {
        for word in 1..=ROUNDS {
            for address in (0..FILE).map(|page| at(base, page)) {
                program.store(address, 1, word).expect("a mapped page");
            }
            program.compute(20 * US * (word % 7));
            for address in (0..FILE).map(|page| at(base, page)) {
                missing.set(missing.get() + u64::from(program.load(address, 1) != Ok(word)));
            }
        }
        finished.set(true);
    };
    let stop = done.clone();
    let loads = move |program: &Program| {
        while !stop.get() {
            for address in (0..FILE).map(|page| at(base, page)) {
                program.load(address, 8).expect("a mapped page");
            }
        }
    };
    let stop = done.clone();
    let syncs = move |program: &Program| {
        while !stop.get() {
            program.system_call(|memory, _| memory.sync(file));
        }
    };
    let moves = move |program: &Program| {
        let mut random = Random(1);
        while !done.get() {
            let (page, to) = (at(base, random.below(FILE)), NodeId(random.below(2) as u16));
            program.system_call(|memory, space| memory.move_pages(space, &[(page, to)]));
        }
    };
    simulation.spawn("stores", 0, 0, &space, stores).expect("a stack");
    simulation.spawn("syncs", 1, 0, &space, syncs).expect("a stack");
    simulation.spawn("moves", 2, 0, &space, moves).expect("a stack");
    simulation.spawn("loads", 3, 0, &space, loads).expect("a stack");
    let outcome = run_clean(&simulation);
    (lost.get(), outcome)
}

/// Here a page is also locked while it is written out. So the test that fails without the guard is the engine's law
/// `hole_12`.
#[test]
fn scenario_10_a_writable_entry_outlives_the_right_to_store() {
    for payment in [Payment::Free, Payment::Demand] {
        let (lost, outcome) = stores_beside_sync(payment);
        assert_eq!(lost, 0, "{payment:?}");
        let (statistics, counters) = (outcome.reading.statistics, outcome.reading.counters);
        assert!(statistics.written > 100 && statistics.migrated > 100, "{statistics:?}");
        assert!(counters.debts_created > 100 && outcome.stale_hits > 0, "{payment:?}: {counters:?}");
    }
}

/// A thread stores to a page of a private mapping: a copy replaces the file's page at the same address.
fn is_replaced_by_a_copy(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.program.store(actor.address(), 1, NEW).expect("a mapped page");
    actor.seen()
}

#[test]
fn scenario_11_another_page_takes_the_place_of_one() {
    holds(setups(Mapped::Private), is_replaced_by_a_copy, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT, SETTLE], setups(Mapped::Private), is_replaced_by_a_copy, Some(NEW));
}

/// A page is taken away lazily, and no operation requires a flush. Returns the time for which the reader continued to
/// use the old entry, in ns, and the outcome.
fn no_operation_requires_a_flush(payment: Payment, tick: u64, max_age: u64) -> (u64, Outcome) {
    let configure = move |config: &mut ceasefire_memory::Config| {
        (config.fault_around, config.read_ahead, config.lru_batch) = (1, 1, 1);
        config.lazy.max_age = max_age;
        config.lazy.tick = MILLISECOND;
    };
    let options = Options {
        payment,
        tick: tick * 1000,
        configure: Box::new(configure),
        ..Options::new(Schedule::Lazy)
    };
    let simulation = Simulation::new(&machine(&[2, 0], 2048), options).expect("the machine fits the host");
    let file = simulation.memory().create_file(1).expect("a free object");
    let space = simulation.memory().new_space().expect("a frame");
    let base = simulation.memory().map_shared(&space, file, 0, Pages::new(1), false).expect("room");
    let (gone, until) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (left, used) = (gone.clone(), until.clone());
    let reads = move |program: &Program| {
        let mut faults = 0;
        for _ in 0..3000 {
            program.load(base, 1).expect("a page of a file");
            let now_faults = program.reading().statistics.faults;
            if now_faults == faults && left.get() > 0 {
                used.set(now(program).saturating_sub(left.get()));
            }
            if left.get() > 0 && now_faults != faults {
                break;
            }
            faults = now_faults;
            program.compute(10 * US);
        }
    };
    let moves = move |program: &Program| {
        program.compute(100 * US);
        let moved = program.system_call(|memory, space| memory.move_pages(space, &[(base, NodeId(1))]));
        assert_eq!(moved, [Moved::There]);
        gone.set(now(program));
    };
    simulation.spawn("reads", 0, 0, &space, reads).expect("a stack");
    simulation.spawn("moves", 1, 0, &space, moves).expect("a stack");
    let outcome = run(&simulation);
    (until.get(), outcome)
}

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

#[test]
fn scenario_12_a_window_without_an_end() {
    for (payment, max_age) in
        [(Payment::Free, 2), (Payment::Free, 10), (Payment::Demand, 2), (Payment::Demand, 10)]
    {
        let (used, outcome) = no_operation_requires_a_flush(payment, MILLISECOND, max_age * MILLISECOND);
        assert_eq!(outcome.violations, 0, "{payment:?}: {:?}", outcome.broken);
        assert!(used > 0 && used <= (max_age + 1) * MILLISECOND, "{payment:?}, {max_age} ms: {used} ns");
        let counters = outcome.reading.counters;
        assert!(counters.debt_age_max_ns <= (max_age + 1) * MILLISECOND, "{counters:?}");
        assert_eq!(counters.interrupts > 0, payment == Payment::Demand, "{counters:?}");
        // Without ticks the window has no end.
        let (used, outcome) = no_operation_requires_a_flush(payment, 0, max_age * MILLISECOND);
        assert!(
            used > (max_age + 1) * MILLISECOND && rules(&outcome) == [Rule::Bounded],
            "{used} ns: {outcome:?}"
        );
    }
}

/// One program streams through a file that is larger than memory, and owes. An unrelated one uses some fresh memory
/// from time to time. Returns the number of frames that an allocation paid for, and the outcome.
fn paid_for_frames(payment: Payment, max_age: u64) -> (u64, Outcome) {
    const FILE: u64 = 6000;
    let tick = MILLISECOND / 4;
    let configure = move |config: &mut ceasefire_memory::Config| {
        (config.fault_around, config.read_ahead) = (1, 1);
        // Few compared to the pages read, so it matters which CPU pays for them.
        (config.lazy.max_age, config.lazy.max_owed) = (max_age, Some(128));
    };
    let options = Options {
        payment,
        tick: tick * 1000,
        configure: Box::new(configure),
        ..Options::new(Schedule::Lazy)
    };
    let simulation = Simulation::new(&machine(&[4], 16384), options).expect("the machine fits the host");
    let file = simulation.memory().create_file(FILE as u32).expect("a free object");
    let done = Rc::new(Cell::new(0));
    for cpu in 0..2 {
        let space = simulation.memory().new_space().expect("a frame");
        let done = done.clone();
        let streams = move |program: &Program| {
            let map = program
                .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(FILE), false));
            let base = map.expect("room");
            for page in 0..FILE {
                program.load(at(base, page), 1).expect("a page of a file");
                program.compute(50 * US);
            }
            done.set(done.get() + 1);
        };
        simulation.spawn("streams", cpu, 0, &space, streams).expect("a stack");
    }
    let space = simulation.memory().new_space().expect("a frame");
    let allocates = move |program: &Program| {
        while done.get() < 2 {
            let map = program
                .system_call(|memory, space| memory.map_anonymous(space, Pages::new(8)))
                .expect("room");
            (0..8).for_each(|page| program.store(at(map, page), 1, 1).expect("there is memory"));
            program.compute(200 * US);
            program.system_call(|memory, space| memory.unmap(space, map, Pages::new(8))).expect("in range");
        }
    };
    simulation.spawn("allocates", 2, 0, &space, allocates).expect("a stack");
    let outcome = run_clean(&simulation);
    (outcome.reading.statistics.allocations_paid, outcome)
}

#[test]
fn scenario_13_an_unrelated_program_pays_for_anothers_debts() {
    let (paid, outcome) = paid_for_frames(Payment::Free, MILLISECOND / 2);
    // At most twice, before the kernel has measured the demand for frames.
    assert!(paid <= 2, "{:?}", outcome.reading);
    assert!(outcome.reading.counters.debts_by_tick > 100, "{:?}", outcome.reading.counters);
    // As published, on demand and without an age limit: allocations of any program pay again and again.
    let (paid, outcome) = paid_for_frames(Payment::Demand, LONGEST_AGE);
    assert!(paid > 2, "{:?}", outcome.reading);
}

/// The kernel reads and then writes the page through its own mapping of memory, as `ptrace` and direct I/O do.
fn is_used_by_the_kernel(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    let mut word = [0; 8];
    let read = actor.call(|memory, _| memory.read(actor.file, 0, &mut word));
    assert_eq!((read, u64::from_le_bytes(word)), (Ok(8), OLD));
    // The kernel has read one version, so every CPU must see the same.
    let seen = actor.seen();
    actor.call(|memory, _| write(memory, actor.file, NEW));
    seen.filter(|&word| word == OLD).and(actor.seen())
}

#[test]
fn scenario_14_the_kernel_uses_the_page_through_its_own_mapping() {
    holds(all(), is_used_by_the_kernel, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT], all(), is_used_by_the_kernel, Some(NEW));
}

/// A writable page is never used after it was freed. A read-only page does not change while it is owing.
fn only_read_only_pages_owe(actor: &Actor<'_>) -> Option<u64> {
    let memory = actor.program.memory();
    let space = actor.program.space();
    let own = actor.call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room");
    actor.program.store(own, 1, NEW).expect("a mapped page");
    let interrupted = actor.program.reading().counters.interrupts;
    let moved = actor.call(|memory, space| memory.move_pages(space, &[(own, NodeId(1))]));
    assert_eq!(moved, [Moved::There]);
    assert!(!memory.engine().owes(space.coherence()), "its debt was paid at once");
    assert_eq!(actor.program.reading().counters.interrupts, interrupted + 1);
    actor.take_away();
    for _ in 0..50 {
        assert_eq!(actor.seen(), Some(OLD), "the bytes of an owing frame do not change");
    }
    assert_eq!(actor.program.load(own, 1), Ok(NEW));
    actor.seen()
}

#[test]
fn scenario_15_use_after_free_reads_unchanged_bytes() {
    holds(all(), only_read_only_pages_owe, Some(OLD));
    // A frame that is allocated with its debt would change under the reader.
    #[cfg(ceasefire_sabotage)]
    fails_without(&[STAMP], all(), frames_become_the_kernels, Some(OLD));
}

/// A host learns of all free frames and discards their bytes.
fn frames_are_reported(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    let reported = actor.call(|memory, _| {
        let mut discard =
            |frame: FrameNumber, _| memory.platform().store(frame, 0, &[0; PAGE_BYTES as usize]);
        memory.report_free(NodeId(0), 0, &mut discard)
    });
    assert!(reported > 0, "the node has free frames");
    actor.seen()
}

#[test]
fn scenario_16_the_bytes_of_free_frames_are_thrown_away() {
    // While reclaim is at work the node has no free frames.
    let moves = || all().filter(|setup| setup.way == Way::Moves);
    holds(moves(), frames_are_reported, Some(OLD));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[STAMP], moves(), frames_are_reported, Some(OLD));
}

/// A program executes code that it stores through another mapping.
fn is_executed(actor: &Actor<'_>) -> Option<u64> {
    let (program, address) = (actor.program, actor.address());
    let map = actor
        .call(|memory, space| memory.map_shared(space, actor.file, 0, Pages::new(PAGES), true))
        .expect("room");
    program.fetch(address, 8).expect("a mapped page");
    actor.take_away();
    let misses = program.reading().misses_fetch;
    program.fetch(address, 8).expect("the CPU may continue to execute the old page");
    assert_eq!(program.reading().misses_fetch, misses, "it executes a page that is gone");
    program.store(map, 1, NEW).expect("a mapped page");
    // On the CPU that stored: its TLB for instructions also held the page.
    program.fetch(address, 8).expect("a mapped page");
    (program.reading().misses_fetch > misses).then(|| actor.seen()).flatten()
}

#[test]
fn scenario_17_executed_code_is_stored_through_another_mapping() {
    let moves = || all().filter(|setup| setup.way == Way::Moves);
    holds(moves(), is_executed, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    fails_without(&[SLOT, SETTLE], moves(), is_executed, Some(NEW));
}
