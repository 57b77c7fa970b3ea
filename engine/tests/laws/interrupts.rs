//! Interrupts: flushes that find them off, flushes inside of flushes, and handlers that cannot be masked.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

use ceasefire::{Engine, Extent, Flush, PageSize};

use crate::script::{machine, Event, Machine, Point, Space};

const PAGE: u64 = 0x1000;

/// A space that every CPU of the machine runs, with two pages cached on each.
fn everywhere(cpus: usize) -> (Machine, Space) {
    let m = machine(cpus);
    let p = m.space(1);
    for cpu in 0..cpus {
        m.switch(cpu, &p);
        m.fill(cpu, PAGE, 1);
        m.fill(cpu, 2 * PAGE, 1);
    }
    m.events();
    (m, p)
}

/// Another CPU's request meanwhile is answered although no interrupt can arrive: that CPU has interrupts off too.
#[test]
fn a_flush_with_interrupts_off_answers_other_cpus_while_it_waits() {
    let (m, p) = everywhere(3);
    let (space, answered) = (p.clone(), Rc::new(Cell::new(false)));
    let seen = answered.clone();
    m.at(Point::Spin, move |m| {
        // The flush is released before any CPU has answered, since one thread plays all CPUs.
        let before = m.off(1);
        m.on(2, |engine| engine.flush(&space, Flush::page(2 * PAGE, PageSize::KIB_4)));
        assert!(m.cached(0, 2 * PAGE).is_some(), "interrupts are off here");
        drop(before);
        seen.set(true);
    });
    let off = m.interrupts_off();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert!(answered.get());
    assert_eq!((0..3).map(|cpu| m.cached(cpu, PAGE)).collect::<Vec<_>>(), [None; 3]);
    assert_eq!(m.cpu(0).counters().requests, 1, "it was answered without an interrupt");
    assert_eq!((m.cached(0, 2 * PAGE), m.cpu(0).counters().interrupts), (None, 0));
    assert_eq!(m.kept(), (false, 0));
    drop(off);
    m.deliver_all();
    assert_eq!(m.cpu(0).counters().requests, 1, "the interrupt that came late finds nothing");
}

#[test]
fn a_flush_inside_a_flush_waits_for_the_first_ones_answers() {
    for off in [false, true] {
        let (m, p) = everywhere(3);
        let space = p.clone();
        // An interrupt handler flushes on the CPU that waits.
        m.at(Point::Wait, move |m| {
            let _off = off.then(|| m.interrupts_off());
            m.flush(&space, Flush::page(2 * PAGE, PageSize::KIB_4));
            for cpu in 0..3 {
                assert_eq!((m.cached(cpu, PAGE), m.cached(cpu, 2 * PAGE)), (None, None), "both, by then");
            }
        });
        let reached = m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert!(reached < p.generation());
        assert!(m.events().iter().all(|event| !matches!(event, Event::LoadKernel { .. })));
        m.deliver_all();
        assert_eq!(m.kept(), (true, 0));
    }
}

/// The handler of an NMI may read the memory of the program that was interrupted, and of no space that is half loaded.
#[test]
fn a_space_may_be_accessed_only_while_its_program_runs_on_it() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    let may = |m: &Machine| (m.may_access(&p), m.may_access(&q));
    assert_eq!(may(&m), (false, false));
    m.switch(0, &p);
    assert_eq!((may(&m), m.on(1, |engine| engine.may_access(&p))), ((true, false), false));
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        for (next, other) in [(&q, &p), (&p, &q)] {
            let (loads, leaves) = (next.clone(), other.clone());
            let seen = Rc::new(Cell::new(false));
            let told = seen.clone();
            m.at(point, move |m| {
                assert!(!m.may_access(&loads) && !m.may_access(&leaves), "{point:?}");
                told.set(true);
            });
            m.switch(0, next);
            assert!(seen.get() && m.may_access(next) && !m.may_access(other));
        }
    }
    m.lazy(0);
    assert!(!m.may_access(&p), "its entries may be old");
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let behind = p.clone();
    m.at(Point::BeforeRoot, move |m| {
        assert!(!m.may_access(&behind), "it is no longer lazy, and has not flushed");
    });
    m.switch(0, &p);
    assert!(m.may_access(&p));
    drop(m.unload());
    assert_eq!(may(&m), (false, false));
}

#[test]
fn guards_end_where_they_are_dropped_and_when_a_panic_passes() {
    let m = machine(1);
    assert_eq!(m.kept(), (true, 0));
    let outer = m.interrupts_off();
    let inner = m.interrupts_off();
    let pinned = m.pin();
    assert_eq!(m.kept(), (false, 1));
    drop(inner);
    assert_eq!(m.kept(), (false, 1), "they nest");
    drop((outer, pinned));
    assert_eq!(m.kept(), (true, 0));
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let _pinned = m.pin();
        let _off = m.interrupts_off();
        panic!("as a test wants");
    }));
    assert!(failed.is_err());
    assert_eq!(m.kept(), (true, 0));
}

/// A closure that replaces a guard ends with a panic too.
#[test]
fn closures_end_their_guards_when_a_panic_passes() {
    use ceasefire::Platform;
    let m = machine(1);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        m.platform().pinned(|| m.platform().interrupts_off(|| panic!("as a test wants")));
    }));
    assert!(failed.is_err());
    assert_eq!(m.kept(), (true, 0));
}

#[test]
fn a_flush_with_interrupts_off_of_everything_leaves_nothing() {
    let (m, p) = everywhere(4);
    let _off = m.interrupts_off();
    m.flush(&p, Flush { extent: Extent::All, tables: false, mixed: false });
    assert!((0..4).all(|cpu| m.usable(cpu).is_empty()));
    drop(m.on(3, Engine::unload));
}
