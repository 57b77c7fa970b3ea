//! The kernel's own code that walks page tables without a lock: a table is released only after each CPU that may walk
//! has taken an interrupt, or the platform has waited.

use std::cell::Cell;

use ceasefire::{Capabilities, Flush, Gather, KernelGather, PageSize, Walkers};

use crate::hands::room;
use crate::script::{every, machine_with, wide, Machine, Space, PROMISES};

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
