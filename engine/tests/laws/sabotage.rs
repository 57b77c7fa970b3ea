//! A guard that no test misses is not tested: each guard is removed here, and its rule is seen broken.

use std::cell::Cell;

use ceasefire::sabotage::Guard;
use ceasefire::{Batch, Gather, PageSize, Root, Schedule};
use proptest::test_runner::{Config, TestRunner};

use crate::hands::{room, unmap, was, Hands, SpaceLock};
use crate::interleaved;
use crate::random::{history, play};
use crate::script::{broadcasting, every, hybrid, lazy, machine, wide, Machine, Space};

const PAGE: u64 = 0x1000;

/// CPU 1 runs a space and has a page of it cached. `guard` is removed.
fn without(guard: Guard) -> (Machine, Space) {
    let m = machine(2);
    m.remove_guard(guard);
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
    let config = Config { cases: 2000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, runner.new_rng());
    let broken = Cell::new(false);
    let _ = runner.run(&history(), |(cpus, spaces, steps)| {
        let m = machine(cpus);
        m.remove_guard(guard);
        if play(&m, schedule, cpus, spaces, &steps).is_err_and(|what| what.contains(words)) {
            broken.set(true);
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
fn without_settling_munmap_returns_while_a_batch_still_owes() {
    let (m, p) = without(Guard::Settle);
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| ());
    batch.unmap(&p, was(PAGE, false), 0);
    drop(m.settled(&p));
    assert!(m.cached(1, PAGE).is_some(), "R3");
    found_by_chance(Guard::Settle, "after munmap returned");
}

#[test]
fn without_the_flush_of_writable_entries_a_page_is_written_while_it_can_be_stored_to() {
    let (m, p) = without(Guard::WritableFlush);
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| ());
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
    gather.unlink(0, PageSize::KIB_4, || ());
    gather.hold(1);
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

#[test]
fn without_the_sweep_at_ticks_a_debt_counts_as_settled_while_pages_can_be_reached() {
    found_on(lazy, Schedule::Lazy, Guard::Sweep, "after its debt was settled");
}

#[test]
fn without_its_stamp_a_page_comes_out_while_it_can_be_reached() {
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
