//! The kernel's own code that walks page tables without a lock: a table is released only after each CPU that may walk
//! has taken an interrupt, or the platform has waited.

use std::cell::Cell;

use ceasefire::{Capabilities, Flush, Gather, KernelGather, PageSize, Walkers};

use crate::hands::room;
use crate::script::{every, machine_with, wide, Machine, Point, Space, PROMISES};

/// CPU 1 runs a space. CPU 2 is online and runs another.
fn busy(promises: Capabilities, walkers: Walkers) -> (Machine, Space) {
    let m = machine_with(3, Capabilities { walkers, ..promises });
    let (p, q) = (m.space(1), m.space(2));
    m.on(0, ceasefire::Engine::online);
    m.switch(1, &p);
    m.switch(2, &q);
    m.events();
    (m, p)
}

/// The CPUs that were interrupted before a table of the space was released.
fn interrupted(m: &Machine, space: &Space) -> Vec<usize> {
    let seen = Cell::new(Vec::new());
    let mut room = room::<_, 1>();
    let mut gather: Gather<'_, _, u64, _> = Gather::new(m, space, &mut room, |_| seen.set(m.interrupted()));
    gather.unlink(0, PageSize::KIB_4, || Some(1));
    gather.finish();
    seen.take()
}

#[test]
fn a_table_is_released_once_each_cpu_that_may_walk_has_taken_an_interrupt() {
    for (promises, walkers, expected) in [
        (PROMISES, Walkers::Locked, vec![1]),
        (PROMISES, Walkers::Own, vec![1]),
        (PROMISES, Walkers::Any, vec![1, 1, 2]),
        (every(3), Walkers::Locked, vec![]),
        (every(3), Walkers::Own, vec![1]),
        (every(3), Walkers::Any, vec![1, 2]),
        (wide(3), Walkers::Own, vec![1]),
    ] {
        let (m, p) = busy(promises, walkers);
        assert_eq!(interrupted(&m, &p), expected, "{promises:?} {walkers:?}");
        // A flush that frees no table waits for no walker.
        m.flush(&p, Flush::page(0, PageSize::KIB_4));
        let flushed = if promises.broadcast == every(3).broadcast { vec![] } else { vec![1] };
        assert_eq!(m.interrupted(), flushed, "{promises:?} {walkers:?}");
    }
}

/// A hypervisor flushes for a virtual CPU that does not run. That CPU may have been stopped in the middle of a walk.
#[test]
fn a_cpu_for_which_the_platform_flushed_may_be_in_a_walk() {
    for (walkers, expected) in [(Walkers::Locked, vec![]), (Walkers::Own, vec![1])] {
        let (m, p) = busy(PROMISES, walkers);
        assert_eq!(interrupted(&m.flushing_for([1]), &p), expected, "{walkers:?}");
    }
}

#[test]
fn the_platform_waits_for_walkers_where_it_says_so() {
    for promises in [PROMISES, every(3), wide(3)] {
        let (m, p) = busy(promises, Walkers::Awaited);
        m.flush(&p, Flush::page(0, PageSize::KIB_4));
        assert_eq!(m.awaited(), 0);
        m.flush(&p, Flush::ALL);
        assert_eq!(m.awaited(), 1);
        m.flush_kernel(Flush::ALL);
        assert_eq!(m.awaited(), 2);
    }
}

#[test]
fn a_table_of_the_kernels_ranges_waits_for_walkers_too() {
    for (promises, walkers, expected) in [
        (PROMISES, Walkers::Any, vec![1, 2]),
        (every(3), Walkers::Any, vec![1, 2]),
        (every(3), Walkers::Own, vec![]),
        (every(3), Walkers::Locked, vec![]),
    ] {
        let (m, _) = busy(promises, walkers);
        let seen = Cell::new(Vec::new());
        let mut room = room::<_, 1>();
        let mut gather: KernelGather<'_, _, u64, _> =
            KernelGather::new(&*m, &mut room, |_| seen.set(m.interrupted()));
        gather.unlink(0, PageSize::KIB_4, || Some(1));
        gather.finish();
        assert_eq!(seen.take(), expected, "{promises:?} {walkers:?}");
    }
}

#[test]
#[cfg(ceasefire_sabotage)]
fn without_the_wait_for_walkers_a_table_is_freed_under_one() {
    let (m, p) = busy(every(3), Walkers::Own);
    m.remove_guard(ceasefire::sabotage::Guard::Walkers);
    assert_eq!(interrupted(&m, &p), [], "R2: CPU 1 may be in a walk");
}

/// A kernel thread may walk the tables of a program without running it.
#[test]
fn a_cpu_on_the_kernels_own_tables_may_walk_where_any_cpu_may() {
    let (m, p) = busy(every(3), Walkers::Any);
    drop(m.on(2, ceasefire::Engine::unload));
    m.events();
    assert_eq!(interrupted(&m, &p), [1, 2]);
}

/// Its published state does not say yet which space it runs.
#[test]
fn a_cpu_that_switches_may_walk() {
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        let (m, p) = busy(every(3), Walkers::Own);
        let space = p.clone();
        m.at(point, move |m| {
            // The flush is released before CPU 2 has answered.
            m.on(0, |engine| engine.flush(&space, Flush::ALL));
            assert_eq!(m.interrupted(), [1, 2], "{point:?}");
        });
        m.switch(2, &p);
        m.deliver_all();
    }
}

/// The look after a flush may begin a transition. What the flush has interrupted was decided before.
#[test]
fn a_transition_that_begins_after_a_flush_makes_no_cpu_meet_twice() {
    let (m, p) = busy(wide(3), Walkers::Own);
    m.switch(2, &p);
    for expected in [vec![1, 2], vec![1, 2, 1, 2], vec![1, 2]] {
        m.events();
        assert_eq!(interrupted(&m, &p), expected);
    }
}
