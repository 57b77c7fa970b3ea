//! The rules hold on small machines under pressure, and the removal of each guard breaks one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common::guards::{self, Guard};
use crate::common::{at, machine, now, run, Random, SCHEDULES, US};
#[cfg(ceasefire_sabotage)]
use crate::common::{rules, with_small_tlb, SECOND};
use ceasefire::{Payment, Schedule};
#[cfg(ceasefire_sabotage)]
use ceasefire_machine::config::builtin;
use ceasefire_machine::config::Machine;
#[cfg(ceasefire_sabotage)]
use ceasefire_machine::Rule;
use ceasefire_machine::{Options, Outcome, Program, Simulation};
use ceasefire_memory::{Pages, PAGE_BYTES};

/// The setup of a scenario.
#[derive(Debug, Clone, Copy)]
struct Setup {
    schedule: Schedule,
    payment: Payment,
    without: Option<Guard>,
    slack: u64,
    /// Whether the kernel turns the processor's broadcasts on.
    broadcast: bool,
}

/// Every schedule, exact and with slack, with all guards.
fn guarded() -> impl Iterator<Item = Setup> {
    let free = SCHEDULES.map(|schedule| (schedule, Payment::Free));
    let all = free.into_iter().chain([(Schedule::Lazy, Payment::Demand)]);
    all.flat_map(|(schedule, payment)| {
        [0, 2 * US].map(|slack| Setup { schedule, payment, without: None, slack, broadcast: false })
    })
}

#[cfg(ceasefire_sabotage)]
fn without(guard: guards::Engine) -> Setup {
    Setup {
        schedule: Schedule::Batched,
        payment: Payment::Free,
        without: Some(guard.into()),
        slack: 0,
        broadcast: false,
    }
}

fn set_up(machine: &Machine, setup: Setup) -> Simulation {
    let Setup { schedule, payment, slack, broadcast, .. } = setup;
    let options = Options { slack, payment, broadcast, ..Options::new(schedule) };
    let simulation = Simulation::new(machine, options).expect("the machine fits the host");
    guards::remove(simulation.memory(), setup.without);
    simulation
}

fn assert_clean(outcome: &Outcome, setup: Setup) {
    let broken: Vec<String> = outcome.broken.iter().map(ToString::to_string).collect();
    assert_eq!(outcome.violations, 0, "{setup:?}: {broken:#?}, {:#?}", outcome.misuses);
}

/// An address that one thread passes to others.
type Shared = Rc<Cell<u64>>;

/// Waits until another thread has passed an address.
fn told(program: &Program, shared: &Shared) -> u64 {
    while shared.get() == 0 {
        program.compute(US);
    }
    shared.get()
}

/// The number of runs of a random scenario.
const SEEDS: u64 = 8;

/// One thread unmaps and discards pages that other threads of its program read and write.
fn unmap_under_use(machine: &Machine, setup: Setup, seed: u64) -> Outcome {
    const PAGES: u64 = 48;
    let simulation = set_up(machine, setup);
    let memory = simulation.memory();
    let file = memory.create_file(PAGES as u32).expect("a free object");
    let space = memory.new_space().expect("a frame");
    let areas: Rc<RefCell<[u64; 3]>> = Rc::default();
    let done = Rc::new(Cell::new(false));
    let (own, finished) = (areas.clone(), done.clone());
    let cpus = machine.topology.cpu_count();
    simulation
        .spawn("unmaps", 0, 0, &space, move |program| {
            let mut random = Random(seed);
            let map = |kind: usize| {
                program
                    .system_call(|memory, space| match kind {
                        0 => memory.map_anonymous(space, Pages::new(PAGES)),
                        1 => memory.map_shared(space, file, 0, Pages::new(PAGES), true),
                        _ => memory.map_private(space, file, 0, Pages::new(PAGES)),
                    })
                    .expect("room")
            };
            for kind in 0..3 {
                own.borrow_mut()[kind] = map(kind);
            }
            for _ in 0..120 {
                let kind = random.below(3) as usize;
                let base = own.borrow()[kind];
                let first = random.below(PAGES);
                let count = 1 + random.below(PAGES - first);
                let (start, length) = (at(base, first), Pages::new(count));
                match random.below(4) {
                    0 => {
                        program
                            .system_call(|memory, space| memory.unmap(space, start, length))
                            .expect("in range");
                        program
                            .system_call(|memory, space| memory.unmap(space, base, Pages::new(PAGES)))
                            .expect("in range");
                        own.borrow_mut()[kind] = map(kind);
                    }
                    _ => {
                        program
                            .system_call(|memory, space| memory.discard(space, start, length))
                            .expect("in range");
                    }
                }
                program.compute(random.below(10) * US);
            }
            finished.set(true);
        })
        .expect("a stack");
    for cpu in 1..cpus {
        let (areas, done) = (areas.clone(), done.clone());
        let user = move |program: &Program| {
            let mut random = Random(seed + u64::from(cpu));
            while !done.get() {
                let base = areas.borrow()[random.below(3) as usize];
                let address = at(base, random.below(PAGES));
                // A real program would get a signal for an unmapped page. Here the access fails without effect.
                let _ = if random.below(2) == 0 {
                    program.load(address, 4).map(drop)
                } else {
                    program.store(address, 4, 0)
                };
                if base == 0 {
                    program.compute(US);
                }
            }
        };
        simulation.spawn(format!("uses/{cpu}"), cpu, 0, &space, user).expect("a stack");
    }
    run(&simulation)
}

#[test]
fn unmapping_pages_in_use_breaks_no_rule() {
    for cpus in [2, 4] {
        for setup in guarded() {
            for seed in 0..SEEDS {
                let outcome = unmap_under_use(&machine(&[cpus], 2048), setup, seed);
                assert_clean(&outcome, setup);
                assert!(outcome.reading.counters.interrupts > 100, "seed {seed}: {outcome:?}");
            }
        }
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_an_unmap_r1_and_r3_are_broken() {
    let outcome = unmap_under_use(&machine(&[2], 2048), without(guards::Engine::GatherFlush), 7);
    let rules = rules(&outcome);
    assert!(rules.contains(&Rule::Frame) && rules.contains(&Rule::Return), "{rules:?}");
}

/// A CPU uses a page of a file for the first time while another is in the call that discards it, before the translation
/// is cleared. The page stays in its file, so its frame is not freed.
fn fill_during_a_discard(machine: &Machine, setup: Setup) -> Outcome {
    let simulation = set_up(machine, setup);
    let memory = simulation.memory();
    let file = memory.create_file(1).expect("a free object");
    let space = memory.new_space().expect("a frame");
    let base = memory.map_shared(&space, file, 0, Pages::new(1), true).expect("room");
    simulation
        .spawn("discards", 0, 0, &space, move |program| {
            program.store(base, 1, 0).expect("a mapped page");
            program.system_call(|memory, space| {
                program.compute(100 * US);
                memory.discard(space, base, Pages::new(1)).expect("in range");
            });
        })
        .expect("a stack");
    simulation
        .spawn("loads", 1, 50 * US, &space, move |program| {
            program.load(base, 1).expect("a mapped page");
            (0..200).for_each(|_| program.compute(US));
        })
        .expect("a stack");
    run(&simulation)
}

#[test]
fn an_entry_filled_during_a_discard_is_gone_when_it_returns() {
    for setup in guarded() {
        let outcome = fill_during_a_discard(&machine(&[2], 2048), setup);
        assert_clean(&outcome, setup);
        assert_eq!(outcome.reading.counters.interrupts, 1, "CPU 1 held it");
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_a_discard_an_entry_filled_during_it_breaks_r3_alone() {
    let outcome = fill_during_a_discard(&machine(&[2], 2048), without(guards::Engine::GatherFlush));
    let of_1 = outcome.broken.iter().filter(|violation| violation.cpu == 1);
    assert_eq!(of_1.map(|violation| violation.rule).collect::<Vec<_>>(), [Rule::Return]);
}

/// One thread declares pages droppable, again and again, to which other threads store.
fn droppable_under_stores(machine: &Machine, setup: Setup) -> Outcome {
    const PAGES: u64 = 16;
    let simulation = set_up(machine, setup);
    let space = simulation.memory().new_space().expect("a frame");
    let base = simulation.memory().map_anonymous(&space, Pages::new(PAGES)).expect("room");
    for cpu in 0..machine.topology.cpu_count() {
        let body = move |program: &Program| {
            let mut random = Random(cpu.into());
            for _ in 0..400 {
                if cpu == 0 {
                    let first = random.below(PAGES);
                    let (start, length) = (at(base, first), Pages::new(PAGES - first));
                    let free = program.system_call(|memory, space| memory.advise_free(space, start, length));
                    free.expect("mapped pages");
                }
                program.store(at(base, random.below(PAGES)), 1, 0).expect("a mapped page");
                program.compute(random.below(2) * US);
            }
        };
        simulation.spawn(format!("stores/{cpu}"), cpu, 0, &space, body).expect("a stack");
    }
    run(&simulation)
}

#[test]
fn declaring_pages_under_stores_droppable_breaks_no_rule() {
    for cpus in [2, 6] {
        for setup in guarded().flat_map(|setup| [setup, Setup { broadcast: true, ..setup }]) {
            let outcome = droppable_under_stores(&machine(&[cpus], 2048), setup);
            assert_clean(&outcome, setup);
        }
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_a_gather_stores_to_a_droppable_page_go_unseen() {
    let outcome = droppable_under_stores(&machine(&[2], 2048), without(guards::Engine::GatherFlush));
    assert!(rules(&outcome).contains(&Rule::Clean), "{:?}", outcome.broken);
}

/// Threads of one program, each on its own CPU, store to a few pages of a file again and again, and stream through
/// the rest, which is larger than the memory. So their pages are scanned, cleaned and reclaimed while they are in
/// use.
fn dirty_under_pressure(machine: &Machine, setup: Setup) -> Outcome {
    let frames = machine.topology.bytes() / PAGE_BYTES;
    let pages = 2 * frames;
    let simulation = set_up(machine, setup);
    let memory = simulation.memory();
    let file = memory.create_file(pages as u32).expect("a free object");
    let space = memory.new_space().expect("a frame");
    let shared = Shared::default();
    let cpus = u64::from(machine.topology.cpu_count());
    for cpu in 0..cpus {
        let shared = shared.clone();
        let body = move |program: &Program| {
            if cpu == 0 {
                let map = program
                    .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), true));
                shared.set(map.expect("room for the file"));
            }
            let base = told(program, &shared);
            for page in (8..pages).filter(|page| page % cpus == cpu) {
                program.store(at(base, page), 4, 0).expect("a mapped page");
                program.store(at(base, page % 8), 4, 0).expect("a mapped page");
            }
        };
        simulation.spawn(format!("writes/{cpu}"), cpu as u16, 0, &space, body).expect("a stack");
    }
    run(&simulation)
}

#[test]
fn writing_out_pages_under_stores_breaks_no_rule() {
    for cpus in [2, 4] {
        for setup in guarded() {
            let outcome = dirty_under_pressure(&machine(&[cpus], 2048), setup);
            assert_clean(&outcome, setup);
            assert!(outcome.reading.statistics.written > 200, "{:?}", outcome.reading.statistics);
        }
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_writable_entries_a_store_lands_in_a_page_that_is_being_written() {
    let outcome = dirty_under_pressure(&machine(&[2], 2048), without(guards::Engine::WritableFlush));
    assert!(rules(&outcome).contains(&Rule::Clean), "{:?}", outcome.broken);
}

/// One thread of a program ends early and leaves its CPU lazy, with the path to the page-table pages cached. Another
/// thread then exits.
fn exit_beside_lazy(machine: &Machine, setup: Setup) -> Outcome {
    let simulation = set_up(machine, setup);
    for round in 0..3 {
        let space = simulation.memory().new_space().expect("a frame");
        let shared = Shared::default();
        let start = round * 5000 * US;
        for cpu in 0..u64::from(machine.topology.cpu_count()) {
            let shared = shared.clone();
            let body = move |program: &Program| {
                if cpu == 0 {
                    let map =
                        program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(2048)));
                    shared.set(map.expect("room"));
                }
                let base = told(program, &shared);
                for page in 0..64 {
                    program.store(at(base, (page * 37 + cpu * 64) % 2048), 1, 0).expect("a mapped page");
                }
                if cpu == 0 {
                    while now(program) * 1000 < start + 2000 * US {
                        program.compute(10 * US);
                    }
                    program.system_call(|memory, space| memory.exit(space.clone()));
                }
            };
            simulation.spawn(format!("{round}/{cpu}"), cpu as u16, start, &space, body).expect("a stack");
        }
    }
    run(&simulation)
}

#[test]
fn exit_while_others_are_lazy_in_the_space_breaks_no_rule() {
    for cpus in [2, 4] {
        for setup in guarded() {
            let outcome = exit_beside_lazy(&machine(&[cpus], 4096), setup);
            assert_clean(&outcome, setup);
            assert!(
                outcome.reading.counters.interrupts >= u64::from(cpus - 1) * 3,
                "{:?}",
                outcome.reading.counters
            );
        }
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_interrupts_for_lazy_cpus_a_freed_table_can_be_walked() {
    let outcome = exit_beside_lazy(&machine(&[2], 4096), without(guards::Engine::LazyTables));
    assert!(rules(&outcome).contains(&Rule::Table), "{:?}", outcome.broken);
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_interrupts_for_lazy_cpus_freed_tables_of_every_level_can_be_walked() {
    let outcome = exit_beside_lazy(&machine(&[2], 4096), without(guards::Engine::LazyTables));
    let tables = outcome.broken.iter().filter(|violation| violation.rule == Rule::Table);
    // The tables above the lowest level translate addresses from 0 on, the root has none.
    let above = tables.filter(|violation| violation.address == Some(0)).map(|violation| violation.frame);
    let above: std::collections::BTreeSet<u32> = above.collect();
    assert!(above.len() >= 2, "{:?}", outcome.broken);
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_note_that_tables_are_freed_walkers_remember_them() {
    let interrupted = exit_beside_lazy(&machine(&[2], 4096), without(guards::Engine::Tables));
    assert!(rules(&interrupted).contains(&Rule::Table), "{:?}", interrupted.broken);
    // Arm's form for the last level leaves the ways to tables.
    let told = unmap_under_use(&with_broadcasts(machine(&[2], 2048)), without(guards::Engine::Tables), 7);
    assert!(rules(&told).contains(&Rule::Table), "{:?}", told.broken);
}

/// A program reads a file that is larger than the memory. One of its threads discards a few pages at a time near
/// those that background reclaim takes. The translations that it finds cleared may still be in other CPUs' TLBs.
fn discard_under_reclaim(machine: &Machine, setup: Setup) -> Outcome {
    const FEW: u64 = 4;
    let frames = machine.topology.bytes() / PAGE_BYTES;
    let pages = 4 * frames;
    let simulation = set_up(machine, setup);
    let memory = simulation.memory();
    let file = memory.create_file(pages as u32).expect("a free object");
    let space = memory.new_space().expect("a frame");
    let (shared, progress) = (Shared::default(), Rc::new(Cell::new(0)));
    let (base, reached) = (shared.clone(), progress.clone());
    simulation
        .spawn("discards", 0, 0, &space, move |program| {
            let map = program
                .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false));
            base.set(map.expect("room for the file"));
            let mut random = Random(3);
            while reached.get() < pages - 1 {
                let oldest = reached.get().saturating_sub(frames);
                let start = at(base.get(), oldest + random.below(frames / 4));
                program
                    .system_call(|memory, space| memory.discard(space, start, Pages::new(FEW)))
                    .expect("in range");
                program.compute(US);
            }
        })
        .expect("a stack");
    // One CPU is left to background reclaim.
    for cpu in 1..machine.topology.cpu_count() - 1 {
        let (shared, progress) = (shared.clone(), progress.clone());
        let body = move |program: &Program| {
            let base = told(program, &shared);
            for page in 0..pages {
                program.load(at(base, page), 4).expect("a mapped page");
                progress.set(progress.get().max(page));
            }
        };
        simulation.spawn(format!("reads/{cpu}"), cpu, 0, &space, body).expect("a stack");
    }
    run(&simulation)
}

#[test]
fn discarding_pages_under_reclaim_breaks_no_rule() {
    for cpus in [4, 6] {
        for setup in guarded() {
            let outcome = discard_under_reclaim(&machine(&[cpus], 2048), setup);
            assert_clean(&outcome, setup);
            assert!(
                outcome.reading.statistics.reclaimed_background > 100,
                "{:?}",
                outcome.reading.statistics
            );
        }
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_settling_a_discard_returns_while_a_cpu_still_uses_the_page() {
    // Whether a discard comes while a debt stands depends on the number of readers. The scenarios of `luf` play one
    // interleaving step by step.
    let breaks = |cpus: u16| {
        let outcome = discard_under_reclaim(&machine(&[cpus], 2048), without(guards::Engine::Settle));
        rules(&outcome).contains(&Rule::Return)
    };
    assert!((3..10).any(breaks), "no number of readers met the missing check");
}

/// `mmap-read`: each CPU's program reads a file of its own, in total much more than the memory.
fn stream(machine: &Machine, setup: Setup, times_memory: u64) -> Outcome {
    let simulation = set_up(machine, setup);
    let memory = simulation.memory();
    let cpus = machine.topology.cpu_count();
    let pages = times_memory * machine.topology.bytes() / PAGE_BYTES / u64::from(cpus);
    for cpu in 0..cpus {
        let file = memory.create_file(pages as u32).expect("a free object");
        let space = memory.new_space().expect("a frame");
        let body = move |program: &Program| {
            let base = program
                .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false))
                .expect("room for the file");
            for page in 0..pages {
                program.load(at(base, page), 512).expect("a mapped page");
            }
            program.system_call(|memory, space| memory.exit(space.clone()));
        };
        simulation.spawn(format!("reads/{cpu}"), cpu, 0, &space, body).expect("a stack");
    }
    run(&simulation)
}

#[test]
fn streaming_through_files_breaks_no_rule() {
    for setup in guarded() {
        for cpus in [&[2][..], &[8], &[2, 2]] {
            let outcome = stream(&machine(cpus, 4096), setup, 3);
            assert_clean(&outcome, setup);
            let reclaimed =
                outcome.reading.statistics.reclaimed_background + outcome.reading.statistics.reclaimed_direct;
            assert!(reclaimed > 1000, "{:?}", outcome.reading.statistics);
        }
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_a_batch_streaming_reaches_freed_frames_within_a_second() {
    for (machine, times) in [
        (machine(&[8], 4096), 3),
        (with_small_tlb(machine(&[8], 4096)), 3),
        (builtin("1-socket").expect("listed").expect("valid").scaled(1.0 / 256.0).expect("valid"), 3),
    ] {
        let outcome = stream(&machine, without(guards::Engine::BatchFlush), times);
        // The page leaves its file while it can still be reached, and then its frame is freed.
        assert_eq!(rules(&outcome)[..], [Rule::Frame, Rule::OneVersion]);
        let first =
            outcome.broken.iter().find(|violation| violation.rule == Rule::Frame).expect("one of these");
        assert!(u128::from(first.time_ns) * 1000 < u128::from(SECOND), "{first}");
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_stamps_of_owing_frames_streaming_reaches_freed_frames() {
    let setup = Setup { schedule: Schedule::Lazy, ..without(guards::Engine::Stamp) };
    let outcome = stream(&machine(&[8], 4096), setup, 3);
    assert!(rules(&outcome).contains(&Rule::Frame), "{:?}", outcome.broken);
}

/// A machine whose hardware broadcasts flushes to all CPUs.
fn with_broadcasts(mut machine: Machine) -> Machine {
    machine.processor.broadcast_asids = Some(16);
    machine
}

#[test]
fn broadcasts_break_no_rule_and_send_no_interrupt() {
    for cpus in [2, 4] {
        for setup in guarded() {
            for seed in 0..SEEDS {
                let outcome = unmap_under_use(&with_broadcasts(machine(&[cpus], 2048)), setup, seed);
                assert_clean(&outcome, setup);
                assert!(outcome.reading.counters.broadcasts > 100, "seed {seed}: {outcome:?}");
                assert_eq!(outcome.reading.counters.interrupts, 0);
            }
            let outcome = dirty_under_pressure(&with_broadcasts(machine(&[cpus], 2048)), setup);
            assert_clean(&outcome, setup);
        }
    }
}

#[test]
fn faults_of_broadcasts_break_no_rule_and_cost_time() {
    let elapsed = |repeated, everyone| {
        let mut machine = with_broadcasts(machine(&[4], 2048));
        machine.processor.broadcast_repeated = repeated;
        machine.processor.broadcast_everyone = everyone;
        guarded()
            .map(|setup| {
                let outcome = unmap_under_use(&machine, setup, 0);
                assert_clean(&outcome, setup);
                assert_eq!(outcome.reading.counters.interrupts > 0, everyone, "{setup:?}");
                outcome.elapsed
            })
            .sum::<u64>()
    };
    let sound = elapsed(false, false);
    for (repeated, everyone) in [(true, false), (false, true), (true, true)] {
        let faulty = elapsed(repeated, everyone);
        assert!(faulty > sound, "{faulty} ps with {repeated} {everyone}, {sound} without");
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_wait_for_a_batch_of_broadcasts_freed_frames_are_reached() {
    let outcome = stream(&with_broadcasts(machine(&[2], 4096)), without(guards::Engine::BroadcastWait), 3);
    assert!(rules(&outcome).contains(&Rule::Frame), "{:?}", outcome.broken);
}

#[test]
fn walkers_that_fill_translations_by_themselves_break_no_rule() {
    let eager = |machine: Machine| machine.speculating(0.5).expect("a rate");
    for setup in guarded() {
        for setup in [setup, Setup { broadcast: true, ..setup }] {
            for outcome in [
                unmap_under_use(&eager(machine(&[4], 2048)), setup, 3),
                droppable_under_stores(&eager(machine(&[6], 2048)), setup),
                dirty_under_pressure(&eager(machine(&[4], 2048)), setup),
                exit_beside_lazy(&eager(machine(&[4], 4096)), setup),
                stream(&eager(machine(&[2, 2], 2048)), setup, 2),
                unmap_under_use(&eager(with_broadcasts(machine(&[4], 2048))), setup, 3),
            ] {
                assert_clean(&outcome, setup);
                assert!(outcome.speculated > 100, "{}", outcome.speculated);
            }
        }
    }
}

/// A space that five CPUs run gets a global ASID. Flushes use interrupts before that, and both during the transition.
#[test]
fn going_from_slots_to_a_global_asid_breaks_no_rule() {
    for setup in guarded() {
        let setup = Setup { broadcast: true, ..setup };
        for seed in 0..SEEDS {
            let outcome = unmap_under_use(&machine(&[6], 2048), setup, seed);
            assert_clean(&outcome, setup);
            let counters = outcome.reading.counters;
            assert!(counters.broadcasts > 100 && counters.interrupts > 0, "seed {seed}: {counters:?}");
        }
        let outcome = dirty_under_pressure(&machine(&[6], 2048), setup);
        assert_clean(&outcome, setup);
        let outcome = stream(&machine(&[6], 4096), setup, 3);
        assert_clean(&outcome, setup);
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_interrupts_of_a_transition_freed_frames_are_reached_within_a_second() {
    let setup = Setup { broadcast: true, ..without(guards::Engine::Transition) };
    let broken = (0..SEEDS).flat_map(|seed| unmap_under_use(&machine(&[6], 2048), setup, seed).broken);
    let first = broken.into_iter().find(|violation| violation.rule == Rule::Frame).expect("one of these");
    assert!(u128::from(first.time_ns) * 1000 < u128::from(SECOND), "{first}");
}
