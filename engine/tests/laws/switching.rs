//! Loading spaces, lazy mode, and the window in a switch.

use ceasefire::{
    Batch, Capabilities, Flush, Gather, PageSize, Reason, Root, Schedule, SpaceId, DYNAMIC_ASIDS, MAX_CPUS,
    PLACES,
};

use crate::hands::{batch, room, was, Hands, SpaceLock};
use crate::script::{broadcasting, id, lazy, machine, machine_with, Event, Machine, Point, Space, PROMISES};

const PAGE: u64 = 0x1000;

/// The roots that `cpu` loaded since the last look: for each, whether the load flushed.
fn loads(machine: &Machine) -> Vec<bool> {
    let flush = |event| if let Event::Load { flush, .. } = event { Some(flush) } else { None };
    machine.events().into_iter().filter_map(flush).collect()
}

#[test]
fn switching_to_the_loaded_space_touches_nothing() {
    let m = machine(1);
    let p = m.space(1);
    m.switch(0, &p);
    m.events();
    assert!(m.switch_to(&p).is_empty());
    assert_eq!(m.events(), []);
}

#[test]
fn a_space_that_comes_back_unchanged_keeps_its_entries() {
    let m = machine(1);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    m.switch(0, &q);
    assert_eq!(m.cached(0, PAGE), None, "another space's entry");
    m.switch(0, &p);
    assert!(m.cached(0, PAGE).is_some());
    assert_eq!(loads(&m), [true, true, false]);
}

#[test]
fn a_space_that_comes_back_behind_is_flushed() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    m.switch(0, &q);
    m.on(1, |engine| engine.flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
    assert_eq!(m.interrupted(), [], "no CPU runs the space");
    m.switch(0, &p);
    assert_eq!(m.cached(0, PAGE), None);
    assert_eq!(loads(&m), [true]);
    assert_eq!(m.cpu(0).counters().flushes_free, 1);
}

#[test]
fn more_spaces_than_asids_recycle_with_a_flush() {
    let m = machine(1);
    let spaces: Vec<Space> = (1..=DYNAMIC_ASIDS as u64 + 1).map(|root| m.space(root)).collect();
    m.switch(0, &spaces[0]);
    m.fill(0, PAGE, 1);
    for space in &spaces[1..] {
        m.switch(0, space);
        assert_eq!(m.usable(0), [], "a recycled ASID holds nothing of its last owner");
    }
    assert_eq!(loads(&m), [true; DYNAMIC_ASIDS + 1]);
}

#[test]
fn without_asids_every_switch_flushes() {
    let m = machine_with(1, Capabilities { asids: false, ..PROMISES });
    let (p, q) = (m.space(1), m.space(2));
    for _ in 0..2 {
        m.switch(0, &p);
        m.switch(0, &q);
    }
    assert_eq!(loads(&m), [true; 4]);
}

#[test]
fn a_switch_returns_the_references_that_it_gives_up() {
    let m = machine(1);
    let spaces: Vec<Space> = (0..=PLACES as u64).map(|root| m.space(root)).collect();
    let references = |space| std::rc::Rc::strong_count(space);
    for space in &spaces[..PLACES] {
        assert!(m.switch_to(space).is_empty(), "it keeps its places");
    }
    for space in &spaces[..PLACES] {
        assert_eq!((references(space), space.cpus().contains(id(0))), (2, true));
    }
    let previous = m.switch_to(&spaces[PLACES]);
    assert!(!previous.is_empty() && !spaces[0].cpus().contains(id(0)), "the oldest goes");
    drop(previous);
    assert_eq!(references(&spaces[0]), 1);
    assert!(!m.unload().is_empty());
    assert!(spaces.iter().all(|space| references(space) == 1 && space.cpus().is_empty()), "all of them");
    assert_eq!((m.root(0), m.cpu(0).loaded(), m.loaded_asid()), (None, SpaceId::NONE, None));
    assert!(m.unload().is_empty());
}

#[test]
fn a_lazy_cpu_is_not_interrupted_and_catches_up_when_it_leaves() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.lazy(1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), []);
    assert!(m.cached(1, PAGE).is_some(), "nothing runs there that could use it");
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None);
    assert_eq!(loads(&m), [true]);
    assert_eq!(m.cpu(1).counters().flushes_free, 1);
}

#[test]
fn leaving_lazy_mode_unchanged_costs_nothing() {
    let m = machine(1);
    let p = m.space(1);
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    m.lazy(0);
    m.events();
    m.switch(0, &p);
    assert_eq!(m.events(), []);
    assert!(m.cached(0, PAGE).is_some() && !m.cpu(0).is_lazy());
}

#[test]
fn a_lazy_cpu_that_switches_to_another_space_is_no_longer_lazy() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.lazy(1);
    m.switch(1, &q);
    assert!(!m.cpu(1).is_lazy());
    m.events();
    m.flush(&q, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), [1]);
}

#[test]
fn a_cpu_without_a_space_does_not_become_lazy() {
    let m = machine(1);
    m.lazy(0);
    assert!(!m.cpu(0).is_lazy());
}

#[test]
fn an_interrupt_to_a_cpu_that_has_gone_lazy_unloads_its_space() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.at(Point::Wait, |m| m.lazy(1));
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((m.root(1), m.cpu(1).loaded(), m.cpu(1).is_lazy()), (None, SpaceId::NONE, false));
    assert!(p.cpus().contains(id(1)), "an interrupt drops no reference, so the CPU keeps its place");
    assert_eq!(std::rc::Rc::strong_count(&p), 2);
    m.events();
    let previous = m.on(1, |engine| engine.switch_to(&p));
    assert!(previous.is_empty() && std::rc::Rc::strong_count(&p) == 2);
    assert_eq!(m.cached(1, PAGE), None);
    assert_eq!(loads(&m), [true]);
}

/// tlb-bugs D1: between the load of the root and the publishing of the space.
#[test]
fn a_flusher_inside_the_switch_window_interrupts_the_switching_cpu() {
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        let m = machine(2);
        let (p, q) = (m.space(1), m.space(2));
        m.switch(1, &p);
        m.fill(1, PAGE, 1);
        m.switch(1, &q);
        m.events();
        let flushed = p.clone();
        m.at(point, move |m| {
            m.on(0, |engine| engine.flush(&flushed, Flush::page(PAGE, PageSize::KIB_4)));
        });
        m.switch(1, &p);
        assert!(m.cached(1, PAGE).is_some(), "the switch read the generation before the flush was asked for");
        assert_eq!(m.interrupted(), [1], "{point:?}");
        m.deliver_all();
        assert_eq!(m.cached(1, PAGE), None, "{point:?}");
    }
}

#[test]
fn a_batch_inside_the_switch_window_interrupts_the_switching_cpu() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.switch(1, &q);
    m.events();
    let space = p.clone();
    m.at(Point::AfterRoot, move |m| {
        m.on(0, |_| {
            let mut batch = batch(m, ceasefire::Schedule::Batched);
            batch.unmap(&space, was(PAGE, false), 0);
            batch.flush();
        });
    });
    m.go(1);
    drop(m.switch_to(&p));
    assert_eq!(m.interrupted(), [1]);
    m.deliver_all();
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_flush_inside_the_window_answered_after_it_reads_the_generation_again() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.switch(1, &q);
    let flushed = p.clone();
    m.at(Point::AfterRoot, move |m| {
        m.on(0, |engine| engine.flush(&flushed, Flush::page(PAGE, PageSize::KIB_4)));
    });
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.fill(1, 2 * PAGE, 1);
    m.deliver_all();
    assert_eq!(m.cached(1, PAGE), None);
    assert!(m.cached(1, 2 * PAGE).is_some(), "one behind and the newest: the page alone");
    m.events();
    m.switch(1, &q);
    m.switch(1, &p);
    assert_eq!(loads(&m), [false, false], "the answer raised the slot's generation");
}

/// tlb-bugs D4: the bit is cleared after the root is gone.
#[test]
fn a_cpu_stays_in_the_set_until_the_root_is_gone() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.events();
    let left = p.clone();
    m.at(Point::BeforeRoot, move |m| {
        assert_eq!(m.root(1), Some(Root(1)));
        assert!(left.cpus().contains(id(1)));
        m.on(0, |engine| engine.flush(&left, Flush::page(PAGE, PageSize::KIB_4)));
        assert_eq!(m.interrupted(), [1]);
    });
    m.switch(1, &q);
    assert!(p.cpus().contains(id(1)) == (PLACES > 1) && q.cpus().contains(id(1)));
    m.deliver_all();
    assert!(m.traced().contains(&(1, Reason::RemoteWrongCpu, Some(0))));
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None, "the slot stayed behind");
}

#[test]
fn the_bit_is_set_before_the_first_fill() {
    let m = machine(2);
    let p = m.space(1);
    let joined = p.clone();
    m.at(Point::BeforeRoot, move |_| assert!(joined.cpus().contains(id(1))));
    m.switch(1, &p);
}

/// tlb-bugs C1, C3.
#[test]
fn freed_tables_reach_lazy_cpus_and_unload_them() {
    let m = machine(3);
    let p = m.space(1);
    m.switch(1, &p);
    m.switch(2, &p);
    m.lazy(1);
    m.events();
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |_| {
        assert_eq!(m.root(1), None, "released only when no walker is left");
        assert_eq!(m.root(2), Some(Root(1)), "the others only flush");
    });
    gather.unlink(0, PageSize::KIB_4, || Some(7));
    gather.finish();
    assert_eq!(m.interrupted(), [1, 2]);
    assert_eq!(m.cpu(1).loaded(), SpaceId::NONE);
}

#[test]
fn freed_tables_unload_the_flushing_cpus_own_lazy_space() {
    let m = machine(1);
    let p = m.space(1);
    m.switch(0, &p);
    m.lazy(0);
    m.flush(&p, Flush::ALL);
    assert_eq!(m.root(0), None);
}

/// Switching back and forth writes nothing that other CPUs write: no set of CPUs, no count of references.
#[test]
fn switches_between_a_few_spaces_write_nothing_shared() {
    let m = machine(1);
    let spaces: Vec<Space> = (0..PLACES as u64).map(|root| m.space(root)).collect();
    for space in &spaces {
        m.switch(0, space);
    }
    let shared =
        || format!("{spaces:?}, {:?}", spaces.iter().map(std::rc::Rc::strong_count).collect::<Vec<_>>());
    let (before, counters) = (shared(), m.cpu(0).counters());
    for space in spaces.iter().chain(spaces.iter().rev()) {
        m.switch(0, space);
    }
    let since = m.cpu(0).counters().since(&counters);
    assert_eq!((shared(), since.places_taken, since.places_given_up), (before, 0, 0));
}

/// The lines that CPUs write when they switch between two spaces in turn: of each space, the line of the set with the
/// CPU's bit, and that of the count of references. Every other CPU has written the same lines since the last switch.
#[test]
fn cpus_that_switch_back_and_forth_write_four_shared_lines_or_none() {
    for cpus in [2, 64.min(MAX_CPUS)] {
        let m = machine(cpus);
        let spaces = [m.space(1), m.space(2)];
        let shared = |cpu| {
            spaces.each_ref().map(|space| (space.cpus().contains(id(cpu)), std::rc::Rc::strong_count(space)))
        };
        let mut written = 0;
        for round in 0..4 {
            for space in &spaces {
                for cpu in 0..cpus {
                    let before = shared(cpu);
                    m.switch(cpu, space);
                    for (before, after) in before.into_iter().zip(shared(cpu)) {
                        let lines = usize::from(before.0 != after.0) + usize::from(before.1 != after.1);
                        written += if round > 0 { lines } else { 0 };
                    }
                }
            }
        }
        let switches = 3 * spaces.len() * cpus;
        assert_eq!(written, if PLACES == 1 { 4 * switches } else { 0 }, "{cpus} CPUs");
    }
}

/// A CPU that keeps its place and runs another space is passed over, and flushes when it comes back.
#[test]
fn a_cpu_that_keeps_its_place_is_not_interrupted() {
    if PLACES == 1 {
        return;
    }
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    for pays in [true, false] {
        m.switch(1, &p);
        m.fill(1, PAGE, 1);
        m.switch(1, &q);
        m.events();
        if pays {
            m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        } else {
            let mut batch = batch(&m, Schedule::Batched);
            batch.unmap(&p, was(PAGE, false), 0);
            drop(batch);
        }
        assert_eq!(m.interrupted(), []);
        m.switch(1, &p);
        assert_eq!(m.cached(1, PAGE), None);
    }
    assert_eq!(m.cpu(0).counters().passed_over, 2);
}

/// Nor does a lazy debt name it.
#[test]
fn a_debt_of_a_space_that_no_cpu_runs_is_settled_at_once() {
    let m = lazy(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.switch(1, &q);
    let stamp = std::cell::Cell::new(None);
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(&m, Schedule::Lazy, |page: ceasefire::Owed<u64>| stamp.set(Some(page.stamp())));
    batch.unmap_and_release(&p, was(PAGE, false), 0);
    batch.flush();
    assert_eq!(stamp.take(), Some(ceasefire::Stamp::SETTLED));
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_space_that_is_loaded_takes_one_place_and_gives_it_up_once() {
    let m = machine(1);
    let p = m.space(1);
    m.switch(0, &p);
    let places = || {
        let counters = m.counters([id(0)]);
        (counters.places_taken, counters.places_given_up)
    };
    assert_eq!(places(), (1, 0));
    m.switch(0, &p);
    assert_eq!(places(), (1, 0));
    for root in 2..100 {
        m.switch(0, &m.space(root));
        let (taken, given_up) = places();
        assert_eq!(taken, root);
        assert!(given_up < taken);
    }
}

/// Going lazy under a global ASID loads the kernel's own tables. The CPU then keeps a place in the space that it left too.
#[test]
fn a_cpu_that_comes_back_from_the_kernels_own_tables_gives_no_place_up() {
    let m = broadcasting(1, 64);
    let spaces: Vec<Space> = (1..=PLACES as u64).map(|root| m.space(root)).collect();
    for space in &spaces {
        m.switch(0, space);
    }
    for space in spaces.iter().rev().chain(&spaces) {
        m.lazy(0);
        m.switch(0, space);
    }
    let counters = m.cpu(0).counters();
    assert_eq!((counters.places_taken, counters.places_given_up), (PLACES as u64, 0));
}
