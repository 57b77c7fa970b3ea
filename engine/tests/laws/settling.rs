//! The ends of lazy debts: ticks, switches to the kernel's own tables, flushes of everything, payments.

use ceasefire::{Batch, Engine, Payment, Reason, Schedule, Stamp};

use crate::hands::{batch, release_in_debt, was, Hands};
use crate::script::{id, lazy, lazy_until, Machine, Space};

const PAGE: u64 = 0x1000;

/// CPU 1 runs a space and holds an entry of a page that was released in debt, and CPU 0 another space.
fn owing(m: &Machine) -> (Space, Stamp) {
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.switch(0, &q);
    m.fill(1, PAGE, 1);
    let stamp = release_in_debt(m, &p, PAGE);
    m.events();
    assert!(m.owes(&p) && m.cached(1, PAGE).is_some() && !m.is_settled(stamp));
    (p, stamp)
}

/// The epoch of the debt closes.
fn close(m: &Machine) {
    m.pass(900);
    assert!(!m.tick(0), "it is not too old yet");
}

#[test]
fn a_tick_of_the_cpu_that_owes_flushes_its_space_and_no_other_cpu_is_interrupted() {
    let m = lazy(2);
    let (p, stamp) = owing(&m);
    assert!(m.settled_stamp() < stamp);
    close(&m);
    assert!(!m.is_settled(stamp) && m.cached(1, PAGE).is_some(), "it is the debt of CPU 1");
    assert!(!m.tick(1));
    assert!(m.settled_stamp() >= stamp && !m.owes(&p));
    assert_eq!((m.usable(1), m.interrupted()), (vec![], vec![]));
    let counters = m.counters([id(0), id(1)]);
    assert_eq!((counters.debts_by_tick, counters.debts_by_switch, counters.flushes_free), (1, 0, 1));
}

#[test]
fn a_cpu_without_debts_flushes_nothing_at_its_tick() {
    let m = lazy(3);
    owing(&m);
    let r = m.space(3);
    m.switch(2, &r);
    m.fill(2, PAGE, 3);
    close(&m);
    m.events();
    assert!(!m.tick(2));
    assert!(m.cached(2, PAGE).is_some());
    assert_eq!(m.traced(), []);
}

#[test]
fn a_lazy_cpu_is_excused_by_ticks_of_others_and_catches_up() {
    let m = lazy(2);
    let (p, stamp) = owing(&m);
    m.lazy(1);
    close(&m);
    assert!(!m.is_settled(stamp), "it may not have had a tick yet");
    m.pass(100);
    let _ = m.tick(0);
    assert!(m.is_settled(stamp));
    assert_eq!(m.interrupted(), []);
    m.switch(1, &p);
    assert_eq!(m.usable(1), []);
}

#[test]
fn a_cpu_that_runs_a_program_is_not_excused_and_pays_when_its_debt_is_overdue() {
    let m = lazy(2);
    let (p, stamp) = owing(&m);
    close(&m);
    m.on(0, Engine::pay_overdue);
    assert!(!m.is_settled(stamp) && m.interrupted().is_empty(), "it is young");
    m.pass(100);
    assert!(m.tick(0), "it is too old");
    assert!(!m.is_settled(stamp) && m.cached(1, PAGE).is_some());
    m.on(0, Engine::pay_overdue);
    assert!(m.is_settled(stamp) && !m.owes(&p));
    assert_eq!((m.usable(1), m.interrupted()), (vec![], vec![1]));
    assert!(!m.tick(0));
}

#[test]
fn a_flush_of_everything_on_a_cpu_settles_what_it_owes() {
    let m = lazy(2);
    let (p, stamp) = owing(&m);
    close(&m);
    m.events();
    m.on(1, Engine::flush_here);
    assert!(m.is_settled(stamp) && !m.owes(&p));
    assert_eq!(m.usable(1), []);
    assert_eq!(m.traced(), [(1, Reason::LocalShootdown, None)]);
    let counters = m.counters([id(0), id(1)]);
    assert_eq!((counters.debts_by_local, counters.flushes_free), (1, 1));
    // The slot says that its entries are current.
    m.switch(1, &m.space(3));
    m.switch(1, &p);
    assert_eq!(m.traced().last(), Some(&(1, Reason::TaskSwitch, Some(0))));
}

#[test]
fn a_cpu_on_the_kernels_own_tables_is_not_interrupted_when_its_debt_is_paid() {
    let m = lazy_until(2, Payment::Demand);
    let (p, stamp) = owing(&m);
    drop(m.on(1, Engine::unload));
    assert!(!m.is_settled(stamp));
    m.pay_all();
    assert!(m.is_settled(stamp));
    assert_eq!(m.interrupted(), []);
    m.switch(1, &p);
    assert_eq!(m.usable(1), []);
}

#[test]
fn a_lazy_cpu_keeps_its_tables_at_its_own_tick() {
    let m = lazy(2);
    let (_, stamp) = owing(&m);
    m.lazy(1);
    close(&m);
    let root = m.root(1);
    assert!(!m.tick(1) && m.is_settled(stamp), "it uses no entry of the space");
    assert_eq!((m.root(1), m.interrupted()), (root, vec![]));
}

#[test]
fn a_page_that_owes_comes_out_when_its_debt_is_paid() {
    let m = lazy_until(2, Payment::Demand);
    let (p, _) = owing(&m);
    m.fill(1, 2 * PAGE, 1);
    let mut owing = None;
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Lazy, |page| owing = Some(page));
    batch.unmap_and_release(&p, was(2 * PAGE, false), 7);
    drop(batch);
    m.events();
    assert_eq!(m.pay(owing.expect("it came out owing")), 7);
    assert_eq!((m.usable(1), m.interrupted()), (vec![], vec![1]));
}

#[test]
fn a_strict_operation_pays_the_debts_of_its_space() {
    for payment in [Payment::Free, Payment::Demand] {
        let m = lazy_until(2, payment);
        let (p, _) = owing(&m);
        drop(m.settled(&p));
        assert!(!m.owes(&p));
        assert_eq!((m.usable(1), m.interrupted()), (vec![], vec![1]));
        drop(m.settled(&p));
        assert_eq!(m.interrupted(), [], "nothing is owed");
    }
}

#[test]
fn a_debt_is_as_old_as_the_first_record_of_its_batch() {
    let m = lazy(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.pass(5000);
    let mut batch = batch(&m, Schedule::Lazy);
    batch.unmap_and_release(&p, was(PAGE, false), 1);
    m.pass(900);
    drop(batch);
    m.pass(200);
    assert!(m.tick(0), "it is too old");
}
