//! Broadcasts: no CPU is interrupted, every CPU is reached, and a wait covers only the broadcasts that the same CPU
//! started.

use std::cell::Cell;

use ceasefire::{
    Asid, Batch, Capabilities, Errata, Extent, Flush, PageSize, Payment, Reason, Schedule,
    SINGLE_PAGE_CEILING,
};

use crate::hands::{batch, release_in_debt, was, Hands};
use crate::script::{
    broadcasting, every, id, lazy_with, machine_with, wide, Event, Machine, Point, Space, PROMISES,
};

const PAGE: u64 = 0x1000;

/// A space that CPU 1 runs, with `pages` pages cached there.
fn busy(asids: u32, pages: u64) -> (Machine, Space) {
    let m = broadcasting(3, asids);
    let p = m.space(1);
    m.switch(1, &p);
    for page in 1..=pages {
        m.fill(1, page * PAGE, 1);
    }
    m.events();
    (m, p)
}

/// The roots loaded since the last look: for each, whether the load flushed.
fn loads(m: &Machine) -> Vec<bool> {
    let flush = |event| if let Event::Load { flush, .. } = event { Some(flush) } else { None };
    m.events().into_iter().filter_map(flush).collect()
}

#[test]
fn a_flush_reaches_every_cpu_without_asking_any() {
    let (m, p) = busy(256, 2);
    let q = m.space(2);
    m.switch(2, &p);
    m.fill(2, PAGE, 1);
    m.switch(2, &q);
    m.lazy(1);
    m.events();
    let reached = m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(reached, p.generation());
    let asid = p.asid().unwrap().get();
    let extent = Extent::Pages { start: PAGE, count: 1, size: PageSize::KIB_4 };
    let events = m.events();
    assert_eq!(events[..2], [Event::Broadcast { cpu: 0, asid, extent }, Event::BroadcastWait { cpu: 0 }]);
    assert!(matches!(
        events[2..],
        [Event::Trace { cpu: 0, event }] if event.reason == Reason::Broadcast && event.pages == Some(1)
    ));
    m.switch(2, &p);
    assert_eq!(m.cached(2, PAGE), None, "elsewhere");
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None, "idle");
    assert!(m.cached(1, 2 * PAGE).is_some());
    assert_eq!(loads(&m), [false, false], "both came back, and neither flushed");
    let counters = m.counters((0..3).map(id));
    assert_eq!((counters.broadcasts, counters.flushes_page, counters.flushes_full), (1, 1, 0));
    assert_eq!((counters.interrupts, counters.shootdowns, counters.flushes_free), (0, 0, 0));
}

#[test]
fn a_range_beyond_the_ceiling_is_one_broadcast_of_all() {
    let (m, p) = busy(256, 2);
    let end = u64::from(SINGLE_PAGE_CEILING + 1) * PAGE;
    m.flush(&p, Flush::range(0, end, PageSize::KIB_4));
    let asid = p.asid().unwrap().get();
    assert_eq!(m.events()[0], Event::Broadcast { cpu: 0, asid, extent: Extent::All });
    assert_eq!((m.usable(1), m.cpu(0).counters().flushes_full), (vec![], 1));
    m.flush(&p, Flush::range(PAGE, PAGE, PageSize::KIB_4));
    assert_eq!(m.events(), [], "nothing to do");
}

#[test]
fn the_last_page_of_all_is_flushed_like_any_other() {
    const LAST: u64 = u64::MAX - (PAGE - 1);
    let (m, p) = busy(256, 0);
    m.fill(1, LAST, 1);
    m.flush(&p, Flush::page(LAST, PageSize::KIB_4));
    assert_eq!(m.usable(1), []);
}

#[test]
fn spaces_have_tags_of_their_own_and_switches_do_not_flush() {
    let (m, p) = busy(256, 1);
    let q = m.space(2);
    assert_ne!(p.asid(), q.asid());
    m.switch(1, &q);
    assert_eq!(m.usable(1), []);
    m.switch(1, &p);
    assert!(m.cached(1, PAGE).is_some());
    assert_eq!(m.loaded_asid(), None);
    assert_eq!(m.on(1, ceasefire::Engine::loaded_asid), p.asid());
    assert_eq!(loads(&m), [false, false]);
}

#[test]
fn spaces_without_a_tag_of_their_own_share_one_and_flush_when_they_come() {
    let (m, p) = busy(2, 1);
    let (q, r) = (m.space(2), m.space(3));
    assert_eq!((q.asid(), r.asid()), (Some(Asid::SHARED), Some(Asid::SHARED)));
    m.switch(1, &q);
    m.fill(1, PAGE, 2);
    m.switch(1, &r);
    assert_eq!(m.usable(1), []);
    m.fill(1, PAGE, 3);
    m.switch(1, &p);
    m.switch(1, &r);
    m.fill(1, PAGE, 3);
    assert_eq!(loads(&m), [true, true, false, true]);
    m.flush(&r, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.cached(1, PAGE), None, "a broadcast reaches the shared ASID");
    assert_eq!(m.retire(&q), Ok(()));
    assert_eq!(m.space(4).asid(), Some(Asid::SHARED), "no space can give the shared one back");
}

#[test]
fn without_tags_all_spaces_share() {
    let m = machine_with(1, Capabilities { asids: false, ..every(256) });
    assert_eq!(m.space(1).asid(), Some(Asid::SHARED));
}

#[test]
fn a_tag_given_back_is_used_again_only_after_everything_was_flushed_everywhere() {
    let (m, p) = busy(3, 1);
    let (q, asid) = (m.space(2), p.asid());
    drop(m.on(1, ceasefire::Engine::unload));
    assert_eq!(m.retire(&p), Ok(()));
    assert_eq!(m.events().last(), Some(&Event::LoadKernel { cpu: 1 }));
    let r = m.space(3);
    assert_eq!(r.asid(), asid);
    assert_eq!(
        m.events()[..2],
        [Event::BroadcastEverything { cpu: 0 }, Event::BroadcastWait { cpu: 0 }],
        "none was left"
    );
    m.switch(1, &r);
    assert_eq!(m.usable(1), []);
    assert_ne!(q.asid(), r.asid());
    assert_eq!(m.cpu(0).counters().broadcasts, 1);
}

#[test]
fn an_asid_given_back_during_the_flush_waits_for_the_next() {
    let (m, p) = busy(3, 0);
    let q = m.space(2);
    let (first, second) = (p.asid(), q.asid());
    drop(m.on(1, ceasefire::Engine::unload));
    assert_eq!(m.retire(&p), Ok(()));
    m.switch(2, &q);
    let late = q.clone();
    m.at(Point::BroadcastWait, move |m| {
        m.fill(2, PAGE, 2);
        drop(m.on(2, ceasefire::Engine::unload));
        assert_eq!(m.retire(&late), Ok(()));
    });
    assert_eq!(m.space(3).asid(), first);
    m.events();
    let fresh = m.space(4);
    assert_eq!(fresh.asid(), second);
    assert_eq!(m.events()[0], Event::BroadcastEverything { cpu: 0 });
    m.switch(2, &fresh);
    assert_eq!(m.usable(2), []);
}

#[test]
fn a_batch_starts_each_flush_at_once_and_waits_for_all_at_the_end() {
    let (m, p) = busy(256, 3);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    batch.restrict(&p, was(2 * PAGE, false), 0);
    let asid = p.asid().unwrap().get();
    let started = |page: u64| Event::Broadcast {
        cpu: 0,
        asid,
        extent: Flush::page(page * PAGE, PageSize::KIB_4).extent,
    };
    assert_eq!(m.events(), [started(1), started(2)]);
    assert!(m.cached(1, PAGE).is_some() && m.owes(&p));
    batch.flush();
    assert_eq!(m.events()[0], Event::BroadcastWait { cpu: 0 });
    assert!(m.cached(1, PAGE).is_none() && m.cached(1, 2 * PAGE).is_none() && !m.owes(&p));
    assert!(m.cached(1, 3 * PAGE).is_some(), "nothing else went");
    batch.flush();
    assert_eq!(m.events(), []);
    let counters = m.counters((0..3).map(id));
    assert_eq!((counters.debts_created, counters.debts_by_broadcast, counters.broadcasts), (2, 2, 1));
    assert_eq!((counters.flushes_page, counters.shootdowns), (2, 0));
}

#[test]
fn per_page_waits_for_each() {
    let (m, p) = busy(256, 1);
    let mut batch = batch(&m, Schedule::PerPage);
    batch.unmap(&p, was(PAGE, false), 0);
    assert_eq!((m.cached(1, PAGE), m.owes(&p), m.cpu(0).counters().broadcasts), (None, false, 1));
}

#[test]
fn a_write_permit_waits_for_dirty_translations() {
    let (m, p) = busy(256, 2);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    let _permit = batch.permit(1);
    assert!(m.cached(1, PAGE).is_some());
    batch.restrict(&p, was(2 * PAGE, true), 0);
    let _permit = batch.permit(2);
    assert_eq!(m.usable(1), []);
}

/// Linux 4b634918384c: a wait on another CPU does not cover these broadcasts.
#[test]
fn settling_on_another_cpu_flushes_the_space_itself() {
    let (m, p) = busy(256, 1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    m.events();
    m.go(2);
    drop(m.settled(&p));
    let asid = p.asid().unwrap().get();
    assert_eq!(m.events()[0], Event::Broadcast { cpu: 2, asid, extent: Extent::All });
    assert!(m.cached(1, PAGE).is_none() && !m.owes(&p));
    m.go(0);
}

#[test]
fn a_flush_of_other_pages_does_not_claim_a_batchs_debt() {
    let (m, p) = busy(256, 2);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    m.go(2);
    m.flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    assert!(m.cached(1, PAGE).is_some() && m.owes(&p));
    drop(m.settled(&p));
    assert!(m.cached(1, PAGE).is_none() && !m.owes(&p));
    m.go(0);
}

#[test]
fn a_newer_batch_does_not_claim_the_debt_of_an_older_one() {
    let (m, p) = busy(256, 3);
    let (mut first, mut second) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
    first.unmap(&p, was(PAGE, false), 0);
    m.go(2);
    second.unmap(&p, was(2 * PAGE, false), 0);
    second.flush();
    assert!(m.cached(1, PAGE).is_some() && m.owes(&p), "the first has not waited yet");
    m.go(0);
    first.unmap(&p, was(3 * PAGE, false), 0);
    first.flush();
    assert!(m.cached(1, PAGE).is_none() && !m.owes(&p));
}

#[test]
fn a_task_that_moves_takes_no_broadcast_along() {
    let (m, p) = busy(256, 2);
    let seen = Cell::new(false);
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(&m, Schedule::Batched, |page| seen.set(m.cached(1, page.get() * PAGE).is_some()));
    batch.unmap(&p, was(PAGE, false), 1);
    m.move_task(0, 2);
    batch.flush();
    assert!(!seen.get());
}

/// The broadcasts and the local invalidations since the last look.
fn sent(m: &Machine) -> (usize, usize) {
    let events = m.events();
    let count = |matching: fn(&Event) -> bool| events.iter().filter(|event| matching(event)).count();
    (
        count(|event| matches!(event, Event::Broadcast { .. } | Event::BroadcastEverything { .. })),
        count(|event| matches!(event, Event::Pages { .. } | Event::Asid { .. })),
    )
}

#[test]
fn a_space_that_ran_on_one_cpu_is_invalidated_there_without_a_broadcast() {
    let m = broadcasting(3, 256);
    let p = m.space(1);
    m.flush(&p, Flush::ALL);
    assert_eq!(sent(&m), (0, 0), "it never ran");
    m.switch(1, &p);
    for (flush, gone) in [(Flush::page(PAGE, PageSize::KIB_4), true), (Flush::ALL, true)] {
        m.fill(1, PAGE, 1);
        m.events();
        m.on(1, |engine| engine.flush(&p, flush));
        assert_eq!((sent(&m), m.cached(1, PAGE).is_none()), ((0, 1), gone));
    }
    // Also once the CPU runs something else: its entries stay behind.
    m.fill(1, PAGE, 1);
    drop(m.on(1, ceasefire::Engine::unload));
    m.events();
    m.on(1, |engine| engine.flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
    assert_eq!(sent(&m), (0, 1));
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None);
    // Another CPU cannot reach CPU 1 otherwise.
    m.fill(1, PAGE, 1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((sent(&m).0, m.cached(1, PAGE)), (1, None));
    let counters = m.counters((0..3).map(id));
    assert_eq!((counters.broadcasts, counters.flushes_page, counters.flushes_full), (1, 3, 1));
}

/// The second CPU takes the space up in the middle of a flush of the first. Either it is reached, or it reads the new
/// tables.
#[test]
fn a_second_cpu_ends_the_flushes_without_broadcasts_in_time() {
    for point in [Point::BeforeRoot, Point::AfterRoot] {
        let m = broadcasting(3, 256);
        let p = m.space(1);
        m.switch(1, &p);
        m.events();
        let flushed = p.clone();
        // CPU 2 has noted itself. A flush from here on is broadcast, whether the root is loaded yet or not.
        m.at(point, move |m| {
            m.on(1, |engine| engine.flush(&flushed, Flush::page(PAGE, PageSize::KIB_4)));
            assert_eq!(sent(m).0, 1, "{point:?}");
        });
        m.switch(2, &p);
        m.fill(2, 2 * PAGE, 1);
        m.on(1, |engine| engine.flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4)));
        assert_eq!(m.cached(2, 2 * PAGE), None);
        // It has left, and its entries are still there.
        m.fill(2, PAGE, 1);
        drop(m.on(2, ceasefire::Engine::unload));
        m.on(1, |engine| engine.flush(&p, Flush::page(PAGE, PageSize::KIB_4)));
        m.switch(2, &p);
        assert_eq!(m.cached(2, PAGE), None);
    }
}

/// On its own CPU a batch gains nothing from waiting.
#[test]
fn a_batch_invalidates_a_space_of_one_cpu_without_a_broadcast() {
    let m = broadcasting(2, 256);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.events();
    m.go(1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 1);
    assert_eq!((sent(&m), m.cached(1, PAGE), m.owes(&p)), ((0, 1), None, false));
    drop(batch);
    assert_eq!(m.cpu(1).counters().broadcasts, 0);
}

/// A device may listen to broadcasts instead of being told.
#[test]
fn a_device_gets_broadcasts_even_if_one_cpu_runs_the_space() {
    let m = broadcasting(2, 256);
    let p = m.space(1);
    m.switch(0, &p);
    p.attach_device();
    m.events();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(sent(&m), (1, 0));
    p.detach_device();
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(sent(&m), (0, 1));
}

/// A machine that broadcasts for every space and has faults. CPU 1 runs a space and has two pages of it cached.
fn faulty(errata: Errata) -> (Machine, Space) {
    let broadcast = every(3).broadcast.map(|broadcast| broadcast.with_errata(errata));
    let m = machine_with(3, Capabilities { broadcast, ..PROMISES });
    let p = m.space(1);
    // The flushes of a space that one CPU alone has run are its own.
    for cpu in [0, 1] {
        m.switch(cpu, &p);
        m.fill(cpu, PAGE, 1);
        m.fill(cpu, 2 * PAGE, 1);
    }
    m.events();
    (m, p)
}

/// The pages that CPU 1 uses after a flush of one page, and after a batch of the other.
fn used(m: &Machine, p: &Space) -> [bool; 2] {
    m.flush(p, Flush::page(PAGE, PageSize::KIB_4));
    let mut batch = batch(m, Schedule::Batched);
    batch.unmap(p, was(2 * PAGE, false), 1);
    drop(batch);
    [1, 2].map(|page| m.cached(1, page * PAGE).is_some())
}

#[test]
fn faults_of_processors_that_broadcast_are_worked_around() {
    for at in 0..4 {
        let errata = Errata { repeated: at & 1 != 0, everyone: at & 2 != 0 };
        let (m, p) = faulty(errata);
        assert_eq!(used(&m, &p), [false; 2], "{errata:?}");
        let waits = |event: &Event| matches!(event, Event::BroadcastWait { cpu: 0 });
        let waited = m.events().iter().filter(|event| waits(event)).count();
        assert_eq!(waited, if errata.repeated { 4 } else { 2 }, "{errata:?}");
        m.fill(1, PAGE, 1);
        m.flush(&p, Flush::ALL);
        assert_eq!(m.usable(1), [], "{errata:?}");
        m.fill_kernel(1, PAGE, 1);
        m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(m.kernel_cached(1, PAGE), None, "{errata:?}");
    }
}

/// The stores of a lazy CPU, and of one that has left its space, may land late.
#[test]
fn a_cpu_that_runs_no_program_waits_for_broadcasts_itself_too() {
    let errata = Errata { repeated: false, everyone: true };
    let broadcast = wide(1).broadcast.map(|broadcast| broadcast.with_errata(errata));
    let m = machine_with(4, Capabilities { broadcast, ..PROMISES });
    let (p, q) = (m.space(1), m.space(2));
    for cpu in [0, 1] {
        m.switch(cpu, &p);
    }
    m.switch(2, &q);
    m.lazy(2);
    m.on(3, ceasefire::Engine::online);
    for _ in 0..3 {
        m.events();
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    }
    assert!(p.asid().is_some());
    assert_eq!(m.interrupted(), [1, 2, 3]);
}

/// A tick runs with interrupts off, in the middle of code that may hold any lock. So it does not wait for other CPUs.
#[test]
fn a_tick_makes_no_broadcast_that_every_cpu_must_wait_for() {
    for everyone in [false, true] {
        let broadcast =
            every(3).broadcast.map(|broadcast| broadcast.with_errata(Errata { repeated: false, everyone }));
        let m = lazy_with(3, Capabilities { broadcast, ..PROMISES }, Payment::Free);
        let p = m.space(1);
        for cpu in [0, 1] {
            m.switch(cpu, &p);
            m.fill(cpu, PAGE, 1);
        }
        let stamp = release_in_debt(&m, &p, PAGE);
        assert!(!m.is_settled(stamp));
        let mut overdue = false;
        for _ in 0..6 {
            m.pass(200);
            for cpu in 0..3 {
                overdue |= m.tick(cpu);
            }
        }
        assert_eq!((m.is_settled(stamp), overdue), (!everyone, everyone));
        m.pay_overdue();
        assert!(m.is_settled(stamp) && m.cached(1, PAGE).is_none());
    }
}

#[test]
#[cfg(ceasefire_sabotage)]
fn without_the_repetition_a_wait_ends_before_entries_are_gone() {
    let (m, p) = faulty(Errata { repeated: true, everyone: false });
    m.remove_guard(ceasefire::sabotage::Guard::Repeated);
    // The second wait ends the first flush, and the second batch is under way.
    assert_eq!(used(&m, &p), [false, true], "R1");
}

#[test]
#[cfg(ceasefire_sabotage)]
fn without_its_own_wait_a_cpu_uses_an_entry_after_a_broadcast() {
    let (m, p) = faulty(Errata { repeated: false, everyone: true });
    m.remove_guard(ceasefire::sabotage::Guard::Everyone);
    assert_eq!(used(&m, &p), [true; 2], "R1");
}
