//! CPUs that go offline and come back: no flush and no debt waits for an offline CPU, and one that comes back holds no
//! entry.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::{Engine, Flush, PageSize, Payment};

use crate::hands::release_in_debt;
use crate::script::{broadcasting, hybrid, lazy, lazy_until, machine, Machine, Point};

const PAGE: u64 = 0x1000;

fn go(m: &Machine, cpu: usize) {
    drop(m.on(cpu, Engine::offline));
}

#[test]
fn a_cpu_that_goes_offline_answers_its_requests() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let gone = Rc::new(Cell::new(false));
    let told = gone.clone();
    m.at(Point::Wait, move |m| {
        go(m, 1);
        told.set(true);
    });
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert!(gone.get() && m.root(1).is_none() && p.cpus().is_empty());
    assert_eq!(m.cpu(1).counters().requests, 1);
}

/// The CPU ran when the flush looked, and is offline when the request arrives.
#[test]
fn a_request_that_comes_too_late_is_answered_by_its_sender() {
    for others in [false, true] {
        let m = machine(4);
        let p = m.space(1);
        m.switch(1, &p);
        if others {
            m.switch(2, &p);
            m.fill(2, PAGE, 1);
        }
        m.events();
        m.at(Point::Send, |m| go(m, 1));
        let reached = m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(reached, p.generation());
        assert_eq!(m.cpu(1).counters().requests, 0);
        assert_eq!(m.interrupted(), if others { vec![2] } else { vec![] });
        assert_eq!(m.cached(2, PAGE), None);
        // Nothing of the request is left when it comes back.
        m.on(1, Engine::online);
        m.switch(1, &p);
        m.on(3, |engine| engine.flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
        assert_eq!(m.cpu(1).counters().requests, 1);
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(m.cpu(1).counters().requests, 2);
    }
}

/// Debts of a CPU in closed epochs and in the open one. They end when the CPU goes offline.
#[test]
fn debts_do_not_wait_for_a_cpu_that_is_gone() {
    for m in [lazy(3), lazy_until(3, Payment::Demand)] {
        let p = m.space(1);
        m.switch(1, &p);
        m.fill(1, PAGE, 1);
        let closed = release_in_debt(&m, &p, PAGE);
        m.pass(2000);
        let open = release_in_debt(&m, &p, 2 * PAGE);
        assert!(open > closed && !m.is_settled(closed));
        m.events();
        go(&m, 1);
        assert!(m.is_settled(closed) && !m.is_settled(open), "the open epoch is closed first");
        m.pay_all();
        assert!(m.is_settled(open));
        assert_eq!(m.interrupted(), []);
    }
}

/// Its entries are older than its record: the space was flushed without it, and its ASID may belong to another space.
#[test]
fn a_cpu_that_comes_back_holds_nothing() {
    for (m, says) in
        [(machine(2), true), (machine(2), false), (broadcasting(2, 3), true), (hybrid(2, 1), false)]
    {
        let (p, q) = (m.space(1), m.space(2));
        for space in [&p, &q] {
            m.switch(1, space);
            m.fill(1, PAGE, space.root().0);
        }
        go(&m, 1);
        m.on(0, |engine| engine.flush(&q, Flush::page(PAGE, PageSize::KIB_4)));
        if says {
            m.on(1, Engine::online);
        }
        for space in [&p, &q] {
            m.switch(1, space);
            assert_eq!(m.usable(1), []);
        }
    }
}

#[test]
fn a_space_may_end_when_its_last_cpu_is_gone() {
    let m = broadcasting(2, 3);
    let p = m.space(1);
    m.switch(1, &p);
    assert!(m.retire(&p).is_err());
    let given_up = m.on(1, Engine::offline);
    assert!(!given_up.is_empty());
    assert_eq!(m.retire(&p), Ok(()));
}

#[test]
fn a_late_interrupt_to_a_cpu_that_is_gone_does_nothing() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    let pending = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    go(&m, 1);
    assert!(pending.is_done());
    m.deliver_all();
    pending.wait();
    // Other CPUs answer its own flushes as before.
    m.switch(0, &p);
    m.on(1, |engine| engine.flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
    assert_eq!(m.cpu(0).counters().requests, 1);
}

/// The first switch brings it online: no flush of kernel ranges passes it over.
#[test]
fn a_cpu_that_was_never_brought_online_is_reached_by_flushes_of_kernel_ranges() {
    let m = machine(2);
    m.fill_kernel(1, PAGE, 1);
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    m.switch(1, &m.space(1));
    assert_eq!(m.kernel_cached(1, PAGE), None, "it has caught up");
    m.fill_kernel(1, PAGE, 2);
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.kernel_cached(1, PAGE), None, "R1");
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "was made by another engine")]
fn a_space_of_another_engine_is_caught() {
    let (m, other) = (machine(1), machine(1));
    m.flush(&other.space(1), Flush::page(PAGE, PageSize::KIB_4));
}
