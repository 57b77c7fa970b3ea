//! Platforms that flush for CPUs: those CPUs are interrupted only if they must do more than invalidate.

use ceasefire::{Batch, Flush, Gather, Owed, PageSize, Schedule};

use crate::hands::{batch, release_in_debt, room, was, Hands};
use crate::script::{hybrid, lazy, machine, Machine, Point, Script, Space};

const PAGE: u64 = 0x1000;

/// A space that CPUs 1 and 2 run with a page cached on each, on a machine that flushes for CPU 2.
fn running(m: Machine) -> (Machine, Space) {
    let m = m.flushing_for([2]);
    let p = m.space(1);
    for cpu in [1, 2] {
        m.switch(cpu, &p);
        m.fill(cpu, PAGE, 1);
        m.fill(cpu, 2 * PAGE, 1);
    }
    m.events();
    (m, p)
}

#[test]
fn a_cpu_for_which_the_platform_flushes_is_not_interrupted() {
    let (m, p) = running(machine(3));
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    assert!(m.cached(2, 2 * PAGE).is_some(), "the page alone was asked for");
    assert_eq!((m.interrupted(), m.cpu(0).counters().flushes_elsewhere), (vec![1], 1));
    drop(m.on(1, ceasefire::Engine::unload));
    m.flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    assert_eq!((m.cached(2, 2 * PAGE), m.interrupted()), (None, vec![]));
    assert_eq!((m.cpu(0).counters().shootdowns, m.cpu(2).counters().requests), (1, 0));
}

/// It was not told of the flush. So when it comes back, it flushes once more than necessary, and never once too few.
#[test]
fn a_cpu_for_which_the_platform_flushed_stays_behind_in_its_own_record() {
    let (m, p) = running(machine(3));
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let q = m.space(2);
    m.switch(2, &q);
    m.switch(2, &p);
    assert_eq!(m.usable(2), []);
}

#[test]
fn a_batch_lets_the_platform_flush_too() {
    let (m, p) = running(machine(3));
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| {
        assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    });
    batch.unmap(&p, was(PAGE, false), 0);
    batch.hold(1);
    drop(batch);
    assert_eq!(m.interrupted(), [1]);
}

#[test]
fn a_lazy_cpu_leaves_the_tables_itself() {
    let (m, p) = running(machine(3));
    m.lazy(2);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), [1], "lazy CPUs are left alone");
    let mut room = room::<_, 1>();
    let mut gather: Gather<'_, _, u64, _> =
        Gather::new(&m, &p, &mut room, |_| assert_eq!(m.root(2), None, "R2"));
    gather.unlink(0, PageSize::KIB_4, || Some(1));
    gather.finish();
    assert_eq!(m.interrupted(), [1, 2]);
}

#[test]
fn a_cpu_changes_its_tag_itself() {
    let (m, p) = running(hybrid(3, 1));
    m.flush(&p, Flush::page(9 * PAGE, PageSize::KIB_4));
    assert!(p.asid().is_some(), "it is moving");
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), [1, 2]);
    assert_eq!(m.on(2, ceasefire::Engine::loaded_asid), p.asid());
}

/// A hypervisor invalidates the range that it was asked for, and no more. An earlier debt of another page stands.
#[test]
fn a_range_that_the_platform_flushed_pays_for_no_other_page() {
    fn owing<'m>(m: &'m Machine, p: &Space) -> Batch<'m, Script, u64, fn(Owed<u64>)> {
        let mut batch = Batch::new(m, Schedule::Batched, drop as fn(Owed<u64>));
        batch.unmap(p, was(PAGE, false), 1);
        m.flush(p, Flush::page(2 * PAGE, PageSize::KIB_4));
        assert!(m.cached(2, PAGE).is_some(), "the platform flushed the other page alone");
        batch
    }
    let (m, p) = running(machine(3));
    let batch = owing(&m, &p);
    drop(m.settled(&p));
    assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None), "R3");
    drop(batch);
    #[cfg(ceasefire_sabotage)]
    {
        let (m, p) = running(machine(3));
        m.remove_guard(ceasefire::sabotage::Guard::Elsewhere);
        let batch = owing(&m, &p);
        drop(m.settled(&p));
        assert!(m.cached(2, PAGE).is_some(), "R3");
        drop(batch);
    }
}

/// Another translation may follow a lazy unmap. R7.
#[test]
fn a_range_that_the_platform_flushed_pays_for_no_page_released_in_debt() {
    let (m, p) = running(lazy(3));
    release_in_debt(&m, &p, PAGE);
    m.flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    assert!(m.cached(2, PAGE).is_some(), "the platform flushed the other page alone");
    drop(m.settled(&p));
    assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
}

/// All entries of the space are gone.
#[test]
fn a_flush_of_everything_by_the_platform_pays_all_debts() {
    let (m, p) = running(machine(3));
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 1);
    m.flush(&p, Flush::ALL);
    assert!(!m.owes(&p) && m.usable(2).is_empty());
    drop(batch);
}

/// Its published state proves nothing yet.
#[test]
fn a_cpu_that_switches_is_interrupted() {
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        let m = machine(3).flushing_for([1, 2]);
        let p = m.space(1);
        m.switch(1, &p);
        let space = p.clone();
        m.events();
        m.at(point, move |m| {
            // The flush is released before CPU 2 has answered.
            m.on(0, |engine| engine.flush(&space, Flush::page(PAGE, PageSize::KIB_4)));
        });
        m.switch(2, &p);
        m.fill(2, PAGE, 1);
        m.deliver_all();
        assert_eq!((m.interrupted(), m.cached(2, PAGE)), (vec![2], None), "{point:?}");
        assert_eq!(m.cpu(0).counters().flushes_elsewhere, 1, "CPU 1 is answered for");
    }
}
