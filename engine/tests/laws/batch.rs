//! Deferred unmaps: the debts that may wait, the debts that may not, and the state in between.

use std::cell::RefCell;

use ceasefire::{
    Access, Batch, Capabilities, Entry, Flush, Gather, Owed, PageSize, Reason, Schedule, Stamp, WritePermit,
};

use crate::hands::{batch, room, small, unmap, was, Hands, SpaceLock, TableLock};
use crate::script::{
    broadcasting, hybrid, lazy, lazy_broadcasting, machine, machine_with, Event, Machine, Script, Space,
    PROMISES,
};

const PAGE: u64 = 0x1000;

/// A machine whose CPU 1 runs a space and has `pages` pages of it cached.
pub(crate) fn busy(cpus: usize, pages: u64) -> (Machine, Space) {
    let m = machine(cpus);
    let p = m.space(1);
    m.switch(1, &p);
    for page in 1..=pages {
        m.fill(1, page * PAGE, 1);
    }
    m.events();
    (m, p)
}

/// A space that CPUs 0 and 1 run. CPU 0 goes on.
fn run_by_both(m: &Machine) -> Space {
    let p = m.space(1);
    m.switch(1, &p);
    m.switch(0, &p);
    m.go(0);
    p
}

#[test]
fn a_batch_counts_the_pages_that_it_holds() {
    let (m, p) = busy(2, 3);
    let mut batch = batch(&m, Schedule::Batched);
    assert!(batch.is_empty());
    for page in 1..=3 {
        batch.unmap(&p, was(page * PAGE, false), page);
    }
    let mut unmapping = batch.take(4);
    let change = |page: &mut u64| {
        *page += 1;
        *page
    };
    assert_eq!(unmapping.update(change), Some(5));
    unmapping.withhold();
    assert!(batch.len() == 4 && !batch.is_empty(), "three wait, and one is withheld");
    assert_eq!(batch.write_permit().map(WritePermit::into_page), Some(5));
    batch.flush();
    assert!(batch.is_empty());
    let m = lazy(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let mut batch = crate::hands::batch(&m, Schedule::Lazy);
    batch.unmap_and_release(&p, was(PAGE, false), 1);
    assert!(batch.len() == 1 && !batch.is_empty(), "it leaves at the end");
}

#[test]
fn once_a_batch_flushes_for_a_space_its_further_debts_wait_whichever_cpu_runs_it() {
    let (m, p) = busy(2, 1);
    m.switch(0, &p);
    m.fill(0, 2 * PAGE, 1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 1);
    m.on(1, |engine| drop(engine.unload()));
    m.go(0);
    batch.unmap(&p, was(2 * PAGE, false), 2);
    assert!(m.cached(0, 2 * PAGE).is_some(), "by itself this debt would have been paid at once");
    batch.flush();
    assert_eq!(m.cached(0, 2 * PAGE), None);
}

#[test]
fn a_broadcast_that_may_not_wait_starts_when_it_is_recorded() {
    let m = lazy_broadcasting(2, 4);
    let p = run_by_both(&m);
    let mut batch = batch(&m, Schedule::Lazy);
    for (dirty, starts) in [(false, 0), (true, 1)] {
        m.events();
        batch.unmap_and_release(&p, was(PAGE, dirty), 1);
        let started = m.events().iter().filter(|event| matches!(event, Event::Broadcast { .. })).count();
        assert_eq!(started, starts, "dirty: {dirty}");
    }
}

#[test]
fn waiting_for_its_broadcasts_a_batch_pays_for_no_debt_that_another_recorded() {
    let m = broadcasting(2, 4);
    let p = run_by_both(&m);
    let (mut ours, mut theirs) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
    ours.unmap(&p, was(PAGE, false), 1);
    theirs.unmap(&p, was(2 * PAGE, false), 2);
    ours.unmap(&p, was(3 * PAGE, false), 3);
    ours.flush();
    assert!(m.owes(&p), "the other's broadcast may still be under way");
    theirs.flush();
    assert!(!m.owes(&p));
}

#[test]
fn interrupts_pay_for_the_debts_of_other_batches_too() {
    let (m, p) = busy(2, 2);
    let (mut theirs, mut ours) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
    theirs.unmap(&p, was(PAGE, false), 1);
    ours.unmap(&p, was(2 * PAGE, false), 2);
    ours.flush();
    assert!(!m.owes(&p) && m.usable(1).is_empty(), "CPU 1 is up to date with the space");
    drop((ours, theirs));
}

#[test]
fn a_space_whose_debts_are_paid_does_not_owe_for_another_of_its_batch() {
    let m = lazy(3);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.switch(2, &q);
    m.fill(2, PAGE, 1);
    m.go(0);
    let mut batch = batch(&m, Schedule::Lazy);
    batch.unmap_and_release(&p, was(PAGE, false), 1);
    batch.restrict(&q, was(PAGE, true), 2);
    drop(batch);
    assert!(m.owes(&p) && !m.owes(&q));
}

#[test]
fn a_broadcast_of_everything_pays_for_pages_that_could_have_been_owed() {
    let m = lazy_broadcasting(2, 4);
    let p = run_by_both(&m);
    let mut settled = Vec::new();
    let mut batch = Batch::<_, u64, _>::new(&m, Schedule::Lazy, |page: Owed<u64>| {
        settled.push(page.stamp() == Stamp::SETTLED);
    });
    batch.unmap_and_release(&p, was(PAGE, false), 1);
    batch.unmap(&p, was(2 * PAGE, false), 2);
    drop(batch);
    assert_eq!(settled, [true, true]);
    let counters = m.counters((0..2).map(crate::script::id));
    assert_eq!((counters.debts_created, counters.debts_by_broadcast, counters.broadcasts), (2, 2, 1));
}

#[test]
fn a_batch_that_only_lets_go_settles_nothing() {
    let m = lazy(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.go(0);
    m.pass(50);
    let mut batch = batch(&m, Schedule::Lazy);
    batch.unmap_and_release(&p, was(PAGE, false), 1);
    m.pass(50);
    batch.flush();
    let counters = m.counters((0..2).map(crate::script::id));
    assert_eq!((counters.debts_created, counters.debt_age_max_ns), (1, 0), "it is still owed");
}

#[test]
fn per_page_flushes_each_translation_at_once() {
    let (m, p) = busy(2, 3);
    let mut batch = batch(&m, Schedule::PerPage);
    for page in 1..=3 {
        batch.unmap(&p, was(page * PAGE, false), 0);
        assert_eq!(m.cached(1, page * PAGE), None);
        assert!(!m.owes(&p));
    }
    assert_eq!(m.interrupted(), [1, 1, 1]);
    drop(batch);
    assert_eq!(m.interrupted(), []);
}

#[test]
fn batched_flushes_once_for_many() {
    let (m, p) = busy(2, 3);
    let mut batch = batch(&m, Schedule::Batched);
    for page in 1..=3 {
        batch.unmap(&p, was(page * PAGE, false), 0);
    }
    assert_eq!(m.interrupted(), []);
    assert!(m.owes(&p));
    batch.flush();
    assert_eq!(m.usable(1), []);
    assert_eq!(m.interrupted(), [1]);
    assert!(!m.owes(&p));
    batch.flush();
    assert_eq!(m.interrupted(), [], "nothing is paid twice");
    let counters = m.counters((0..2).map(crate::script::id));
    assert_eq!((counters.debts_created, counters.debts_by_interrupt, counters.debts_by_local), (3, 3, 0));
    assert!(counters.debt_age_max_ns > 0);
}

#[test]
fn one_batch_covers_many_spaces_with_one_flush_each() {
    let m = machine(4);
    let spaces: Vec<Space> = (1..=3).map(|root| m.space(root)).collect();
    let mut batch = batch(&m, Schedule::Batched);
    for (index, space) in spaces.iter().enumerate() {
        m.switch(index + 1, space);
        m.fill(index + 1, PAGE, 1);
    }
    m.events();
    for space in &spaces {
        batch.unmap(space, was(PAGE, false), 0);
    }
    batch.flush();
    assert_eq!(m.interrupted(), [1, 2, 3]);
    for (index, space) in spaces.iter().enumerate() {
        assert!(m.cached(index + 1, PAGE).is_none() && !m.owes(space));
    }
}

#[test]
fn a_space_that_runs_here_alone_is_flushed_at_once() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    assert_eq!(m.cached(0, PAGE), None);
    assert!(!m.owes(&p));
}

#[test]
fn the_recording_cpus_own_entries_go_with_the_batch() {
    let (m, p) = busy(2, 1);
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    m.events();
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    batch.flush();
    assert_eq!((m.cached(0, PAGE), m.cached(1, PAGE)), (None, None));
    assert_eq!(
        m.traced(),
        [
            (0, Reason::RemoteSend, None),
            (0, Reason::LocalShootdown, None),
            (1, Reason::RemoteShootdown, None),
        ]
    );
}

#[test]
fn a_task_that_moved_after_recording_still_reaches_its_former_cpu() {
    let (m, p) = busy(3, 1);
    m.switch(0, &p);
    m.fill(0, PAGE, 1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    m.go(2);
    batch.flush();
    assert_eq!((m.cached(0, PAGE), m.cached(1, PAGE)), (None, None));
}

#[test]
fn nothing_is_deferred_without_the_promise_that_clean_stores_walk() {
    let m = machine_with(2, Capabilities { clean_stores_walk: false, ..PROMISES });
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    assert_eq!(m.cached(1, PAGE), None);
    assert!(!m.owes(&p));
}

#[test]
fn an_entry_that_no_tlb_can_hold_is_no_debt() {
    let (m, p) = busy(2, 0);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, small(PAGE, Entry::NONE), 1);
    assert!(!m.owes(&p));
    batch.flush();
    assert_eq!(m.events(), []);
}

#[test]
fn held_pages_come_out_only_after_the_flush() {
    let (m, p) = busy(2, 5);
    let out = RefCell::new(Vec::new());
    let mut batch: Batch<'_, _, u64, _, 2> = Batch::new(&m, Schedule::Batched, |page| {
        let page = m.redeem(page).expect("flushed");
        assert_eq!(m.cached(1, page * PAGE), None);
        out.borrow_mut().push(page);
    });
    for page in 1..=2 {
        batch.unmap(&p, was(page * PAGE, false), page);
    }
    assert!(out.borrow().is_empty() && batch.len() == 2);
    batch.unmap(&p, was(3 * PAGE, false), 3);
    assert_eq!(*out.borrow(), [1, 2], "no room: it settles first");
    batch.flush();
    assert!(batch.is_empty());
    batch.unmap(&p, was(4 * PAGE, false), 4);
    drop(batch);
    assert_eq!(*out.borrow(), [1, 2, 3, 4], "dropping it settles it");
}

#[test]
fn a_write_permit_flushes_exactly_when_a_dirty_translation_was_recorded() {
    let (m, p) = busy(2, 2);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    let first = batch.permit(1);
    assert_eq!(m.interrupted(), [], "stores through clean entries walk");
    assert_eq!((*first.page(), first.into_page()), (1, 1));
    batch.unmap(&p, was(2 * PAGE, true), 0);
    let _permit = batch.permit(2);
    assert_eq!(m.interrupted(), [1]);
    assert_eq!(m.usable(1), []);
    let _permit = batch.permit(3);
    assert_eq!(m.interrupted(), [], "paid");
}

#[test]
fn any_later_strict_flush_pays_what_a_batch_owes() {
    let (m, p) = busy(2, 2);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    m.flush(&p, Flush::page(2 * PAGE, PageSize::KIB_4));
    assert!(!m.owes(&p));
    assert_eq!(m.cached(1, PAGE), None, "two behind: everything");
    m.events();
    drop(m.settled(&p));
    assert_eq!(m.events(), []);
}

#[test]
fn settle_flushes_exactly_when_something_is_owed() {
    let (m, p) = busy(2, 1);
    drop(m.settled(&p));
    assert_eq!(m.events(), []);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    drop(m.settled(&p));
    assert_eq!(m.cached(1, PAGE), None);
    assert!(!m.owes(&p));
    assert_eq!(m.interrupted(), [1]);
    drop(m.settled(&p));
    assert_eq!(m.events(), []);
}

#[test]
fn the_debt_of_another_batch_is_not_forgiven_by_an_older_one() {
    let (m, p) = busy(2, 2);
    let (mut first, mut second) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
    first.unmap(&p, was(PAGE, false), 0);
    second.unmap(&p, was(2 * PAGE, false), 0);
    first.flush();
    assert!(m.owes(&p), "the second recorded a newer generation");
    second.flush();
    assert!(!m.owes(&p));
}

#[test]
fn a_batch_pays_before_it_records_in_more_spaces_than_it_remembers() {
    let m = machine(2);
    let spaces: Vec<Space> = (1..=9).map(|root| m.space(root)).collect();
    let mut batch = batch(&m, Schedule::Batched);
    for space in &spaces {
        m.switch(1, space);
        m.fill(1, PAGE, 1);
        batch.unmap(space, was(PAGE, false), 0);
    }
    batch.flush();
    assert_eq!(m.cached(1, PAGE), None);
    for space in &spaces {
        m.switch(1, space);
        assert_eq!(m.cached(1, PAGE), None);
    }
    assert!(!spaces.iter().any(|space| m.owes(space)));
}

#[test]
fn a_lazy_cpu_catches_up_with_a_batch_by_itself() {
    let (m, p) = busy(2, 1);
    m.lazy(1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    batch.flush();
    assert_eq!(m.interrupted(), []);
    m.switch(1, &p);
    assert_eq!(m.cached(1, PAGE), None);
    let counters = m.counters((0..2).map(crate::script::id));
    assert_eq!((counters.debts_by_local, counters.flushes_free), (1, 1));
}

#[test]
fn a_cpu_that_joins_after_the_record_sees_the_new_generation() {
    let (m, p) = busy(3, 0);
    let q = m.space(2);
    m.switch(2, &p);
    m.fill(2, PAGE, 1);
    m.switch(2, &q);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    m.switch(2, &p);
    assert_eq!(m.cached(2, PAGE), None);
}

#[test]
fn a_narrowed_translation_waits_like_a_cleared_one() {
    let (m, p) = busy(2, 3);
    let mut batch = batch(&m, Schedule::Batched);
    batch.restrict(&p, was(PAGE, false), 0);
    batch.unmap(&p, was(2 * PAGE, false), 0);
    batch.restrict(&p, small(3 * PAGE, Entry { dirty: true, ..Entry::NONE }), 0);
    assert!(m.interrupted().is_empty() && m.owes(&p));
    let _permit = batch.permit(1);
    assert_eq!(m.interrupted(), [], "no TLB can hold a dirty entry");
    batch.restrict(&p, was(PAGE, true), 0);
    let _permit = batch.permit(1);
    assert_eq!((m.interrupted(), m.usable(1), m.owes(&p)), (vec![1], vec![], false));
    assert_eq!(m.counters((0..2).map(crate::script::id)).debts_created, 3);
}

#[test]
fn a_narrowing_per_page_is_paid_at_once() {
    let (m, p) = busy(2, 1);
    batch(&m, Schedule::PerPage).restrict(&p, was(PAGE, false), 0);
    assert_eq!((m.cached(1, PAGE), m.owes(&p)), (None, false));
}

/// Migration unmaps hundreds of pages at a time, with a batch on a kernel's stack.
#[test]
fn a_large_batch_is_as_large_as_its_pages() {
    type Frame = std::num::NonZeroU32;
    type Large<'m> = Batch<'m, Script, Frame, fn(Owed<Frame>), 512>;
    let empty = std::mem::size_of::<Batch<'_, Script, Frame, fn(Owed<Frame>), 0>>();
    assert!(empty <= 3600, "{empty} bytes beside its pages");
    assert!(std::mem::size_of::<Large<'_>>() <= empty + 512 * 4 + 8);
    let (m, p) = busy(2, 1);
    let out = std::cell::Cell::new(0);
    let mut batch: Batch<'_, _, Frame, _, 512> = Batch::new(&m, Schedule::Batched, |frame: Owed<Frame>| {
        out.set(out.get() + 1);
        assert_eq!(frame.get().get(), out.get(), "in order");
    });
    for number in 1..=600 {
        batch.unmap(&p, was(u64::from(number) * PAGE, false), Frame::new(number).unwrap());
        assert_eq!(batch.len(), (number as usize - 1) % 512 + 1);
    }
    assert_eq!(out.get(), 512);
    drop(batch);
    assert_eq!(out.get(), 600);
}

/// The permit concerns the entries that CPUs may hold, not the page table. Another batch that has not flushed may have
/// taken the right to store away.
#[test]
fn a_write_permit_considers_downgrades_of_other_batches() {
    let (m, p) = busy(2, 1);
    let (mut other, mut batch) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
    other.restrict(&p, was(PAGE, true), 0);
    let _permit = batch.unmap_to_write(&p, was(PAGE, false), 1);
    assert_eq!(m.cached(1, PAGE), None, "R5: CPU 1 could store through its old entry");
}

#[test]
fn a_write_permit_considers_downgrades_of_gathers() {
    let (m, p) = busy(2, 1);
    let (range, mut room) = (SpaceLock(p.clone()), room::<u64, 1>());
    let mut narrowing = Gather::keeping(&m, &range, &mut room, |_| ());
    narrowing.under(m.settled(&p)).narrow(PAGE, PageSize::KIB_4, |_| Entry::DIRTY);
    let mut batch = batch(&m, Schedule::Batched);
    let _permit = batch.unmap_to_write(&p, was(PAGE, false), 1);
    assert_eq!(m.cached(1, PAGE), None, "R5: CPU 1 could store through its old entry");
    drop((batch, narrowing));
}

#[test]
fn a_write_permit_considers_downgrades_in_every_space_of_its_page() {
    for last in [1, 2] {
        let m = machine(3);
        let spaces = [1, 2].map(|cpu| m.space(cpu));
        for (space, cpu) in spaces.iter().zip(1..) {
            m.switch(cpu, space);
            m.fill(cpu, PAGE, 1);
        }
        let (mut other, mut batch) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
        other.restrict(&spaces[0], was(PAGE, true), 0);
        let mut unmapping = batch.take(1);
        for space in [&spaces[2 - last], &spaces[last - 1]] {
            unmapping.clear(&TableLock(space.clone()), PAGE, PageSize::KIB_4, |_| Entry::READ_ONLY);
        }
        unmapping.withhold();
        let _permit = batch.write_permit();
        assert_eq!(m.cached(1, PAGE), None, "R5: CPU 1 could store through its old entry");
        drop((batch, other));
    }
}

#[test]
fn a_downgrade_ends_with_its_batch_also_where_no_cpu_is_left_to_reach() {
    let m = machine(3);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.switch(2, &q);
    m.events();
    let mut batch = batch(&m, Schedule::Batched);
    for (space, page) in [(&p, 1), (&q, 1), (&p, 2)] {
        batch.restrict(space, was(page * PAGE, true), page);
    }
    for cpu in [1, 2] {
        drop(m.on(cpu, ceasefire::Engine::unload));
    }
    batch.flush();
    assert!(![p, q].iter().any(|space| space.downgrade_in_flight()) && m.interrupted().is_empty());
}

/// CPUs may still use a page that another batch hid, until that batch has flushed.
#[test]
fn a_hidden_translation_is_a_debt_while_its_hiding_is_not_flushed() {
    let hidden = small(PAGE, Entry { access: Access::Hidden, ..Entry::NONE });
    let (m, p) = busy(2, 1);
    let mut hints = batch(&m, Schedule::Batched);
    hints.restrict(&p, was(PAGE, false), 0);
    let mut room = room::<_, 1>();
    let mut reclaim: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Lazy, |page: Owed<u64>| {
        assert!(m.redeem(page).is_err() || m.cached(1, PAGE).is_none(), "R1");
    });
    reclaim.unmap_and_release(&p, hidden, 1);
    assert!(m.cached(1, PAGE).is_some());
    drop(reclaim);
    let mut gather: Gather<'_, _, u64, _> =
        Gather::new(&m, &p, &mut room, |_| assert_eq!(m.cached(1, PAGE), None, "R1"));
    unmap(&mut gather, m.settled(&p), hidden, Some(1));
    gather.finish();
    drop(hints);
    m.events();
    let mut later = batch(&m, Schedule::Batched);
    later.unmap(&p, hidden, 1);
    assert!(!m.owes(&p), "everything was flushed");
    drop(later);
    assert_eq!(m.events(), []);
}

#[test]
fn a_translation_that_a_gather_hides_is_a_debt_until_the_gather_has_flushed() {
    let hidden = small(PAGE, Entry { access: Access::Hidden, ..Entry::NONE });
    let (m, p) = busy(2, 1);
    let (range, mut room) = (SpaceLock(p.clone()), room::<u64, 1>());
    let mut hiding = Gather::keeping(&m, &range, &mut room, |_| ());
    hiding.under(m.settled(&p)).narrow(PAGE, PageSize::KIB_4, |_| Entry::READ_ONLY);
    assert!(m.cached(1, PAGE).is_some());
    let mut reclaim = batch(&m, Schedule::Batched);
    reclaim.unmap(&p, hidden, 1);
    reclaim.flush();
    assert_eq!(m.cached(1, PAGE), None, "R1");
    drop((reclaim, hiding));
}

#[test]
fn pages_that_wait_for_a_permit_stay_until_they_have_it() {
    let (m, p) = busy(2, 3);
    let out = RefCell::new(Vec::new());
    let mut batch: Batch<'_, _, u64, _, 3> =
        Batch::new(&m, Schedule::Batched, |page: Owed<u64>| out.borrow_mut().push(*page.get()));
    for page in 1..=3 {
        let mut unmapping = batch.take(page);
        unmapping.clear(&TableLock(p.clone()), page * PAGE, PageSize::KIB_4, |_| Entry::DIRTY);
        if page == 2 {
            unmapping.hold();
        } else {
            unmapping.withhold();
        }
    }
    batch.flush();
    assert_eq!((batch.len(), out.take()), (2, vec![2]));
    assert_eq!(batch.write_permit().map(WritePermit::into_page), Some(1), "the oldest first");
    batch.hold(7);
    assert_eq!(batch.write_permit().map(WritePermit::into_page), Some(3));
    assert!(batch.write_permit().is_none());
    drop(batch);
    assert_eq!(out.take(), [7]);
}

#[test]
fn pages_whose_permit_was_not_taken_come_out_flushed() {
    let (m, p) = busy(2, 0);
    let out = RefCell::new(Vec::new());
    let mut batch: Batch<'_, _, u64, _, 2> = Batch::new(&m, Schedule::Batched, |page: Owed<u64>| {
        assert_eq!(m.cached(1, page.get() * PAGE), None);
        out.borrow_mut().push(*page.get());
    });
    for page in 1..=3 {
        let mut unmapping = batch.take(page);
        m.fill(1, page * PAGE, 1);
        unmapping.clear(&TableLock(p.clone()), page * PAGE, PageSize::KIB_4, |_| Entry::DIRTY);
        unmapping.withhold();
    }
    assert_eq!(*out.borrow(), [1], "there was no room for the third");
    drop(batch);
    assert_eq!(out.take(), [1, 2, 3]);
}

/// The space is recorded already, for a translation that was cleared.
#[test]
fn a_narrowing_after_a_clearing_counts_as_a_downgrade() {
    for order in [[true, false], [false, true]] {
        let m = machine(2);
        let p = m.space(1);
        m.switch(1, &p);
        let mut batch = batch(&m, Schedule::Batched);
        for narrows in order {
            if narrows {
                batch.restrict(&p, was(PAGE, true), 1);
                assert!(p.downgrade_in_flight(), "R5");
            } else {
                batch.unmap(&p, was(2 * PAGE, false), 2);
            }
        }
        batch.flush();
        assert!(!p.downgrade_in_flight());
    }
}

/// Pages that were handed over come out with the stamp of the last payment. A payment before that must not leave debts.
#[test]
fn a_payment_before_the_end_of_a_batch_covers_the_pages_that_leave() {
    for spaces in [2, 9] {
        let m = lazy(3);
        let p = m.space(1);
        m.switch(1, &p);
        m.fill(1, PAGE, 1);
        let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Lazy, |page: Owed<u64>| {
            assert!(*page.get() > 1 || !m.is_settled(page.stamp()) || m.cached(1, PAGE).is_none(), "R1");
        });
        batch.unmap_and_release(&p, was(PAGE, false), 1);
        for root in 2..=spaces {
            let space = m.space(root);
            m.switch(2, &space);
            if root < spaces {
                batch.unmap_and_release(&space, was(PAGE, false), root);
            } else {
                // With the ninth space there are more than a batch remembers, and a permit needs a payment too.
                let _permit = batch.unmap_to_write(&space, was(PAGE, true), root);
            }
        }
        drop(batch);
    }
}

#[test]
fn the_age_of_a_batch_counts_from_its_first_record() {
    let m = machine(3);
    let mut batch = batch(&m, Schedule::Batched);
    for cpu in [1, 2] {
        let space = m.space(cpu);
        m.switch(cpu as usize, &space);
        batch.unmap(&space, was(PAGE, false), cpu);
        m.pass(500);
    }
    batch.flush();
    assert!(m.cpu(0).counters().debt_age_max_ns >= 1000);
}

#[test]
fn a_batch_that_comes_back_to_a_space_pays_for_no_debt_that_another_recorded_meanwhile() {
    let m = broadcasting(2, 4);
    let (p, q) = (run_by_both(&m), m.space(2));
    for cpu in [1, 0] {
        m.switch(cpu, &q);
    }
    let (mut ours, mut theirs) = (batch(&m, Schedule::Batched), batch(&m, Schedule::Batched));
    ours.unmap(&p, was(PAGE, false), 1);
    ours.unmap(&q, was(PAGE, false), 2);
    theirs.unmap(&p, was(2 * PAGE, false), 3);
    ours.unmap(&p, was(3 * PAGE, false), 4);
    ours.flush();
    assert!(m.owes(&p) && !m.owes(&q), "the other's broadcast may still be under way");
    drop(theirs);
}

#[test]
fn a_page_owes_neither_for_another_page_nor_for_an_earlier_flush() {
    let m = lazy(3);
    let (p, q) = (m.space(1), m.space(2));
    m.switch(1, &p);
    m.switch(2, &q);
    let out = RefCell::new(Vec::new());
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Lazy, |page: Owed<u64>| {
        out.borrow_mut().push((*page.get(), page.stamp() == Stamp::SETTLED));
    });
    batch.unmap(&p, was(PAGE, true), 1);
    batch.unmap_and_release(&q, was(PAGE, false), 2);
    batch.flush();
    assert_eq!(out.take(), [(1, true), (2, false)]);
    // The flush for the first page brings CPU 1 up to date.
    batch.unmap(&p, was(PAGE, true), 3);
    batch.unmap_and_release(&p, was(2 * PAGE, false), 4);
    batch.flush();
    assert_eq!(out.take(), [(3, true), (4, true)]);
}

#[test]
fn each_flush_of_a_batch_is_one_request_for_what_was_recorded_since_the_last() {
    let m = machine(3);
    let spaces = [1, 2].map(|cpu| m.space(cpu));
    for (space, cpu) in spaces.iter().zip(1..) {
        m.switch(cpu, space);
    }
    let mut batch = batch(&m, Schedule::Batched);
    for requests in [1, 2] {
        m.events();
        for space in &spaces {
            batch.unmap(space, was(PAGE, false), 1);
        }
        batch.flush();
        assert_eq!((m.interrupted(), m.cpu(0).counters().shootdowns), (vec![1, 2], requests));
    }
    batch.unmap(&spaces[1], was(PAGE, false), 1);
    // CPU 1 comes after the record, and finds it in the generation.
    m.switch(1, &spaces[1]);
    batch.flush();
    assert_eq!(m.interrupted(), [2]);
}

#[test]
fn a_flush_of_a_batch_does_not_wait_for_broadcasts_of_the_one_before() {
    let m = hybrid(4, 1);
    let (p, q) = (m.space(1), m.space(2));
    for (cpu, space) in [(1, &p), (2, &p), (3, &q)] {
        m.switch(cpu, space);
    }
    for _ in 0..3 {
        m.flush(&p, Flush::page(9 * PAGE, PageSize::KIB_4));
    }
    assert!(p.asid().is_some() && q.asid().is_none());
    let mut batch = batch(&m, Schedule::Batched);
    for (space, broadcasts) in [(&p, 1), (&q, 0)] {
        let before = m.cpu(0).counters().broadcasts;
        batch.unmap(space, was(PAGE, false), 1);
        batch.flush();
        assert_eq!(m.cpu(0).counters().broadcasts - before, broadcasts);
    }
}
