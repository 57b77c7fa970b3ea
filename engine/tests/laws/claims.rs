//! A CPU claims no more than it has done: a generation that is raised after its invalidation is not reached by it.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::{Engine, Flush, PageSize, Stamp};

use crate::hands::release_in_debt;
use crate::script::{lazy, lazy_broadcasting, machine, Machine, Point, Space};

const PAGE: u64 = 0x1000;

/// CPU 1 runs a space and has a page of it cached.
fn busy(m: &Machine) -> Space {
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    p
}

/// At `point` on CPU 1 the hardware fills an entry of another page, and CPU 2 clears that page and begins to flush it.
/// When the flush has ended, CPU 1 has the entry no more.
fn flushed_at(m: &Machine, space: &Space, point: Point, act: impl FnOnce(&Machine)) {
    let inner = space.clone();
    m.at(point, move |m| {
        m.fill(1, 2 * PAGE, 2);
        let flush = || m.begin_flush(&inner, Flush::page(2 * PAGE, PageSize::KIB_4));
        // Its answer comes once CPU 1 has gone on.
        std::mem::forget(m.on(2, |_| flush()));
    });
    act(m);
    m.forget_hook();
    m.deliver_all();
    if m.root(1).is_none() {
        m.switch(1, space);
    }
    assert_eq!(m.cached(1, 2 * PAGE), None, "{point:?}");
}

#[test]
fn an_answer_reaches_the_generation_that_was_read_before_it() {
    let m = machine(3);
    let p = busy(&m);
    flushed_at(&m, &p, Point::Invalidated, |m| {
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    });
    // Of everything too.
    let m = machine(3);
    let p = busy(&m);
    flushed_at(&m, &p, Point::Invalidated, |m| {
        m.flush(&p, Flush::ALL);
    });
}

#[test]
fn a_flush_of_ones_own_reaches_the_generation_that_was_read_before_it() {
    let m = machine(3);
    let p = busy(&m);
    flushed_at(&m, &p, Point::Invalidated, |m| m.on(1, Engine::flush_here));
}

#[test]
fn a_switch_reaches_the_generation_that_was_read_before_it() {
    let m = machine(3);
    let p = busy(&m);
    drop(m.on(1, Engine::unload));
    m.flush(&p, Flush::ALL);
    flushed_at(&m, &p, Point::AfterRoot, |m| m.switch(1, &p));
}

#[test]
fn a_cpu_that_leaves_lazy_mode_reaches_the_generation_that_was_read_before_it() {
    let m = machine(3);
    let p = busy(&m);
    m.lazy(1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    flushed_at(&m, &p, Point::AfterRoot, |m| m.switch(1, &p));
}

#[test]
fn a_tick_reaches_the_generation_that_was_read_before_it() {
    let m = lazy(3);
    let p = busy(&m);
    release_in_debt(&m, &p, PAGE);
    m.pass(200);
    assert!(!m.tick(0));
    flushed_at(&m, &p, Point::Invalidated, |m| assert!(!m.tick(1)));
}

#[test]
fn kernel_ranges_are_reached_up_to_the_generation_that_was_read_before_the_flush() {
    let m = machine(3);
    for cpu in 0..3 {
        m.on(cpu, Engine::online);
    }
    m.fill_kernel(1, PAGE, 1);
    m.at(Point::Invalidated, |m| {
        // CPU 1 is in its handler. CPU 2 flushes another page, and goes on before CPU 1 has answered.
        m.fill_kernel(1, 2 * PAGE, 2);
        m.on(2, |engine| engine.flush_kernel(Flush::page(2 * PAGE, PageSize::KIB_4)));
    });
    m.on(0, |engine| engine.flush_kernel(Flush::page(PAGE, PageSize::KIB_4)));
    m.deliver_all();
    assert_eq!(m.kernel_cached(1, 2 * PAGE), None);
}

/// Releases a page in debt. A later debt closes the epoch of that debt.
fn owe_in_a_closed_epoch(m: &Machine, space: &Space, page: u64) -> Stamp {
    let stamp = release_in_debt(m, space, page);
    m.pass(2000);
    assert_ne!(release_in_debt(m, space, 9 * PAGE), stamp);
    stamp
}

/// At `point` of an `act` that settles debts, CPU 1 caches another page, CPU 2 releases it in debt, and the epoch of the
/// debt closes. The debt stands as long as the entry does.
fn owed_at(m: &Machine, point: Point, act: impl FnOnce(&Machine)) {
    let p = busy(m);
    owe_in_a_closed_epoch(m, &p, PAGE);
    let (late, space) = (Rc::new(Cell::new(Stamp::SETTLED)), p.clone());
    let told = late.clone();
    m.at(point, move |m| {
        m.fill(1, 2 * PAGE, 2);
        told.set(m.on(2, |_| owe_in_a_closed_epoch(m, &space, 2 * PAGE)));
    });
    act(m);
    assert_ne!(late.get(), Stamp::SETTLED);
    assert!(m.cached(1, 2 * PAGE).is_some() && !m.is_settled(late.get()), "{point:?}");
    m.pay_all();
    assert!(m.cached(1, 2 * PAGE).is_none() && m.is_settled(late.get()), "{point:?}");
}

#[test]
fn a_payment_settles_the_epochs_that_were_closed_before_it() {
    owed_at(&lazy(3), Point::Invalidated, |m| m.pay_all());
    owed_at(&lazy_broadcasting(3, 4), Point::BroadcastWait, |m| m.pay_all());
}

#[test]
fn a_flush_of_ones_own_settles_the_epochs_that_were_closed_before_it() {
    owed_at(&lazy(3), Point::Invalidated, |m| m.on(1, Engine::flush_here));
}

#[test]
fn a_tick_that_broadcasts_settles_the_epochs_that_were_closed_before_it() {
    owed_at(&lazy_broadcasting(3, 4), Point::BroadcastWait, |m| {
        let _ = m.tick(0);
    });
}
