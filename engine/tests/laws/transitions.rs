//! Transitions between slots and a global ASID. While some CPUs run a space under the one and others under the other,
//! no flush misses a CPU, and an ASID is free only once no CPU runs under it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire::{Batch, Flush, Owed, PageSize, Schedule, MAX_CPUS};

use crate::hands::{batch, was, Hands};
use crate::script::{hybrid, lazy_hybrid, machine_with, wide, Event, Machine, Point, Space};
use ceasefire::Capabilities;

const PAGE: u64 = 0x1000;

/// A space that CPUs 1 and 2 of four run, which is wide here. All of them have a page of it cached.
fn busy(asids: u32) -> (Machine, Space) {
    let m = hybrid(4, asids);
    let p = m.space(1);
    run(&m, &p);
    (m, p)
}

fn run(m: &Machine, p: &Space) {
    for cpu in [1, 2] {
        m.switch(cpu, p);
        m.fill(cpu, PAGE, 1);
    }
    m.events();
}

/// A flush of a page that no CPU uses, after which the engine looks at the space.
fn flush(m: &Machine, p: &Space) {
    m.flush(p, Flush::page(9 * PAGE, PageSize::KIB_4));
}

/// The CPUs that were interrupted since the last look, and whether there was a broadcast.
fn carried(m: &Machine) -> (Vec<usize>, bool) {
    let events = m.events();
    let to = |event: &Event| if let Event::Interrupt { to } = event { Some(*to) } else { None };
    let broadcast = events.iter().any(|event| matches!(event, Event::Broadcast { .. }));
    (events.iter().filter_map(to).collect(), broadcast)
}

#[test]
fn a_wide_space_goes_from_interrupts_through_both_to_broadcasts() {
    let (m, p) = busy(2);
    assert_eq!(p.asid(), None);
    flush(&m, &p);
    assert_eq!(carried(&m), (vec![1, 2], false));
    let asid = p.asid().expect("it was seen to be wide");
    assert_eq!(
        m.on(1, ceasefire::Engine::loaded_asid).map(|slot| slot < asid),
        Some(true),
        "still on its slot"
    );
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(carried(&m), (vec![1, 2], true), "both, until all have moved");
    for cpu in [1, 2] {
        assert_eq!(m.cached(cpu, PAGE), None);
        assert_eq!(m.on(cpu, ceasefire::Engine::loaded_asid), Some(asid));
        m.fill(cpu, PAGE, 2);
    }
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(carried(&m), (vec![], true));
    assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    m.switch(3, &p);
    assert_eq!(m.on(3, ceasefire::Engine::loaded_asid), Some(asid), "the next CPU takes it too");
}

#[test]
fn a_cpu_that_left_for_another_space_is_not_asked_to_move() {
    let (m, p) = busy(2);
    let q = m.space(2);
    m.switch(3, &p);
    m.switch(3, &q);
    flush(&m, &p);
    assert!(p.asid().is_some() && p.cpus().contains(crate::script::id(3)));
    m.events();
    flush(&m, &p);
    assert_eq!(carried(&m), (vec![1, 2], true));
}

#[test]
fn a_narrow_space_keeps_to_slots_and_interrupts() {
    let m = hybrid(4, 2);
    let p = m.space(1);
    m.switch(1, &p);
    for _ in 0..3 {
        flush(&m, &p);
        assert_eq!(carried(&m), (vec![1], false));
    }
    assert_eq!(p.asid(), None);
}

/// A space under a global ASID.
fn global(m: &Machine, p: &Space) -> u16 {
    flush(m, p);
    flush(m, p);
    m.events();
    p.asid().expect("it is wide").get()
}

#[test]
fn an_asid_is_given_back_when_no_cpu_runs_under_it_and_reused_after_a_flush_of_everything() {
    let (m, p) = busy(1);
    let asid = global(&m, &p);
    m.fill(1, PAGE, 2);
    drop(m.on(2, ceasefire::Engine::unload));
    flush(&m, &p);
    assert_eq!((p.asid(), carried(&m)), (None, (vec![], true)), "narrow, but CPU 1 runs under it");
    let q = m.space(2);
    for cpu in [2, 3] {
        m.switch(cpu, &q);
    }
    flush(&m, &q);
    assert_eq!(q.asid(), None, "the only one is not free yet");
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(carried(&m), (vec![1], true));
    assert_eq!(m.cached(1, PAGE), None);
    assert!(m.on(1, ceasefire::Engine::loaded_asid).is_some_and(|slot| slot.get() < asid));
    m.fill(1, PAGE, 3);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((carried(&m), m.cached(1, PAGE)), ((vec![1], false), None), "interrupts alone again");
    flush(&m, &q);
    assert_eq!(q.asid().map(ceasefire::Asid::get), Some(asid));
    assert!(m.events().contains(&Event::BroadcastEverything { cpu: 0 }));
}

#[test]
fn a_space_that_finds_no_asid_stays_on_interrupts() {
    let (m, p) = busy(1);
    global(&m, &p);
    let q = m.space(2);
    for cpu in [0, 3] {
        m.switch(cpu, &q);
    }
    flush(&m, &q);
    m.events();
    m.go(1);
    flush(&m, &q);
    assert_eq!((q.asid(), carried(&m)), (None, (vec![0, 3], false)));
    for cpu in [1, 2] {
        drop(m.on(cpu, ceasefire::Engine::unload));
    }
    assert_eq!(m.retire(&p), Ok(()));
    flush(&m, &q);
    assert!(q.asid().is_some(), "the other's, which ended");
}

/// A CPU is in the middle of a switch to a space, under a slot, while the space gets an ASID and all other CPUs adopt
/// it.
#[test]
fn a_cpu_that_is_switching_keeps_a_transition_open() {
    if MAX_CPUS < 5 {
        return;
    }
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        let m = hybrid(5, 2);
        let p = m.space(1);
        run(&m, &p);
        let (space, seen) = (p.clone(), Rc::new(Cell::new(None)));
        let told = seen.clone();
        m.at(point, move |m| {
            // CPU 3 has interrupts off, so interrupts to it wait. The flushes are released here.
            m.on(0, |engine| engine.flush(&space, Flush::page(9 * PAGE, PageSize::KIB_4)));
            m.on(4, |engine| engine.flush(&space, Flush::page(PAGE, PageSize::KIB_4)));
            told.set(space.asid());
        });
        m.switch(3, &p);
        let asid = seen.get().expect("wide");
        assert_ne!(m.on(3, ceasefire::Engine::loaded_asid), Some(asid), "it chose before");
        m.fill(3, PAGE, 1);
        m.deliver_all();
        m.events();
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(m.cached(3, PAGE), None, "{point:?}");
        m.fill(3, PAGE, 2);
        m.events();
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!((carried(&m), m.cached(3, PAGE)), ((vec![], true), None), "{point:?}");
    }
}

/// A CPU comes back to a space, under a slot that misses no flush. While it switches, the space gets an ASID, and the next
/// flush is of a page that the CPU has cached.
#[test]
fn a_cpu_that_is_switching_is_asked_in_a_transition() {
    if MAX_CPUS < 5 {
        return;
    }
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        let m = hybrid(5, 2);
        let (p, q) = (m.space(1), m.space(2));
        run(&m, &p);
        m.switch(3, &p);
        m.fill(3, PAGE, 1);
        m.switch(3, &q);
        let space = p.clone();
        m.at(point, move |m| {
            m.on(0, |engine| engine.flush(&space, Flush::page(9 * PAGE, PageSize::KIB_4)));
            assert!(space.asid().is_some(), "wide");
            m.on(4, |engine| engine.flush(&space, Flush::page(PAGE, PageSize::KIB_4)));
        });
        m.switch(3, &p);
        m.deliver_all();
        assert_eq!(m.cached(3, PAGE), None, "{point:?}");
    }
}

/// A batch records a page of a space on slots. Before it flushes, the space gets an ASID and loses it again.
#[test]
fn a_batchs_records_from_before_a_transition_are_flushed_after_it() {
    let (m, p) = busy(2);
    let out = RefCell::new(Vec::new());
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |page: Owed<u64>| {
        out.borrow_mut().push((*page.get(), m.cached(1, PAGE), m.cached(2, PAGE)));
    });
    batch.unmap(&p, was(PAGE, false), 1);
    global(&m, &p);
    drop(m.on(2, ceasefire::Engine::unload));
    flush(&m, &p);
    flush(&m, &p);
    assert_eq!(p.asid(), None);
    batch.flush();
    assert_eq!(out.take(), [(1, None, None)]);
}

/// In a transition a batch needs both transports too.
#[test]
fn a_batch_that_records_during_a_transition_reaches_both_sides() {
    let (m, p) = busy(2);
    flush(&m, &p);
    // CPU 2 has moved, CPU 1 has not.
    drop(m.on(2, ceasefire::Engine::unload));
    m.switch(2, &p);
    m.fill(2, PAGE, 1);
    assert_ne!(m.on(1, ceasefire::Engine::loaded_asid), m.on(2, ceasefire::Engine::loaded_asid));
    m.events();
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| {
        assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    });
    batch.unmap(&p, was(PAGE, false), 1);
    assert_eq!(batch.len(), 1);
    batch.flush();
    let (interrupted, broadcast) = carried(&m);
    assert!(interrupted.contains(&1) && broadcast, "{interrupted:?}");
}

/// A debt in a space on slots, which then moves: its CPUs use none of their old entries.
#[test]
fn debts_from_before_a_transition_are_settled_by_ticks() {
    let m = lazy_hybrid(4, 2);
    let p = m.space(1);
    run(&m, &p);
    let mut stamp = None;
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(&m, Schedule::Lazy, |page: Owed<u64>| stamp = Some(page.stamp()));
    batch.unmap_and_release(&p, was(PAGE, false), 1);
    drop(batch);
    let stamp = stamp.expect("it came out");
    assert!(!m.is_settled(stamp));
    global(&m, &p);
    assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    m.pass(1000);
    for cpu in 0..4 {
        let _ = m.tick(cpu);
    }
    assert!(m.is_settled(stamp));
    assert!(!m.events().contains(&Event::BroadcastEverything { cpu: 0 }), "no CPU had to be reached");
}

#[test]
fn one_broadcast_pays_for_a_batch_that_concerns_many_cpus_on_slots() {
    if MAX_CPUS < 6 {
        return;
    }
    for (spaces, expected) in [(3, (vec![1, 2, 3], false)), (5, (vec![], true))] {
        let m = hybrid(6, 2);
        let all: Vec<Space> = (0..spaces).map(|space| m.space(space as u64 + 1)).collect();
        for (cpu, space) in (1..).zip(&all) {
            m.switch(cpu, space);
            m.fill(cpu, PAGE, 1);
        }
        m.events();
        let mut batch = batch(&m, Schedule::Batched);
        for space in &all {
            batch.unmap(space, was(PAGE, false), 0);
        }
        batch.hold(1);
        batch.flush();
        let events = m.events();
        let to = |event: &Event| if let Event::Interrupt { to } = event { Some(*to) } else { None };
        let interrupted: Vec<usize> = events.iter().filter_map(to).collect();
        let everything = events.contains(&Event::BroadcastEverything { cpu: 0 });
        assert_eq!((interrupted, everything), expected);
        assert!((1..=all.len()).all(|cpu| m.cached(cpu, PAGE).is_none()));
        assert!(all.iter().all(|space| !m.owes(space)));
    }
}

#[test]
fn pages_are_broadcast_in_the_numbers_that_the_hardware_takes() {
    let (m, p) = busy(2);
    global(&m, &p);
    m.flush(&p, Flush::range(0, 10 * PAGE, ceasefire::PageSize::KIB_4));
    let counts = m.events().into_iter().filter_map(|event| match event {
        Event::Broadcast { extent: ceasefire::Extent::Pages { start, count, .. }, .. } => {
            Some((start / PAGE, count))
        }
        _ => None,
    });
    assert_eq!(counts.collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 2)]);
}

#[test]
fn without_asids_no_space_gets_a_global_one() {
    let m = machine_with(4, Capabilities { asids: false, ..wide(2) });
    let p = m.space(1);
    run(&m, &p);
    for _ in 0..3 {
        flush(&m, &p);
        assert_eq!((p.asid(), carried(&m)), (None, (vec![1, 2], false)));
    }
}

/// A flush of a space that has ended, for instance another task's strict unmap, does not give its ASID back a second
/// time.
#[test]
fn a_flush_of_a_space_that_ended_takes_no_asid_from_the_next() {
    for leaving in [false, true] {
        let (m, p) = busy(1);
        let asid = global(&m, &p);
        if leaving {
            drop(m.on(2, ceasefire::Engine::unload));
            flush(&m, &p);
        }
        for cpu in [1, 2] {
            drop(m.on(cpu, ceasefire::Engine::unload));
        }
        assert_eq!(m.retire(&p), Ok(()));
        let wide = |root, cpus: [usize; 2]| {
            let space = m.space(root);
            for cpu in cpus {
                m.switch(cpu, &space);
            }
            flush(&m, &space);
            space
        };
        let q = wide(2, [0, 1]);
        assert_eq!(q.asid().map(ceasefire::Asid::get), Some(asid));
        for _ in 0..3 {
            flush(&m, &p);
        }
        let r = wide(3, [2, 3]);
        assert_eq!(r.asid(), None, "the other still has it; the first was leaving: {leaving}");
    }
}

/// A space ends while a CPU that saw it wide waits for an ASID for it.
#[test]
fn an_asid_that_comes_after_the_end_of_its_space_is_given_back() {
    let (m, p) = busy(1);
    let asid = global(&m, &p);
    for cpu in [1, 2] {
        drop(m.on(cpu, ceasefire::Engine::unload));
    }
    assert_eq!(m.retire(&p), Ok(()));
    let q = m.space(2);
    run(&m, &q);
    let ends = q.clone();
    m.at(Point::BroadcastWait, move |m| {
        for cpu in [1, 2] {
            drop(m.on(cpu, ceasefire::Engine::unload));
        }
        assert_eq!(m.retire(&ends), Ok(()));
    });
    flush(&m, &q);
    assert_eq!(q.asid(), None);
    let r = m.space(3);
    run(&m, &r);
    flush(&m, &r);
    assert_eq!(r.asid().map(ceasefire::Asid::get), Some(asid));
}

/// Both ASIDs were given back, so the CPU that takes one first makes all CPUs flush. Meanwhile another CPU finds the
/// space wide too.
#[test]
fn a_space_gets_one_asid_if_two_cpus_find_it_wide_at_once() {
    let (m, p) = busy(2);
    let other = m.space(5);
    global(&m, &p);
    run(&m, &other);
    global(&m, &other);
    for cpu in [1, 2] {
        drop(m.on(cpu, ceasefire::Engine::unload));
    }
    assert_eq!((m.retire(&p), m.retire(&other)), (Ok(()), Ok(())));
    let q = m.space(2);
    run(&m, &q);
    let same = q.clone();
    m.at(Point::BroadcastWait, move |m| m.on(3, |_| flush(m, &same)));
    flush(&m, &q);
    assert!(q.asid().is_some());
    let next = m.space(3);
    run(&m, &next);
    flush(&m, &next);
    assert!(next.asid().is_some() && next.asid() != q.asid(), "there are two");
}

#[test]
fn a_look_knows_how_long_flushes_took_and_broadcasts_fade_without_an_asid() {
    let (m, p) = busy(2);
    m.pass(1 << 20);
    m.at(Point::Wait, |m| m.pass(1000));
    flush(&m, &p);
    let first = m.last_look();
    assert!((1000..1100).contains(&first.interrupt_ns) && first.broadcast_ns == 0, "{first:?}");
    flush(&m, &p);
    m.at(Point::BroadcastWait, |m| m.pass(1600));
    flush(&m, &p);
    assert!(p.asid().is_some());
    let known = m.last_look().broadcast_ns;
    assert!((1600..1700).contains(&known), "{known}");
    // Flushes of no time: an average falls by an eighth with each, and by nothing else.
    flush(&m, &p);
    flush(&m, &p);
    let (held, kept) = (m.last_look().broadcast_ns, known - known / 8);
    assert!((kept - kept / 8..kept - kept / 8 + 16).contains(&held), "{held}");
    drop(m.on(2, ceasefire::Engine::unload));
    (0..3).for_each(|_| flush(&m, &p));
    assert_eq!(p.asid(), None);
    flush(&m, &p);
    let before = m.last_look().broadcast_ns;
    flush(&m, &p);
    assert_eq!(m.last_look().broadcast_ns, before - before / 16);
}

/// A kernel thread that borrows the space flushes it. Its own CPU must not keep the transition open.
#[test]
fn a_flusher_that_is_lazy_in_the_space_makes_the_transition_too() {
    let (m, p) = busy(2);
    m.switch(0, &p);
    m.lazy(0);
    assert!(global(&m, &p) > 0);
    drop(m.on(2, ceasefire::Engine::unload));
    flush(&m, &p);
    assert_eq!(p.asid(), None, "no CPU keeps it from leaving");
}
