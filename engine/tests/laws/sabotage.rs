//! A guard that no test misses is not tested: each guard is removed here, and its rule is seen broken.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::sabotage::Guard;
use ceasefire::{Batch, Flush, Gather, PageSize, Root, Schedule, Stamp};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::hands::{batch, release_in_debt, room, unmap, was, Hands, SpaceLock};
use crate::interleaved;
use crate::random::{history, play};
use crate::script::{broadcasting, every, hybrid, lazy, machine, wide, Machine, Point, Space};

const PAGE: u64 = 0x1000;

/// CPU 1 runs a space and has a page of it cached. `guard` is removed.
fn without(guard: Guard) -> (Machine, Space) {
    busy(machine(2), Some(guard))
}

/// The same on a machine of the caller's choice, with or without a guard.
fn busy(m: Machine, without: Option<Guard>) -> (Machine, Space) {
    if let Some(guard) = without {
        m.remove_guard(guard);
    }
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    (m, p)
}

/// Random histories find that the guard is removed, and report it in these words.
fn found_by_chance(guard: Guard, words: &str) {
    found_on(machine, Schedule::Batched, guard, words);
}

fn found_on(machine: impl Fn(usize) -> Machine, schedule: Schedule, guard: Guard, words: &str) {
    let mut runner = TestRunner::deterministic();
    let config =
        Config { cases: 20_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, runner.new_rng());
    let broken = Cell::new(false);
    let _ = runner.run(&history(), |(cpus, spaces, steps)| {
        let m = machine(cpus);
        m.remove_guard(guard);
        if play(&m, schedule, cpus, spaces, &steps).is_err_and(|what| what.contains(words)) {
            broken.set(true);
            return Err(TestCaseError::fail("it is found: no other history is needed"));
        }
        Ok(())
    });
    assert!(broken.get(), "{guard:?}: no history ended with a CPU that uses a page {words}");
}

#[test]
fn without_the_batch_flush_a_page_comes_out_while_it_can_be_reached() {
    let (m, p) = without(Guard::BatchFlush);
    let reached = Cell::new(false);
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(&m, Schedule::Batched, |_| reached.set(m.cached(1, PAGE).is_some()));
    batch.unmap(&p, was(PAGE, false), 1);
    drop(batch);
    assert!(reached.get(), "R1");
    found_by_chance(Guard::BatchFlush, "after it came out of the batch");
}

#[test]
fn without_the_gather_flush_a_frame_is_released_while_it_can_be_reached() {
    let (m, p) = without(Guard::GatherFlush);
    let reached = Cell::new(false);
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> =
        Gather::keeping(&m, &gather_range, &mut gather_room, |_| reached.set(m.cached(1, PAGE).is_some()));
    unmap(&mut gather, m.settled(&p), was(PAGE, false), Some(1));
    gather.finish();
    assert!(reached.get(), "R1");
    assert!(m.cached(1, PAGE).is_some(), "R3");
    found_by_chance(Guard::GatherFlush, "after its frame was released");
}

#[test]
fn without_the_request_to_other_cpus_a_flush_leaves_their_entries() {
    for (guard, reached) in [(None, false), (Some(Guard::Others), true)] {
        let (m, p) = busy(machine(2), guard);
        m.switch(0, &p);
        m.fill(0, PAGE, 1);
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(m.cached(1, PAGE).is_some(), reached, "R1 and R3, without {guard:?}");
        assert_eq!(m.cached(0, PAGE), None, "this CPU does its own part");
    }
    found_by_chance(Guard::Others, "after munmap returned");
}

#[test]
fn without_the_wait_for_answers_a_flush_returns_before_other_cpus_have_done_it() {
    for (guard, reached) in [(None, false), (Some(Guard::Answers), true)] {
        let (m, p) = busy(machine(2), guard);
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
        assert_eq!(m.cached(1, PAGE).is_some(), reached, "R1 and R3, without {guard:?}");
        m.deliver_all();
        assert_eq!(m.cached(1, PAGE), None, "the other CPU was asked");
    }
    found_by_chance(Guard::Answers, "after munmap returned");
}

#[test]
fn without_the_flush_before_the_unlock_a_translation_can_be_replaced_while_the_old_one_is_used() {
    let (m, p) = without(Guard::UnlockFlush);
    let mut room = room::<_, 4>();
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, &mut room, |_| ());
    unmap(&mut gather, m.settled(&p), was(PAGE, false), Some(1));
    // The page-table lock is free, and a fault may install another page.
    assert!(m.cached(1, PAGE).is_some(), "R7");
    gather.finish();
    assert!(m.cached(1, PAGE).is_none(), "R3 does not need it");
}

#[test]
fn without_the_flush_of_a_nested_gather_an_unmap_returns_before_another_has_flushed() {
    let (m, p) = without(Guard::Nested);
    let (range, mut first_room, mut second_room) = (SpaceLock(p.clone()), room::<_, 4>(), room::<_, 4>());
    let mut first: Gather<'_, _, u64, _> = Gather::keeping(&m, &range, &mut first_room, |_| ());
    unmap(&mut first, m.settled(&p), was(PAGE, false), Some(1));
    // Another thread unmaps the same range, and finds it empty.
    let second: Gather<'_, _, u64, _> = Gather::keeping(&m, &range, &mut second_room, |_| ());
    second.finish();
    assert!(m.cached(1, PAGE).is_some(), "R3");
    first.finish();
    assert!(m.cached(1, PAGE).is_none());
}

#[test]
fn without_the_flush_at_once_a_page_comes_out_while_it_can_be_reached() {
    let (m, p) = without(Guard::AtOnce);
    let reached = Cell::new(false);
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(&m, Schedule::PerPage, |_| reached.set(m.cached(1, PAGE).is_some()));
    batch.unmap(&p, was(PAGE, false), 1);
    drop(batch);
    assert!(reached.get(), "R1");
}

#[test]
fn without_settling_munmap_returns_while_a_batch_still_owes() {
    let (m, p) = without(Guard::Settle);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    drop(m.settled(&p));
    assert!(m.cached(1, PAGE).is_some(), "R3");
    found_by_chance(Guard::Settle, "after munmap returned");
}

#[test]
fn without_the_flush_of_writable_entries_a_page_is_written_while_it_can_be_stored_to() {
    let (m, p) = without(Guard::WritableFlush);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, true), 0);
    let _permit = batch.permit(1);
    assert!(m.cached(1, PAGE).is_some(), "R5");
    found_by_chance(Guard::WritableFlush, "while it is written out");
}

#[test]
fn without_reaching_lazy_cpus_a_freed_table_can_be_walked() {
    let (m, p) = without(Guard::LazyTables);
    m.lazy(1);
    let walked = Cell::new(false);
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> =
        Gather::keeping(&m, &gather_range, &mut gather_room, |_| walked.set(m.root(1) == Some(Root(1))));
    gather.unlink(0, PageSize::KIB_4, || Some(1));
    gather.finish();
    assert!(walked.get(), "R2");
    found_by_chance(Guard::LazyTables, "may walk freed tables");
}

#[test]
fn without_the_wait_for_its_broadcasts_a_page_comes_out_while_it_can_be_reached() {
    let m = broadcasting(2, 256);
    m.remove_guard(Guard::BroadcastWait);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let reached = Cell::new(false);
    let mut batch: Batch<'_, _, u64, _> =
        Batch::new(&m, Schedule::Batched, |_| reached.set(m.cached(1, PAGE).is_some()));
    batch.unmap(&p, was(PAGE, false), 1);
    drop(batch);
    assert!(reached.get(), "R1");
    found_on(
        |cpus| broadcasting(cpus, 4),
        Schedule::Batched,
        Guard::BroadcastWait,
        "after it came out of the batch",
    );
}

#[test]
fn without_settling_munmap_returns_while_a_broadcast_is_under_way() {
    found_on(|cpus| broadcasting(cpus, 4), Schedule::Batched, Guard::Settle, "after munmap returned");
}

/// CPU 1 runs a space and has two pages of it cached, of which one was released in debt. Its debt is old enough for a tick.
fn owing(guard: Option<Guard>) -> (Machine, Space, Stamp) {
    let (m, p) = busy(lazy(2), guard);
    m.fill(1, 2 * PAGE, 1);
    let stamp = release_in_debt(&m, &p, PAGE);
    m.pass(1000);
    (m, p, stamp)
}

#[test]
fn without_the_sweep_at_ticks_a_debt_counts_as_settled_while_pages_can_be_reached() {
    for (guard, reached) in [(None, false), (Some(Guard::Sweep), true)] {
        let (m, _, stamp) = owing(guard);
        let _ = m.tick(1);
        assert_eq!(
            (m.is_settled(stamp), m.cached(1, PAGE).is_some()),
            (true, reached),
            "R1, without {guard:?}"
        );
    }
    found_on(lazy, Schedule::Lazy, Guard::Sweep, "after its debt was settled");
}

/// While CPU 1 is in its tick and has flushed, its hardware fills an entry for another page. CPU 0 releases that page in debt
/// and closes the epoch of the debt.
#[test]
fn without_its_order_a_tick_leaves_an_epoch_whose_debt_is_newer_than_its_flush() {
    for (guard, breaks) in [(None, false), (Some(Guard::Leaving), true)] {
        let (m, p, first) = owing(guard);
        let second = Rc::new(Cell::new(None));
        let told = second.clone();
        m.at(Point::Tick, move |m| {
            m.fill(1, 2 * PAGE, 1);
            told.set(Some(m.on(0, |_| release_in_debt(m, &p, 2 * PAGE))));
            m.pass(1000);
            let _ = m.tick(0);
        });
        let _ = m.tick(1);
        let second = second.get().expect("CPU 1 flushed at its tick");
        assert!(second > first && m.is_settled(first) && m.cached(1, 2 * PAGE).is_some());
        assert_eq!(m.is_settled(second), breaks, "R1, without {guard:?}");
    }
}

#[test]
fn without_its_stamp_a_page_comes_out_while_it_can_be_reached() {
    for (guard, settled) in [(None, false), (Some(Guard::Stamp), true)] {
        let (m, _, stamp) = owing(guard);
        assert_eq!(
            (m.is_settled(stamp), m.cached(1, PAGE).is_some()),
            (settled, true),
            "R1, without {guard:?}"
        );
    }
    found_on(lazy, Schedule::Lazy, Guard::Stamp, "after it came out of the batch");
}

#[test]
fn without_the_interrupts_of_a_transition_a_cpu_that_has_not_moved_uses_old_entries() {
    let m = hybrid(3, 2);
    m.remove_guard(Guard::Transition);
    let p = m.space(1);
    for cpu in [1, 2] {
        m.switch(cpu, &p);
        m.fill(cpu, PAGE, 1);
    }
    m.flush(&p, ceasefire::Flush::page(9 * PAGE, PageSize::KIB_4));
    assert!(p.asid().is_some(), "it is moving");
    m.flush(&p, ceasefire::Flush::page(PAGE, PageSize::KIB_4));
    assert!(m.cached(1, PAGE).is_some(), "R3");
    for words in ["after its frame was released", "after it came out of the batch"] {
        found_on(|cpus| hybrid(cpus, 2), Schedule::Batched, Guard::Transition, words);
    }
}

#[test]
fn without_the_note_of_a_second_cpu_its_entries_survive_a_flush_that_is_not_broadcast() {
    let m = broadcasting(2, 256);
    m.remove_guard(Guard::SecondCpu);
    let p = m.space(1);
    for cpu in [0, 1] {
        m.switch(cpu, &p);
        m.fill(cpu, PAGE, 1);
    }
    m.flush(&p, ceasefire::Flush::page(PAGE, PageSize::KIB_4));
    assert!(m.cached(0, PAGE).is_none() && m.cached(1, PAGE).is_some(), "R3");
    for words in ["after its frame was released", "after it came out of the batch"] {
        found_on(|cpus| broadcasting(cpus, 4), Schedule::Batched, Guard::SecondCpu, words);
    }
}

/// Takes the right to store to a page away in one batch, then releases the page in debt in another. Returns whether CPU 1,
/// which may still store to the page, can reach it after it came out.
fn released_though_narrowed(guard: Option<Guard>) -> bool {
    let (m, p) = busy(lazy(2), guard);
    let mut batch = batch(&m, Schedule::Batched);
    batch.restrict(&p, was(PAGE, true), 0);
    release_in_debt(&m, &p, PAGE);
    let reached = m.cached(1, PAGE).is_some();
    drop(batch);
    reached
}

/// The same, but the page is to be written out.
fn written_out_narrowed(guard: Option<Guard>) -> bool {
    let (m, p) = busy(machine(2), guard);
    let mut narrowing = batch(&m, Schedule::Batched);
    narrowing.restrict(&p, was(PAGE, true), 0);
    let mut batch = batch(&m, Schedule::Batched);
    let _permit = batch.unmap_to_write(&p, was(PAGE, false), 1);
    m.cached(1, PAGE).is_some()
}

#[test]
fn without_the_account_of_narrowings_a_page_that_can_be_stored_to_is_released_or_written_out() {
    for (guard, breaks) in [(None, false), (Some(Guard::Narrowing), true)] {
        assert_eq!(released_though_narrowed(guard), breaks, "R5, without {guard:?}");
        assert_eq!(written_out_narrowed(guard), breaks, "R5, without {guard:?}");
    }
}

/// The interleavings can fail.
#[test]
fn interleavings_find_guards_of_broadcasts_gone() {
    let found = [
        (Guard::Transition, wide(2)),
        (Guard::BroadcastWait, wide(2)),
        (Guard::GatherFlush, wide(2)),
        (Guard::Settle, wide(2)),
        (Guard::SecondCpu, every(4)),
    ];
    for (guard, capabilities) in found {
        let broken = (0..500).any(|seed| {
            interleaved::play(seed, capabilities, Schedule::Batched, |engine| engine.remove_guard(guard))
                .is_err()
        });
        assert!(broken, "{guard:?}");
    }
}
