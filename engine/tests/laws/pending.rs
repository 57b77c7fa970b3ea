//! Flushes in two steps: begun, and waited for later, perhaps on another CPU and in another order.

use ceasefire::{Asid, Extent, Flush, PageSize};

use crate::script::{broadcasting, hybrid, machine, Event, Machine, Space};

const PAGE: u64 = 0x1000;

/// A space that CPUs 0 to 2 run, with three pages cached on each.
fn running(m: &Machine) -> Space {
    let p = m.space(1);
    for cpu in 0..3 {
        m.switch(cpu, &p);
        for page in 1..4 {
            m.fill(cpu, page * PAGE, 1);
        }
    }
    m.events();
    p
}

fn cached(m: &Machine, page: u64) -> Vec<bool> {
    (0..3).map(|cpu| m.cached(cpu, page * PAGE).is_some()).collect()
}

#[test]
fn after_the_first_step_other_cpus_are_asked_and_this_cpu_is_done() {
    let m = machine(4);
    let p = running(&m);
    let pending = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((cached(&m, 1), pending.is_done(), m.kept()), (vec![false, true, true], false, (true, 0)));
    assert_eq!(m.interrupted(), [1, 2]);
    m.deliver_all();
    assert_eq!((cached(&m, 1), pending.is_done()), (vec![false; 3], true));
    assert_eq!(pending.wait(), p.generation());
}

#[test]
fn dropping_a_pending_flush_waits() {
    let m = machine(4);
    let p = running(&m);
    drop(m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
    assert_eq!(cached(&m, 1), [false; 3]);
}

#[test]
fn devices_are_told_when_the_flush_ends() {
    for m in [machine(4), broadcasting(4, 256)] {
        let p = running(&m);
        p.attach_device();
        m.device_fill(&p, PAGE, 1);
        let pending = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert!(m.device_cached(&p, PAGE).is_some());
        pending.wait();
        assert!(m.device_cached(&p, PAGE).is_none());
        assert_eq!(m.events().iter().filter(|event| matches!(event, Event::Devices { .. })).count(), 1);
    }
}

/// The next flush of the same CPU needs its request. It waits for the answers first, and the earlier flush is then
/// done.
#[test]
fn a_flush_that_is_begun_before_another_ended_waits_for_its_answers() {
    let m = machine(4);
    let p = running(&m);
    let first = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let second = m.begin_flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    assert!(first.is_done() && !second.is_done());
    assert_eq!(cached(&m, 1), [false; 3]);
    let third = m.begin_flush(&p, Flush::page(3 * PAGE, PageSize::KIB_4));
    assert!(first.is_done() && second.is_done() && !third.is_done(), "numbers tell them apart");
    assert!(first.wait() < second.wait());
    assert!(!third.is_done(), "neither waited for it");
    drop(third);
    assert!((1..4).all(|page| cached(&m, page) == [false; 3]));
}

#[test]
fn a_task_that_moves_waits_for_the_request_of_the_cpu_that_it_left() {
    let m = machine(5);
    let p = running(&m);
    let pending = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    m.move_task(0, 4);
    // CPU 4 has sent a request too, and CPU 0 sends another meanwhile.
    let other = m.begin_flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    m.on(0, |engine| drop(engine.begin_flush(&p, Flush::page(3 * PAGE, PageSize::KIB_4))));
    assert!(pending.is_done());
    pending.wait();
    drop(other);
    assert!((1..4).all(|page| cached(&m, page) == [false; 3]));
    let late = m.on(0, |engine| engine.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4)).is_done());
    assert!(!late, "two CPUs have to answer");
}

#[test]
fn broadcasts_are_started_at_once_and_waited_for_at_the_end() {
    let m = broadcasting(4, 256);
    let p = running(&m);
    let pending = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let asid = p.asid().map(Asid::get).expect("every space has one");
    assert_eq!(
        m.events(),
        [Event::Broadcast { cpu: 0, asid, extent: Flush::page(PAGE, PageSize::KIB_4).extent }],
        "nothing is waited for"
    );
    assert!(!pending.is_done() && cached(&m, 1) == [true; 3]);
    m.move_task(0, 3);
    pending.wait();
    assert_eq!(cached(&m, 1), [false; 3]);
}

/// In a transition it uses both transports, and its findings at the end decide whether the transition ends.
#[test]
fn a_transition_may_begin_and_end_while_a_flush_is_under_way() {
    let m = hybrid(4, 1);
    let p = running(&m);
    let before = m.begin_flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    m.flush(&p, Flush::page(9 * PAGE, PageSize::KIB_4));
    assert!(p.asid().is_some(), "it has begun to move");
    let during = m.begin_flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    m.flush(&p, Flush::page(9 * PAGE, PageSize::KIB_4));
    before.wait();
    during.wait();
    assert_eq!((cached(&m, 1), cached(&m, 2)), (vec![false; 3], vec![false; 3]));
    m.events();
    for cpu in 0..3 {
        m.fill(cpu, PAGE, 2);
    }
    m.flush(&p, Flush { extent: Extent::All, ..Flush::page(0, PageSize::KIB_4) });
    assert_eq!((cached(&m, 1), m.interrupted()), (vec![false; 3], vec![]));
}
