//! Tests of the rules, one by one, on a machine that runs.

use ceasefire::{Asid, Flush, Platform, Schedule};
use ceasefire_memory::{Entry, FrameNumber, Machine as _, Table};

use super::*;
use crate::config::Machine;
use crate::hardware::numbers::KERNEL_ROOT;
use crate::testing::{
    alone, broken, roomy, run_on, thread, Slot, FRAME, HIDDEN, PRESENT, US, USER, WRITABLE,
};
use crate::world::state::{Sim, World};
use crate::{Options, Program, Simulation};

fn frame(offset: u32) -> FrameNumber {
    FrameNumber::new(FRAME + offset)
}

fn observe(program: &Program, event: Event<'_>) {
    program.sim.observe(event);
}

/// Reports to the oracle that a translation became visible.
fn install(program: &Program, address: u64, to: FrameNumber, size: PageSize) {
    observe(program, Event::Installed { space: program.space.coherence(), address, frame: to, size });
}

/// Enters the kernel, runs `change`, and returns from an operation on one page.
fn change_and_return(program: &Program, address: u64, change: impl FnOnce()) {
    program.system_call(|_, space| {
        change();
        let (start, end) = (address, address + 4096);
        let allowed = Protection::None;
        observe(program, Event::Returned { space: space.coherence(), start, end, allowed });
    });
}

/// Drops a page from the TLB, as the kernel does.
fn flush(program: &Program, address: u64) {
    let sim = &program.sim;
    sim.forget_page(sim.here(), World::cpu(sim).asid.get(), address >> PAGE_SHIFT);
}

/// Runs a thread on a huge page that it has stored to.
fn with_huge(body: impl FnOnce(&Program, Slot) + 'static) -> crate::Outcome {
    alone(move |program| {
        let huge = Slot::huge(program);
        program.store(huge.address, 1, 0).expect("a present entry");
        body(program, huge);
    })
}

#[test]
fn freeing_a_frame_within_a_huge_page_that_a_cpu_holds_breaks_r1() {
    with_huge(|program, huge| {
        observe(program, Event::FrameFreed(frame(300)));
        assert_eq!(broken(program), [(Rule::Frame, Some(huge.at(300)))]);
        // A use of the freed frame is another violation. The neighbouring frames may be used.
        program.load(huge.at(299), 1).expect("a present entry");
        assert_eq!(broken(program).len(), 1);
        program.load(huge.at(300), 1).expect("a present entry");
        assert_eq!(broken(program)[1..], [(Rule::Frame, Some(huge.at(300)))]);
        // The huge entry stays known while it is held, although single frames are freed.
        observe(program, Event::FrameFreed(frame(301)));
        assert_eq!(broken(program)[2..], [(Rule::Frame, Some(huge.at(301)))]);
        flush(program, huge.at(7));
        observe(program, Event::FrameFreed(frame(302)));
        assert_eq!(broken(program).len(), 3);
    });
}

#[test]
fn writing_out_a_frame_within_a_huge_page_held_dirty_breaks_r5() {
    with_huge(|program, huge| {
        observe(program, Event::WriteOut(frame(511)));
        assert_eq!(broken(program), [(Rule::Clean, Some(huge.at(511)))]);
        flush(program, huge.address);
        huge.set(program, huge.get(program) & !(1 << 6));
        program.load(huge.at(1), 1).expect("a present entry");
        observe(program, Event::WriteOut(frame(511)));
        assert_eq!(broken(program).len(), 1, "a store through a clean entry walks again");
    });
}

#[test]
fn a_superseded_frame_may_not_be_reached_through_an_entry_of_any_size() {
    with_huge(|program, huge| {
        observe(program, Event::Superseded(frame(5)));
        assert_eq!(broken(program), [(Rule::OneVersion, Some(huge.at(5)))]);
        assert_eq!(Rule::OneVersion.name(), "R6");
        flush(program, huge.address);
        observe(program, Event::Superseded(frame(5)));
        assert_eq!(broken(program).len(), 1);
        let small = Slot::small(program);
        let at = FrameNumber::new((small.get(program) >> PAGE_SHIFT) as u32);
        observe(program, Event::Superseded(at));
        assert_eq!(broken(program)[1..], [(Rule::OneVersion, Some(small.address))]);
    });
}

#[test]
fn a_superseded_frame_may_not_be_reached_by_another_cpu_that_only_loads() {
    let shared = std::rc::Rc::new(Cell::new(0));
    let (page, base) = (shared.clone(), shared);
    run_on(
        &roomy(2),
        vec![
            thread(0, move |program| {
                base.set(Slot::small(program).address);
                flush(program, base.get());
                program.compute(100 * US);
                let at = Slot::of(program, base.get(), PageSize::KIB_4).get(program) >> PAGE_SHIFT;
                observe(program, Event::Superseded(FrameNumber::new(at as u32)));
                assert_eq!(broken(program), [(Rule::OneVersion, Some(base.get()))]);
                let oracle = program.sim.oracle.as_ref().expect("it watches");
                assert_eq!(oracle.kept()[0].cpu, 1);
            }),
            thread(50 * US, move |program| {
                program.load(page.get(), 1).expect("a mapped page");
                for _ in 0..200 {
                    program.compute(US);
                }
            }),
        ],
    );
}

#[test]
fn a_small_translation_must_agree_with_a_huge_entry_that_is_held() {
    with_huge(|program, huge| {
        install(program, huge.at(9), frame(9), PageSize::KIB_4);
        install(program, huge.address, frame(0), PageSize::MIB_2);
        assert_eq!(broken(program), [], "the frames are the same, in another size");
        install(program, huge.at(9), frame(8), PageSize::KIB_4);
        assert_eq!(broken(program), [(Rule::OneTranslation, Some(huge.at(9)))]);
        install(program, huge.address, frame(512), PageSize::MIB_2);
        assert_eq!(broken(program)[1..], [(Rule::OneTranslation, Some(huge.address))]);
    });
}

#[test]
fn a_huge_translation_must_agree_with_a_small_entry_that_is_held() {
    alone(|program| {
        let small = Slot::small(program);
        let (page, at) = (small.address >> PAGE_SHIFT & (HUGE_PAGES - 1), small.get(program) >> PAGE_SHIFT);
        let huge = small.address & !(PageSize::MIB_2.bytes() - 1);
        install(program, huge, FrameNumber::new((at - page) as u32), PageSize::MIB_2);
        assert_eq!(broken(program), []);
        install(program, huge, frame(0), PageSize::MIB_2);
        assert_eq!(broken(program), [(Rule::OneTranslation, Some(small.address))]);
    });
}

#[test]
fn returning_while_the_old_entry_of_a_hidden_translation_is_held_breaks_r3() {
    alone(|program| {
        let small = Slot::small(program);
        let entry = small.get(program);
        change_and_return(program, small.address, || ());
        assert_eq!(broken(program), []);
        let hide = || small.set(program, entry & !PRESENT | HIDDEN);
        change_and_return(program, small.address, hide);
        assert_eq!(broken(program), [(Rule::Return, Some(small.address))]);
        // Fewer rights need a flush, more rights do not.
        for (now, expected) in [(entry, 1), (entry & !WRITABLE, 2)] {
            change_and_return(program, small.address, || small.set(program, now));
            assert_eq!(broken(program).len(), expected);
        }
        flush(program, small.address);
        change_and_return(program, small.address, || small.set(program, 0));
        assert_eq!(broken(program).len(), 2);
    });
}

#[test]
fn returning_while_a_huge_entry_covers_the_cleared_page_breaks_r3() {
    with_huge(|program, huge| {
        change_and_return(program, huge.at(7), || ());
        assert_eq!(broken(program), []);
        // Split: the new table leads to the same frames, except for one page.
        let table = FrameNumber::new(FRAME + 600);
        for (page, word) in (0..).zip(program.sim.ram.words(table)) {
            let entry = (u64::from(FRAME) + page) << PAGE_SHIFT | PRESENT | WRITABLE | USER;
            word.store(if page == 7 { 0 } else { entry }, std::sync::atomic::Ordering::Relaxed);
        }
        let split = u64::from(table.get()) << PAGE_SHIFT | PRESENT | WRITABLE | USER;
        change_and_return(program, huge.at(8), || huge.set(program, split));
        assert_eq!(broken(program), []);
        change_and_return(program, huge.at(7), || ());
        assert_eq!(broken(program), [(Rule::Return, Some(huge.at(7)))]);
    });
}

#[test]
fn an_operation_answers_for_entries_filled_during_it_until_it_withdrew_the_translation() {
    // A fill before the withdrawal, the flush, and a fill after it by a translation that another operation clears.
    for (before, flushes, after) in
        [(true, false, false), (true, true, false), (false, false, true), (true, true, true)]
    {
        for size in [PageSize::KIB_4, PageSize::MIB_2] {
            with_huge(move |program, huge| {
                let slot = if size == PageSize::KIB_4 { Slot::small(program) } else { huge };
                let (address, entry) = (slot.address, slot.get(program));
                let load = || assert!(program.load(address, 1).is_ok());
                flush(program, address);
                change_and_return(program, address, || {
                    if before {
                        load();
                    }
                    slot.set(program, 0);
                    let space = program.space.coherence();
                    observe(program, Event::Withdrawn { space, address, size });
                    if flushes {
                        flush(program, address);
                    }
                    if after {
                        slot.set(program, entry);
                        load();
                        slot.set(program, 0);
                    }
                });
                let expected = if before && !flushes { vec![(Rule::Return, Some(address))] } else { vec![] };
                assert_eq!(broken(program), expected, "{before} {flushes} {after}");
                program.sim.forget_all(0);
            });
        }
    }
}

#[test]
fn an_operation_does_not_answer_for_entries_filled_during_it() {
    alone(|program| {
        let small = Slot::small(program);
        flush(program, small.address);
        let refill_and_hide = || {
            program.load(small.address, 1).expect("a mapped page");
            small.set(program, 0);
        };
        change_and_return(program, small.address, refill_and_hide);
        assert_eq!(broken(program), []);
    });
}

/// The CPU loads another root while `meanwhile` runs, and comes back to its space with or without a flush.
fn away(program: &Program, flushes: bool, meanwhile: impl FnOnce()) {
    let (sim, root) = (&program.sim, root_of(program.space.coherence()));
    let (cpu, asid) = (sim.here(), World::cpu(sim).asid.get());
    sim.set_root(KERNEL_ROOT);
    meanwhile();
    if flushes {
        sim.forget_asid(cpu, asid);
    }
    sim.set_root(root);
    sim.oracle.as_ref().expect("it watches").loads(&**sim, cpu, root, asid);
}

/// The frame of a small page.
fn frame_of(program: &Program, slot: Slot) -> FrameNumber {
    FrameNumber::new((slot.get(program) >> PAGE_SHIFT) as u32)
}

#[test]
fn a_cpu_may_not_come_back_to_entries_that_no_cpu_could_use_at_an_event() {
    type Meanwhile = fn(&Program, Slot);
    let freed: Meanwhile = |program, small| observe(program, Event::FrameFreed(frame_of(program, small)));
    let written: Meanwhile = |program, small| observe(program, Event::WriteOut(frame_of(program, small)));
    let superseded: Meanwhile =
        |program, small| observe(program, Event::Superseded(frame_of(program, small)));
    let hidden: Meanwhile = |program, small| {
        let hide = || small.set(program, small.get(program) & !PRESENT | HIDDEN);
        change_and_return(program, small.address, hide);
    };
    let replaced: Meanwhile = |program, small| install(program, small.address, frame(0), PageSize::KIB_4);
    for (meanwhile, rule) in [
        (freed, Rule::Frame),
        (written, Rule::Clean),
        (superseded, Rule::OneVersion),
        (hidden, Rule::Return),
        (replaced, Rule::OneTranslation),
    ] {
        for flushes in [true, false] {
            alone(move |program| {
                let small = Slot::small(program);
                away(program, flushes, || {
                    meanwhile(program, small);
                    assert_eq!(broken(program), [], "no CPU could use the entry yet");
                });
                let expected = if flushes { vec![] } else { vec![(rule, Some(small.address))] };
                assert_eq!(broken(program), expected);
                away(program, false, || ());
                assert_eq!(broken(program), expected, "each entry is reported once");
                program.sim.forget_all(0);
            });
        }
    }
}

#[test]
fn a_lazy_cpu_may_not_go_on_with_an_entry_to_a_frame_that_was_freed_meanwhile() {
    for (flushes, expected) in [(true, 0), (false, 1)] {
        with_huge(move |program, huge| {
            program.sim.rest();
            observe(program, Event::FrameFreed(frame(9)));
            assert_eq!(broken(program), []);
            if flushes {
                flush(program, huge.address);
            }
            program.sim.run_space(&program.space);
            assert_eq!(broken(program), vec![(Rule::Frame, Some(huge.at(9))); expected]);
            program.sim.forget_all(0);
        });
    }
}

#[test]
fn loading_a_space_under_an_asid_with_entries_of_another_breaks_r4() {
    alone(|program| {
        let (sim, small) = (&program.sim, Slot::small(program));
        let oracle = sim.oracle.as_ref().expect("it watches");
        let (own, asid) = (root_of(program.space.coherence()), World::cpu(sim).asid.get());
        oracle.loads(&**sim, 0, own, asid);
        assert_eq!(broken(program), []);
        oracle.loads(&**sim, 0, FRAME, asid);
        assert_eq!(broken(program), [(Rule::Tag, None)]);
        flush(program, small.address);
        sim.forget_asid(0, asid);
        oracle.loads(&**sim, 0, FRAME, asid);
        assert_eq!(broken(program).len(), 1);
    });
}

/// No level.
const NONE: [usize; 0] = [];

/// The tables of an address, the lowest first, and the first address that each translates.
fn tables_of(program: &Program, address: u64) -> [(FrameNumber, u64); 3] {
    let mut table = program.space.root();
    let mut tables = [(table, 0); 3];
    for level in (0..3).rev() {
        let entry: Entry = program.sim.table(table).get(Table::index(address, level + 1));
        table = entry.frame();
        tables[level as usize] = (table, address >> (21 + 9 * level) << (21 + 9 * level));
    }
    tables
}

/// Frees the tables of an address beside which the CPU has walked and then done `before`, and returns those levels
/// whose way the oracle takes for remembered.
fn remembered(machine: &Machine, before: impl Fn(&Program, u64) + Clone + 'static) -> Vec<usize> {
    let levels = std::rc::Rc::new(RefCell::new(Vec::new()));
    let found = levels.clone();
    let body = move |program: &Program| {
        let address = Slot::small(program).address;
        before(program, address);
        for (level, (table, first)) in tables_of(program, address).into_iter().enumerate() {
            let so_far = broken(program).len();
            observe(program, Event::TableFreed(table));
            match broken(program)[so_far..] {
                [] => {}
                [(Rule::Table, Some(at))] if at == first => found.borrow_mut().push(level),
                ref other => panic!("level {level}: {other:?}"),
            }
        }
    };
    run_on(machine, vec![thread(0, body)]);
    levels.take()
}

fn asid(program: &Program) -> Asid {
    World::cpu(&program.sim).engine.loaded_asid()
}

#[test]
fn freeing_a_table_of_any_level_that_a_walker_remembers_breaks_r2() {
    let machine = roomy(1);
    assert_eq!(remembered(&machine, |_, _| ()), [0, 1, 2]);
    let flush_all = |program: &Program, _| program.sim.invalidate(asid(program), Flush::ALL);
    assert_eq!(remembered(&machine, flush_all), NONE);
    let everything = |program: &Program, _| program.sim.invalidate_all();
    assert_eq!(remembered(&machine, everything), NONE);
    let walks_again = move |program: &Program, address| {
        flush_all(program, address);
        program.load(address, 1).expect("a mapped page");
    };
    assert_eq!(remembered(&machine, walks_again), [0, 1, 2]);
}

#[test]
fn walkers_drop_the_ways_that_the_architecture_says() {
    fn page(tables: bool, offset: u64) -> impl Fn(&Program, u64) + Clone {
        move |program, address| {
            let flush = Flush { tables, ..Flush::page(address + offset, PageSize::KIB_4) };
            program.sim.invalidate(asid(program), flush);
        }
    }
    fn broadcast(tables: bool, offset: u64) -> impl Fn(&Program, u64) + Clone {
        move |program, address| {
            let flush = Flush { tables, ..Flush::page(address + offset, PageSize::KIB_4) };
            let sim: &Sim = &program.sim;
            Platform::broadcast(sim, asid(program), flush);
            Platform::broadcast_wait(sim);
        }
    }
    const FAR: u64 = 1 << 30;
    // INVLPG drops all ways of the loaded ASID, whatever the address.
    let x86 = roomy(1);
    for tables in [false, true] {
        assert_eq!(remembered(&x86, page(tables, FAR)), NONE);
    }
    let mut arm = roomy(1);
    arm.processor.broadcast_asids = Some(16);
    for (tables, offset, left) in
        [(false, 0, &[0, 1, 2][..]), (true, 0, &[]), (true, 2 << 20, &[0]), (true, FAR, &[0, 1])]
    {
        assert_eq!(remembered(&arm, page(tables, offset)), left, "{tables} {offset:#x}");
        for machine in [&arm, &x86] {
            assert_eq!(remembered(machine, broadcast(tables, offset)), left, "{tables} {offset:#x}");
        }
    }
}

#[test]
fn a_cpu_may_not_come_back_to_a_table_that_was_freed_meanwhile() {
    for (flushes, expected) in [(true, 0), (false, 1)] {
        alone(move |program| {
            let small = Slot::small(program);
            let [_, (table, first), _] = tables_of(program, small.address);
            away(program, flushes, || {
                observe(program, Event::TableFreed(table));
                assert_eq!(broken(program), [], "no walker could read it yet");
            });
            assert_eq!(broken(program), vec![(Rule::Table, Some(first)); expected]);
            away(program, false, || ());
            assert_eq!(broken(program).len(), expected, "it is reported once");
            program.sim.forget_all(0);
        });
    }
}

#[test]
fn declaring_a_page_droppable_while_stores_to_it_go_unseen_breaks_r5() {
    alone(|program| {
        let small = Slot::small(program);
        let declare = |change: &dyn Fn()| {
            program.system_call(|_, space| {
                change();
                let (start, end) = (small.address, small.address + 4096);
                observe(program, Event::Cleaned { space: space.coherence(), start, end });
            });
        };
        let dirty = small.get(program);
        let clean = dirty & !(1 << 6);
        declare(&|| ());
        assert_eq!(broken(program), [], "the page table shows the store");
        declare(&|| small.set(program, clean));
        assert_eq!(broken(program), [(Rule::Clean, Some(small.address))]);
        declare(&|| {
            flush(program, small.address);
            small.set(program, clean);
        });
        assert_eq!(broken(program).len(), 1);
        program.load(small.address, 1).expect("a mapped page");
        declare(&|| ());
        assert_eq!(broken(program).len(), 1, "a store through a clean entry shows in the page table");
    });
}

#[test]
fn a_page_that_is_found_may_not_be_held_in_an_older_frame() {
    with_huge_to_load(64, |program, huge| {
        let of = |index| Some(Block { store: Store::Swap, index });
        for (offset, index) in [(1, 10), (2, 11), (3, 12)] {
            observe(program, Event::Left { frame: frame(offset), block: of(index) });
        }
        let found = |first, last| observe(program, Event::Settled { store: Store::Swap, first, last });
        found(0, 9);
        found(13, u32::MAX);
        assert_eq!(broken(program), []);
        found(10, 11);
        assert_eq!(broken(program), [1, 2].map(|page| (Rule::OneVersion, Some(huge.at(page)))));
        flush(program, huge.address);
        found(0, u32::MAX);
        assert_eq!(broken(program).len(), 2);
    });
}

/// Runs a thread that has loaded from two huge pages side by side. At most `max_owed` frames may owe.
fn with_huge_to_load(max_owed: u32, body: impl FnOnce(&Program, Slot) + 'static) {
    let configure = move |config: &mut ceasefire_memory::Config| config.lazy.max_owed = Some(max_owed);
    let options = Options { configure: Box::new(configure), ..Options::new(Schedule::Batched) };
    let simulation = Simulation::new(&roomy(1), options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    let body = move |program: &Program| {
        let huge = Slot::huge(program);
        let next = Slot::of(program, huge.address ^ 2 << PageSize::MIB_2.shift(), PageSize::MIB_2);
        let entry = huge.get(program) & !WRITABLE;
        huge.set(program, entry);
        next.set(program, entry + (HUGE_PAGES << PAGE_SHIFT));
        for slot in [huge, next] {
            program.load(slot.address, 1).expect("a present entry");
        }
        body(program, huge);
        program.sim.forget_all(0);
    };
    simulation.spawn("loads", 0, 0, &space, body).expect("a stack");
    simulation.run(|_, _| true).expect("no trace");
}

#[test]
fn more_frames_in_debt_than_the_bound_and_batches_under_way_allow_break_r8() {
    for (flushes, expected) in [(false, Some(Rule::Bounded)), (true, None)] {
        with_huge_to_load(64, move |program, huge| {
            let most = program.sim.most_owing(0) as u32;
            assert!((64..1024).contains(&most), "{most}");
            let leave = |frames: Range<u32>| {
                frames.for_each(|at| observe(program, Event::Left { frame: frame(at), block: None }));
            };
            leave(0..most);
            assert_eq!(broken(program), []);
            if flushes {
                flush(program, huge.address);
            }
            leave(most..most + 1);
            assert_eq!(broken(program).first().map(|&(rule, _)| rule), expected);
        });
    }
}

#[test]
fn frames_in_debt_that_a_cpu_comes_back_to_are_counted() {
    for (flushes, expected) in [(false, Some(Rule::Bounded)), (true, None)] {
        with_huge_to_load(64, move |program, _| {
            away(program, flushes, || {
                let most = program.sim.most_owing(0) as u32;
                let left = (0..=most).map(|at| Event::Left { frame: frame(at), block: None });
                left.for_each(|event| observe(program, event));
                assert_eq!(broken(program), [], "no CPU can reach them");
            });
            assert_eq!(broken(program).first().map(|&(rule, _)| rule), expected);
        });
    }
}

#[test]
fn a_debt_that_is_too_old_at_a_tick_breaks_r8_though_no_cpu_uses_it() {
    for (flushes, expected) in [(false, 1), (true, 0)] {
        with_huge_to_load(64, move |program, huge| {
            observe(program, Event::Left { frame: frame(7), block: None });
            let (ticks, oldest) = (program.sim.cpus[0].ticks.get(), program.sim.oldest_debt_ns() * 1000);
            let age = |picoseconds: u64| (0..picoseconds / US).for_each(|_| program.compute(US));
            age(oldest);
            assert_eq!(broken(program), [], "it is as old as it may be");
            if flushes {
                flush(program, huge.address);
            }
            age(5000 * US);
            assert!(program.sim.cpus[0].ticks.get() > ticks);
            assert_eq!(broken(program), vec![(Rule::Bounded, Some(huge.at(7))); expected]);
            age(9000 * US);
            assert_eq!(broken(program).len(), expected, "it is reported once");
        });
    }
}

#[test]
fn waiting_for_a_flush_during_an_allocation_that_must_not_wait_breaks_r9() {
    for (broadcasts, atomic) in [(false, false), (false, true), (true, false), (true, true)] {
        let flushes = move |program: &Program| {
            program.compute(20 * US);
            observe(program, Event::Atomic { begins: true });
            if !atomic {
                observe(program, Event::Atomic { begins: false });
            }
            let _ = program.memory().engine().flush(program.space().coherence(), Flush::ALL);
            assert_eq!(broken(program), if atomic { vec![(Rule::NoWait, None)] } else { vec![] });
        };
        let runs = |program: &Program| (0..100).for_each(|_| program.compute(US));
        let mut machine = roomy(2);
        machine.processor.broadcast_asids = broadcasts.then_some(16);
        let outcome = run_on(&machine, vec![thread(0, flushes), thread(0, runs)]);
        assert_eq!(outcome.reading.counters.broadcasts > 0, broadcasts);
    }
}

#[test]
fn waiting_for_others_with_interrupts_off_breaks_r9() {
    for (off, expected) in [(true, Some(Rule::NoWait)), (false, None)] {
        let ended = std::rc::Rc::new(Cell::new(false));
        let told = ended.clone();
        let flushes = move |program: &Program| {
            program.compute(20 * US);
            let flush = || program.memory().engine().flush(program.space().coherence(), Flush::ALL);
            let _ = if off { program.sim.interrupts_off(flush) } else { flush() };
            assert_eq!(broken(program).first().map(|&(rule, _)| rule), expected);
            told.set(true);
        };
        let runs = |program: &Program| (0..100).for_each(|_| program.compute(US));
        run_on(&roomy(2), vec![thread(0, flushes), thread(0, runs)]);
        assert!(ended.get(), "the run goes on");
    }
}

#[test]
fn using_the_old_entry_of_a_hidden_translation_is_a_stale_hit() {
    let outcome = with_huge(|program, huge| {
        program.load(huge.at(3), 1).expect("a held entry");
        huge.set(program, huge.get(program) & !PRESENT | HIDDEN);
        program.load(huge.at(3), 1).expect("a held entry");
        let small = Slot::small(program);
        small.set(program, small.get(program) & !PRESENT | HIDDEN);
        program.load(small.address, 1).expect("a held entry");
    });
    assert_eq!((outcome.stale_hits, outcome.violations), (2, 0));
}
