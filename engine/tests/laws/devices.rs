//! Devices that walk a space's tables: they are told of every flush of CPUs, and of nothing else.

use ceasefire::{Flush, Gather, PageSize, Schedule, MAX_ASIDS};

use crate::hands::{batch, was, Hands};
use crate::script::{broadcasting, machine, Event, Machine, Space};

const PAGE: u64 = 0x1000;

/// The invalidations that devices were told since the last look.
fn told(m: &Machine) -> Vec<Flush> {
    let told = |event| if let Event::Devices { flush, .. } = event { Some(flush) } else { None };
    m.events().into_iter().filter_map(told).collect()
}

/// A space that runs on CPU 1 and that a device walks. It is tested on a machine with interrupts and, if the engine was
/// built for ASIDs, on one that broadcasts.
fn walked() -> Vec<(Machine, Space)> {
    let broadcasts = (MAX_ASIDS > 0).then(|| broadcasting(2, 256));
    let walked = [machine(2)].into_iter().chain(broadcasts).map(|m| {
        let p = m.space(1);
        m.switch(1, &p);
        p.attach_device();
        m.events();
        (m, p)
    });
    walked.collect()
}

#[test]
fn a_flush_tells_devices_the_range_that_was_asked_for() {
    for (m, p) in walked() {
        let flush = Flush::range(0, 1000 * PAGE, PageSize::KIB_4);
        m.flush(&p, flush);
        assert_eq!(told(&m), [flush], "too long for CPUs, which flushed everything");
    }
}

#[test]
fn devices_are_told_after_the_cpus_are_done() {
    for (m, p) in walked() {
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert!(matches!(m.events().last(), Some(Event::Devices { .. })));
    }
}

#[test]
fn a_space_that_runs_nowhere_still_has_its_device() {
    let m = machine(1);
    let p = m.space(1);
    p.attach_device();
    m.device_fill(&p, PAGE, 1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.device_cached(&p, PAGE), None);
}

#[test]
fn a_space_without_devices_tells_none() {
    for (m, p) in walked() {
        p.attach_device();
        p.detach_device();
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(told(&m).len(), 1, "one is left");
        p.detach_device();
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        Gather::<'_, _, u64, _>::new(&m, &p, &mut [], |_| ()).finish();
        assert_eq!(told(&m), []);
    }
}

#[test]
fn a_batch_tells_devices_of_each_translation_at_once() {
    for (m, p) in walked() {
        for schedule in [Schedule::Batched, Schedule::PerPage] {
            let mut batch = batch(&m, schedule);
            m.device_fill(&p, PAGE, 1);
            batch.unmap(&p, was(PAGE, false), 0);
            assert_eq!(m.device_cached(&p, PAGE), None);
            batch.restrict(&p, was(2 * PAGE, false), 0);
            assert_eq!(
                told(&m),
                [Flush::page(PAGE, PageSize::KIB_4), Flush::page(2 * PAGE, PageSize::KIB_4)]
            );
            batch.flush();
            assert_eq!(told(&m), [], "the debts that are left are the CPUs'");
        }
    }
}

#[test]
fn settling_tells_devices_too() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    p.attach_device();
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    m.events();
    drop(m.settled(&p));
    assert_eq!(told(&m), [Flush { tables: false, ..Flush::ALL }]);
}
