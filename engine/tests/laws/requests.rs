//! The answer of a CPU to a request, and the extent of requests.

use ceasefire::{Entry, Extent, Flush, Gather, PageSize, Reason};

use crate::hands::{room, unmap, Was};
use crate::script::{machine, machine_with_ceiling, Event, Machine, Point};

const PAGE: u64 = 0x1000;

/// The invalidations of `cpu` since the last look.
fn invalidated(m: &Machine, cpu: usize) -> Vec<Option<u32>> {
    let work = |event| match event {
        Event::Pages { cpu: at, count, .. } if at == cpu => Some(Some(count)),
        Event::Asid { cpu: at } if at == cpu => Some(None),
        _ => None,
    };
    m.events().into_iter().filter_map(work).collect()
}

#[test]
fn one_behind_and_the_newest_invalidates_the_pages_alone() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.events();
    m.flush(&p, Flush::range(PAGE, 4 * PAGE, PageSize::KIB_4));
    assert_eq!(invalidated(&m, 1), [Some(3)]);
    let counters = m.cpu(1).counters();
    assert_eq!(
        (counters.interrupts, counters.requests, counters.flushes_page, counters.flushes_full),
        (1, 1, 3, 1)
    );
    assert_eq!(m.cpu(0).counters().shootdowns, 1);
}

/// Flushes by CPUs `first` and `second`, both requested before CPU 1 answers either.
fn two_at_once(m: &Machine, first: usize, second: usize) {
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.fill(1, 2 * PAGE, 1);
    m.fill(1, 3 * PAGE, 1);
    m.events();
    let again = p.clone();
    m.at(Point::Wait, move |m| {
        m.on(second, |engine| engine.flush(&again, Flush::page(2 * PAGE, PageSize::KIB_4)));
        assert_eq!(m.cached(1, PAGE), None, "the later request caught up with the earlier one");
    });
    m.on(first, |engine| engine.flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
    assert_eq!((m.cached(1, PAGE), m.cached(1, 2 * PAGE)), (None, None));
}

#[test]
fn two_requests_share_one_interrupt_and_one_flush() {
    let m = machine(4);
    two_at_once(&m, 0, 2);
    let events = m.events();
    let interrupts = events.iter().filter(|event| matches!(event, Event::Interrupt { .. })).count();
    let flushes: Vec<_> =
        events.iter().filter(|event| matches!(event, Event::Asid { .. } | Event::Pages { .. })).collect();
    assert_eq!(interrupts, 1);
    assert_eq!(flushes, [&Event::Asid { cpu: 1 }], "all at once, and the second request found nothing to do");
    let counters = m.cpu(1).counters();
    assert_eq!((counters.interrupts, counters.requests), (1, 2));
}

/// tlb-bugs E7: the newest request is answered first, while the previous one is still in the inbox.
#[test]
fn a_page_flush_never_skips_a_generation() {
    let m = machine(4);
    // Inboxes are emptied in the order of senders, so CPU 0 is answered first although it sent last.
    two_at_once(&m, 2, 0);
    assert_eq!(invalidated(&m, 1), [None]);
    assert_eq!(m.cached(1, 3 * PAGE), None, "everything went");
}

#[test]
fn after_the_answer_the_next_request_interrupts_again() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), [1, 1]);
}

#[test]
fn a_cpu_that_has_left_the_space_does_nothing() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let next = q.clone();
    m.at(Point::Wait, move |m| {
        m.switch(1, &next);
        m.fill(1, PAGE, 2);
        m.events();
    });
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.traced(), [(1, Reason::RemoteWrongCpu, Some(0))]);
    assert!(m.cached(1, PAGE).is_some(), "the other space's entry stays");
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None, "its own goes when it comes back");
}

#[test]
fn a_cpu_that_runs_another_space_is_not_asked() {
    let m = machine(3);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.switch(2, &q);
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), [1]);
}

#[test]
fn the_flushers_own_part_is_done_between_sending_and_waiting() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(0, &p);
    m.switch(1, &p);
    m.fill(0, PAGE, 1);
    m.events();
    m.at(Point::Wait, |m| assert_eq!(m.cached(0, PAGE), None));
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(
        m.traced(),
        [
            (0, Reason::RemoteSend, Some(1)),
            (0, Reason::LocalSpaceShootdown, Some(1)),
            (1, Reason::RemoteShootdown, Some(1)),
        ]
    );
}

#[test]
fn a_space_that_runs_here_alone_sends_nothing() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.cached(0, PAGE), None);
    assert_eq!(m.traced(), [(0, Reason::LocalSpaceShootdown, Some(1))]);
    assert_eq!(m.cpu(0).counters().shootdowns, 0);
}

#[test]
fn a_space_that_runs_nowhere_only_moves_its_generation() {
    let m = machine(2);
    let p = m.space(1);
    let before = p.generation();
    let reached = m.flush(&p, Flush::ALL);
    assert!(p.generation() > before && reached == p.generation());
    assert_eq!(m.events(), []);
}

#[test]
fn thirty_three_translations_go_one_by_one_and_thirty_four_at_once() {
    for size in [PageSize::KIB_4, PageSize::MIB_2] {
        for (count, expected) in [(33, Some(33)), (34, None)] {
            let m = machine(1);
            let p = m.space(1);
            m.switch(0, &p);
            m.events();
            m.flush(&p, Flush::range(0, count * size.bytes(), size));
            assert_eq!(invalidated(&m, 0), [expected], "{count} of {size:?}");
        }
    }
}

#[test]
fn a_request_for_huge_translations_keeps_its_stride() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.events();
    let bytes = PageSize::MIB_2.bytes();
    m.flush(&p, Flush::range(bytes, 3 * bytes, PageSize::MIB_2));
    assert!(m.events().contains(&Event::Pages { cpu: 1, start: bytes, count: 2, size: PageSize::MIB_2 }));
}

#[test]
fn a_range_covers_every_translation_that_it_touches() {
    let covered = |start, end| match Flush::range(start, end, PageSize::KIB_4).extent {
        Extent::Pages { start, count, .. } => (start, count),
        Extent::All => panic!("a short range"),
    };
    assert_eq!(covered(PAGE, 2 * PAGE), (PAGE, 1));
    assert_eq!(covered(PAGE - 1, PAGE + 1), (0, 2), "two bytes in two pages");
    assert_eq!(covered(PAGE + 1, 2 * PAGE), (PAGE, 1));
    assert_eq!(covered(PAGE, PAGE), (PAGE, 0), "an empty range");
}

#[test]
fn a_ceiling_of_zero_always_flushes_everything() {
    let m = machine_with_ceiling(1, 0);
    let p = m.space(1);
    m.switch(0, &p);
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(invalidated(&m, 0), [None]);
}

#[test]
fn the_machines_counters_are_the_sum_of_its_cpus() {
    let m = machine(3);
    let p = m.space(1);
    m.switch(1, &p);
    m.switch(2, &p);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let sum = m.counters((0..3).map(crate::script::id));
    assert_eq!((sum.interrupts, sum.shootdowns, sum.flushes_page, sum.flushes_full), (2, 1, 2, 2));
}

/// A CPU that is asked does what the flush says, and no more: its walker keeps its entries unless tables are freed.
#[test]
fn a_request_says_whether_tables_are_freed() {
    let m = machine(2);
    let p = m.space(1);
    for cpu in 0..2 {
        m.switch(cpu, &p);
    }
    for tables in [false, true] {
        for cpu in 0..2 {
            m.fill(cpu, PAGE, 1);
        }
        m.flush(&p, Flush { tables, ..Flush::page(PAGE, PageSize::KIB_4) });
        for cpu in 0..2 {
            assert_eq!(m.cached(cpu, PAGE), None);
            assert_eq!(m.walked(cpu, m.cpu(cpu).loaded_asid(), PAGE), !tables, "CPU {cpu}");
        }
    }
}

/// A CPU that missed a flush makes up for it with everything, walk caches included.
#[test]
fn a_cpu_that_is_behind_forgets_tables_too() {
    let m = machine(3);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    // A flush without tables reaches CPU 1 before the one that frees them, which was requested before.
    let between = p.clone();
    m.at(Point::Send, move |m| {
        m.on(2, |engine| engine.flush(&between, Flush::page(9 * PAGE, PageSize::KIB_4)));
        assert!(!m.walked(1, m.cpu(1).loaded_asid(), PAGE));
    });
    m.flush(&p, Flush { tables: true, ..Flush::page(PAGE, PageSize::KIB_4) });
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_request_carries_every_size() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    for size in [PageSize::KIB_16, PageSize::KIB_64, PageSize::MIB_32, PageSize::MIB_512, PageSize::GIB_1] {
        m.events();
        let mut room = room::<u64, 4>();
        let mut gather = Gather::new(&m, &p, &mut room, drop::<u64>);
        for page in [4, 6] {
            unmap(
                &mut gather,
                m.settled(&p),
                Was { address: page << size.shift(), size, entry: Entry::DIRTY },
                None,
            );
        }
        gather.finish();
        let pages: Vec<_> =
            m.events().into_iter().filter(|event| matches!(event, Event::Pages { .. })).collect();
        let one = |page: u64| Event::Pages { cpu: 1, start: page << size.shift(), count: 1, size };
        assert_eq!(pages, [one(4), one(6)], "{size:?}");
    }
}

#[test]
fn a_cpu_that_flushes_a_space_which_it_has_left_does_nothing_itself() {
    let m = machine(2);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.switch(0, &p);
    m.switch(0, &q);
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let here = |&(cpu, reason, _): &(usize, Reason, Option<u32>)| cpu == 0 && reason != Reason::RemoteSend;
    assert_eq!(m.traced().iter().filter(|traced| here(traced)).count(), 0);
}

#[test]
fn a_cpu_that_a_later_flush_has_brought_up_to_date_says_nothing_of_the_earlier_one() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.switch(0, &p);
    m.events();
    let space = p.clone();
    m.at(Point::Send, move |m| {
        m.flush(&space, Flush::page(2 * PAGE, PageSize::KIB_4));
    });
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let own = |&&(cpu, reason, _): &&(usize, Reason, Option<u32>)| {
        cpu == 0 && reason == Reason::LocalSpaceShootdown
    };
    assert_eq!(m.traced().iter().filter(own).count(), 1, "one of the two found nothing left to do");
}
