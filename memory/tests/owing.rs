//! Owing free frames: none is handed out before its debt is settled, and no allocation waits where it must not.

use std::collections::BTreeSet;

use ceasefire::{Batch, Condition, PageSize, Payment, Platform, Schedule, Stamp};
use ceasefire_memory::{
    Config, Frame, FrameNumber, Lazy, Machine as _, Moved, NodeId, ObjectId, OfflineError, Pages, PAGE_BYTES,
};

use crate::common::owing::{
    bounds, finish, lazily, machine, near, near_owes, owe, owe_as, pass, settle_by_ticks, take_all, tick,
    TableLock, AGE, FRAMES, MOVED, NEAR, READ,
};
use crate::common::{self, config, free, numbers, Moment, Rig, Space};

#[test]
fn a_debt_stays_with_its_frame_from_a_cpus_list_to_its_node_and_back() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (mut here, there) = take_all(&rig);
    let rest = here.split_off(MOVED + 9);
    let (owing, _) = owe(&rig, &space, here);
    // Some are on the CPU's list, the others with the node.
    assert_eq!(
        (rig.memory.owing_frames(), rig.memory.free_frames()),
        (owing.len() as u64, owing.len() as u64)
    );
    assert_eq!(take_all(&rig), (vec![], vec![]), "all free frames owe");
    free(&rig, rest);
    let (rest, _) = take_all(&rig);
    assert!(numbers(&rest).is_disjoint(&owing), "an owing frame was handed out");
    settle_by_ticks(&rig);
    let (back, _) = take_all(&rig);
    assert_eq!(numbers(&back), owing);
    assert_eq!(rig.memory.statistics().frames_matured, owing.len() as u64);
    assert_eq!((rig.memory.owing_frames(), rig.memory.counters().interrupts), (0, 0));
    free(&rig, back.into_iter().chain(rest).chain(there));
    finish(&rig, space, all);
}

#[test]
fn an_allocation_that_must_not_wait_gets_a_debt_free_frame_or_none() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (owing, there) = near_owes(&rig, &space, 1);
    let (reserve, none) = take_all(&rig);
    // Down to the last frame, none of them owing. `take_all` turns interrupts off, and the rig then allows no wait.
    assert_eq!((reserve.len(), none.len()), (MOVED, 0));
    assert!(numbers(&reserve).is_disjoint(&owing));
    assert!(rig.platform().take_wake(NEAR), "background reclaim is woken");
    assert_eq!(rig.memory.statistics().allocations_paid, 0);
    assert_eq!(rig.memory.allocate_atomic(NodeId(7)), None, "there is no such node");
    free(&rig, reserve.into_iter().chain(there));
    finish(&rig, space, all);
}

#[test]
fn an_allocation_that_may_wait_pays_before_it_takes_the_reserve_or_farther_memory() {
    // Above the node's watermarks.
    const SETTLED: u32 = 2 * MOVED as u32;
    for (reserve, paid) in [(SETTLED + 1, 1), (SETTLED, 1), (SETTLED - 1, 0)] {
        let (rig, space) = machine(Lazy { reserve: Some(reserve), ..bounds() });
        let all = rig.memory.free_frames() + 1;
        let (owing, there) = near_owes(&rig, &space, 2);
        free(&rig, there);
        let fresh = rig.memory.new_space().unwrap();
        assert!(near(fresh.root()), "the near node has free frames");
        let statistics = rig.memory.statistics();
        assert_eq!((statistics.allocations_paid, statistics.scanned), (paid, 0), "reserve {reserve}");
        // Frames that owed before may be had now, and only now.
        assert_eq!((rig.memory.counters().interrupts, owing.contains(&fresh.root())), (paid, paid == 1));
        // One round paid for all.
        let more: Vec<Space> = (0..50 * paid).map(|_| rig.memory.new_space().unwrap()).collect();
        assert!(more.iter().all(|space| near(space.root())));
        assert_eq!(
            (rig.memory.counters().interrupts, rig.memory.statistics().allocations_paid),
            (paid, paid)
        );
        crate::common::end(&rig, more);
        rig.memory.exit(fresh);
        finish(&rig, space, all);
    }
}

#[test]
fn a_miss_brings_in_the_next_pages_of_a_file_though_their_slots_owe() {
    // The debts of 64 neighbours are kept together. The page that is missed does not owe.
    const TOGETHER: u64 = 64;
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(2 * TOGETHER as u32).unwrap();
    let pages = Pages::new(TOGETHER);
    let start = rig.memory.map_shared(&space, file, TOGETHER as u32, pages, false).unwrap();
    rig.on(1, || {
        (0..TOGETHER).for_each(|page| assert_eq!(rig.load(&space, start + page * PAGE_BYTES), Ok(0)));
    });
    rig.memory.list_collected();
    // The first look finds them used.
    let taken = [(); 2].map(|()| rig.memory.reclaim_range(&space, start, pages).unwrap());
    assert_eq!(taken.iter().sum::<u64>(), TOGETHER);
    assert_eq!((rig.memory.cached_pages(file), rig.memory.owing_frames()), (0, TOGETHER));
    rig.memory.read(file, (TOGETHER - 4) * PAGE_BYTES, &mut [0]).unwrap();
    assert_eq!(rig.memory.cached_pages(file), u64::from(rig.memory.config().read_ahead));
    rig.on(1, || drop(rig.memory.engine().unload()));
    rig.memory.unmap(&space, start, pages).unwrap();
    rig.memory.delete_file(file);
    finish(&rig, space, all);
}

#[test]
fn an_allocation_that_paid_matures_as_many_frames_as_the_reserve_needs() {
    // As many as mature in three rounds, but one for the allocation.
    let lazy = Lazy { reserve: Some(3 * MOVED as u32 - 1), max_owed: Some(FRAMES), ..bounds() };
    let (rig, space) = machine(lazy);
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    // No two of them are neighbours, so each matures by itself.
    let (even, odd): (Vec<Frame>, Vec<Frame>) =
        here.into_iter().partition(|frame| frame.number().get() % 2 == 0);
    let (owing, _) = owe(&rig, &space, even);
    let fresh = rig.memory.new_space().unwrap();
    assert!(owing.contains(&fresh.root()));
    assert_eq!((rig.memory.counters().interrupts, rig.memory.statistics().allocations_paid), (1, 1));
    // One more round matures when frames move to the CPU.
    assert_eq!(rig.memory.statistics().frames_matured, 4 * MOVED as u64);
    free(&rig, odd.into_iter().chain(there));
    rig.memory.exit(fresh);
    finish(&rig, space, all);
}

#[test]
fn an_allocation_that_must_not_wait_takes_only_what_it_needs_of_the_reserve() {
    const RESERVE: u32 = 2 * MOVED as u32;
    let (rig, space) = machine(Lazy { reserve: Some(RESERVE), ..bounds() });
    let all = rig.memory.free_frames() + 1;
    let (owing, there) = near_owes(&rig, &space, 2);
    let taken = rig.platform().interrupts_off(|| rig.memory.allocate_atomic(NEAR)).unwrap();
    assert!(near(taken.number()) && !owing.contains(&taken.number()));
    // On the same CPU: an allocation that may wait pays, and leaves the rest.
    let fresh = rig.memory.new_space().unwrap();
    assert_eq!((rig.memory.counters().interrupts, owing.contains(&fresh.root())), (1, true));
    free(&rig, there.into_iter().chain([taken]));
    rig.memory.exit(fresh);
    finish(&rig, space, all);
}

#[test]
fn debts_that_settle_by_themselves_are_never_paid_for() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (owing, there) = near_owes(&rig, &space, 0);
    settle_by_ticks(&rig);
    let fresh = rig.memory.new_space().unwrap();
    assert!(owing.contains(&fresh.root()));
    assert_eq!((rig.memory.counters().interrupts, rig.memory.statistics().allocations_paid), (0, 0));
    // Only a bounded part of the settled frames was checked.
    assert!(rig.memory.statistics().frames_matured < owing.len() as u64);
    free(&rig, there);
    rig.memory.exit(fresh);
    finish(&rig, space, all);
}

#[test]
fn on_demand_the_watermarks_count_owing_frames_and_allocations_pay() {
    let (rig, space) = machine(Lazy { payment: Payment::Demand, ..bounds() });
    let all = rig.memory.free_frames() + 1;
    let (_, there) = near_owes(&rig, &space, 0);
    rig.memory.reclaim_node(NEAR);
    assert_eq!(rig.memory.counters().interrupts, 0, "the node has enough free frames");
    settle_by_ticks(&rig);
    assert_eq!(rig.memory.counters().debts_by_tick, 0);
    assert!(near(
        rig.memory
            .new_space()
            .map(|space| {
                let root = space.root();
                rig.memory.exit(space);
                root
            })
            .unwrap()
    ));
    assert_eq!((rig.memory.counters().interrupts, rig.memory.statistics().allocations_paid), (1, 1));
    free(&rig, there);
    finish(&rig, space, all);
}

#[test]
fn a_debt_that_no_tick_settles_wakes_background_reclaim_to_pay() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (mut here, there) = take_all(&rig);
    rig.platform().take_wake(NEAR);
    rig.memory.reclaim_node(NEAR);
    let rest = here.split_off(5);
    owe(&rig, &space, here);
    tick(&rig, 0);
    assert!(!rig.platform().take_wake(NEAR), "it is young");
    // CPU 1 has no ticks.
    pass(&rig, AGE);
    tick(&rig, 0);
    assert!(rig.platform().take_wake(NEAR));
    tick(&rig, 0);
    assert!(!rig.platform().take_wake(NEAR), "woken once until it has run");
    free(&rig, rest);
    rig.memory.reclaim_node(NEAR);
    assert_eq!(rig.memory.counters().interrupts, 1);
    tick(&rig, 0);
    assert!(!rig.platform().take_wake(NEAR), "nothing is owed");
    free(&rig, there);
    finish(&rig, space, all);
}

#[test]
fn a_frame_is_reported_only_when_debt_free() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    let (owing, until) = owe(&rig, &space, here);
    let mut reported = BTreeSet::new();
    let count = rig.memory.report_free(NEAR, 0, &mut |frame, order| {
        assert!(rig.memory.engine().is_settled(until), "{frame:?} is reported while it owes");
        assert!(order == 0 && owing.contains(&frame) && reported.insert(frame));
    });
    assert_eq!((count, rig.memory.counters().interrupts), (reported.len(), 1));
    assert!(count > owing.len() / 2, "only the watermark and a CPU's list are left out");
    assert_eq!(rig.memory.report_free(NodeId(7), 0, &mut |_, _| unreachable!()), 0);
    assert_eq!(rig.memory.report_free(NEAR, 32, &mut |_, _| unreachable!()), 0);
    free(&rig, there);
    finish(&rig, space, all);
}

#[test]
fn a_frame_freed_meanwhile_keeps_its_own_debt() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (mut here, there) = take_all(&rig);
    here.sort_by_key(|frame| frame.number().get());
    // Every other frame: the buddy of each is freed later.
    let (even, odd): (Vec<_>, Vec<_>) = here.into_iter().partition(|frame| frame.number().get() % 2 == 0);
    let (first, _) = owe(&rig, &space, even);
    let mut odd = Some(odd);
    let mut late = (BTreeSet::new(), Stamp::SETTLED);
    rig.memory.report_free(NEAR, 0, &mut |frame, _| {
        // As an interrupt would do while other frames are taken out and their debt is paid.
        if let Some(odd) = odd.take() {
            late = owe(&rig, &space, odd);
        }
        assert!(first.contains(&frame));
    });
    assert!(!rig.memory.engine().is_settled(late.1));
    let (back, _) = take_all(&rig);
    assert_eq!(numbers(&back), first, "frames whose debt was paid, and none that came to owe since");
    settle_by_ticks(&rig);
    let (odd, _) = take_all(&rig);
    assert_eq!(numbers(&odd), late.0);
    free(&rig, back.into_iter().chain(odd).chain(there));
    finish(&rig, space, all);
}

#[test]
fn a_frame_goes_offline_out_of_the_middle_of_an_owing_block() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    let (owing, until) = owe(&rig, &space, here);
    let bad = *owing.iter().nth(owing.len() / 2).unwrap();
    rig.memory.take_offline(bad).unwrap();
    assert!(rig.memory.engine().is_settled(until));
    assert_eq!(rig.memory.counters().interrupts, 1);
    // The remaining parts of its block still have their stamps.
    assert_eq!(rig.memory.owing_frames(), owing.len() as u64 - 1);
    assert_eq!(rig.memory.take_offline(bad), Err(OfflineError::InUse(bad)));
    let (back, _) = take_all(&rig);
    assert!(!numbers(&back).contains(&bad) && back.len() == owing.len() - 1);
    free(&rig, back.into_iter().chain(there));
    let (first, frames) = (config(2 * FRAMES).first_frame, 2 * FRAMES);
    for number in [0, first.get() - 1, first.get() + frames, u32::MAX] {
        let frame = FrameNumber::new(number);
        let error = OfflineError::NoSuchFrame { frame, first, frames };
        assert_eq!(rig.memory.take_offline(frame), Err(error), "{error}");
    }
    // The first and the last frame exist. Either may be in use, for a table or the page of zeros.
    let ends = [first, FrameNumber::new(first.get() + frames - 1)].map(|frame| {
        let taken = rig.memory.take_offline(frame);
        assert!([Ok(()), Err(OfflineError::InUse(frame))].contains(&taken), "{taken:?}");
        u64::from(taken.is_ok())
    });
    finish(&rig, space, all - 1 - ends.iter().sum::<u64>());
}

#[test]
fn a_frame_that_a_cpu_keeps_is_free_and_goes_offline() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (mut here, there) = take_all(&rig);
    let rest = here.split_off(2);
    let kept = here[0].number();
    let settled = here.pop().unwrap();
    rig.on(1, || rig.memory.free(settled));
    let (owing, until) = owe(&rig, &space, here);
    assert_eq!(owing, BTreeSet::from([kept]));
    rig.memory.take_offline(kept).unwrap();
    assert!(rig.memory.engine().is_settled(until));
    assert_eq!((rig.memory.free_frames(), rig.memory.owing_frames()), (1, 0));
    free(&rig, rest.into_iter().chain(there));
    finish(&rig, space, all - 1);
}

#[test]
fn isolated_blocks_have_their_order_and_come_back() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let block = rig.memory.isolate_free(NEAR, 6).unwrap();
    assert_eq!((block.order(), block.first().get() % 64), (6, 0));
    assert_eq!(rig.memory.free_frames(), all - 1 - 64);
    rig.memory.put_back_free(block);
    assert_eq!(rig.memory.isolate_free(NEAR, 10), None, "the node has no 1024 frames");
    finish(&rig, space, all);
}

#[test]
fn an_owing_block_is_paid_for_when_it_is_isolated() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (owing, there) = near_owes(&rig, &space, 1);
    let (free_before, owing_before) = (rig.memory.free_frames(), rig.memory.owing_frames());
    let block = rig.memory.isolate_free(NEAR, 6).unwrap();
    assert!(owing.contains(&block.first()));
    assert_eq!(rig.memory.counters().interrupts, 1);
    assert_eq!(
        (rig.memory.free_frames(), rig.memory.owing_frames()),
        (free_before - 64, owing_before - 64),
        "the rest of the block is left as it was"
    );
    rig.memory.put_back_free(block);
    free(&rig, there);
    finish(&rig, space, all);
}

#[test]
fn a_huge_page_is_made_of_owing_frames_once_their_debt_is_paid() {
    let rig = Rig::by_hand(Config { schedule: Schedule::Lazy, lazy: bounds(), ..config(4096) });
    let all = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.on(1, || rig.run(&space));
    let mut here = common::take_all(&rig, NEAR);
    here.sort_by_key(|frame| frame.number().get());
    let there = here.split_off(here.iter().filter(|frame| frame.number().get() < 5_003 + 2048).count());
    // Enough for tables, and above the watermarks. Two whole blocks of 512 are among the others.
    let kept = here.split_off(here.len() - 156 - 8 * MOVED);
    rig.on(1, || free(&rig, kept));
    let (owing, _) = owe(&rig, &space, here);
    let start = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    rig.run(&space);
    rig.memory.advise_huge(&space, start, Pages::new(1024), true).unwrap();
    let (before, address) = (rig.memory.free_frames(), start.next_multiple_of(512 * PAGE_BYTES));
    rig.store(&space, address, 1).unwrap();
    assert!(before - rig.memory.free_frames() >= 512, "it is huge");
    assert_eq!((rig.memory.counters().interrupts, rig.memory.statistics().allocations_paid), (1, 1));
    assert!(owing.len() > 1024 && rig.memory.statistics().frames_matured >= 512);
    free(&rig, there);
    drop(rig.memory.engine().unload());
    finish(&rig, space, all);
}

/// Every free frame of a node is still reached by CPU 1, and is stored with the stamp that `stored` makes of its own.
/// Returns how many can be had at once, without waiting.
fn had_at_once(stored: fn(Stamp) -> Stamp) -> usize {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    owe_as(&rig, &space, here, stored);
    let (had, _) = take_all(&rig);
    let count = had.len();
    free(&rig, had.into_iter().chain(there));
    finish(&rig, space, all);
    count
}

#[test]
fn hole_01_a_stamp_lost_on_the_way_to_the_node() {
    assert_eq!(had_at_once(|stamp| stamp), 0);
    // LUF stored the order of the block there: 0 for a single frame, which means that nothing is owed.
    let order = |_| Stamp::stored(0);
    assert!(had_at_once(order) > MOVED, "a missing guard must be noticed");
}

/// A task takes a frame. Before it checks whether it must flush, an interrupt frees another frame. Returns whether the
/// task flushed before the frame was used, with LUF's field in the task.
fn flushes_as_published(frees_meanwhile: bool) -> bool {
    // The newest generation among the pages that the task has taken.
    let mut task = 0_u16;
    let taken = 7;
    task = task.max(taken);
    if frees_meanwhile {
        // A merge takes the buddy off its list, and moves the value that this left in the field to the merged block.
        let _merged = std::mem::take(&mut task);
    }
    task != 0
}

#[test]
fn hole_04_a_debt_that_an_interrupt_takes_from_the_task() {
    assert!(flushes_as_published(false) && !flushes_as_published(true));
    // Here the debt is in the taken frame itself, an `Owed`. It can be inspected, but only the engine releases the
    // frame.
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (mut here, there) = take_all(&rig);
    here.sort_by_key(|frame| frame.number().get());
    let buddy = here.pop().unwrap();
    let mut taken = None;
    let mut batch: Batch<'_, _, Frame, _> =
        Batch::new(rig.memory.engine(), Schedule::Lazy, |frame| taken = Some(frame));
    let mut unmapping = batch.take(here.pop().unwrap());
    unmapping.clear(&TableLock(space.clone()), 0, PageSize::KIB_4, |_| READ);
    unmapping.release_in_debt(Condition::UNKEPT);
    drop(batch);
    let taken = taken.unwrap();
    // As an interrupt would do.
    rig.memory.free(buddy);
    let taken = rig.memory.engine().redeem(taken).unwrap_err();
    assert_eq!(rig.memory.counters().interrupts, 0);
    let frame = rig.memory.engine().pay(taken);
    assert_eq!(rig.memory.counters().interrupts, 1, "paid before it is used");
    free(&rig, here.into_iter().chain([frame]).chain(there));
    finish(&rig, space, all);
}

#[test]
fn hole_05_an_allocation_that_must_not_wait_never_pays() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    let (owing, _) = owe(&rig, &space, here);
    // With interrupts off. Neither node has a debt-free frame.
    assert_eq!(take_all(&rig), (vec![], vec![]));
    assert_eq!((rig.memory.counters().interrupts, rig.memory.owing_frames()), (0, owing.len() as u64));
    free(&rig, there);
    finish(&rig, space, all);
}

/// In LUF's design, two CPUs that do this to each other wait forever.
#[test]
#[should_panic(expected = "waits for others with interrupts off")]
fn hole_05_paying_with_interrupts_off_is_caught() {
    let (rig, space) = machine(bounds());
    let (here, _) = take_all(&rig);
    owe(&rig, &space, here);
    rig.platform().interrupts_off(|| rig.memory.engine().pay_all());
}

/// The node where the page that a CPU reads at an address is not.
fn other_node(rig: &Rig, cpu: usize, start: u64) -> NodeId {
    NodeId(u16::from(near(rig.platform().leads_to(cpu, start))))
}

/// CPU 1 reads a page of zeros, and then the page moves to the other node. Returns the old frame.
fn read_and_move(rig: &Rig, space: &Space, start: u64) -> FrameNumber {
    rig.on(1, || rig.run(space));
    assert_eq!(rig.on(1, || rig.load(space, start)), Ok(0));
    let old = rig.platform().leads_to(1, start);
    assert_eq!(rig.memory.move_pages(space, &[(start, other_node(rig, 1, start))]), [Moved::There]);
    old
}

/// Moves a page that CPU 1 can read, on a machine whose free frames keep their bytes or do not. Returns whether the
/// frame owes, and the value that CPU 1 reads there if the frame is filled as soon as it is free.
fn move_and_fill(alters: bool) -> (bool, u64) {
    let rig = Rig::by_hand(lazily(bounds()));
    rig.platform().alter_free_frames(alters);
    let space = rig.memory.new_space().unwrap();
    let file = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    let old = read_and_move(&rig, &space, start);
    let owes = rig.memory.engine().owes(space.coherence());
    rig.platform().store(old, 0, &[0xaa; 8]);
    let read = rig.on(1, || rig.load(&space, start)).unwrap();
    rig.on(1, || drop(rig.memory.engine().unload()));
    rig.memory.exit(space);
    rig.memory.delete_file(file);
    (owes, read)
}

#[test]
fn a_locked_page_moves_without_a_debt() {
    for locks in [true, false] {
        let rig = Rig::by_hand(lazily(bounds()));
        let free = rig.memory.free_frames();
        let space = rig.memory.new_space().unwrap();
        let file = rig.memory.create_file(1).unwrap();
        let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
        if locks {
            rig.memory.lock(&space, start, Pages::new(1)).unwrap();
        }
        read_and_move(&rig, &space, start);
        assert_eq!(rig.memory.engine().owes(space.coherence()), !locks);
        common::finish(&rig, space, &[file], free);
    }
}

#[test]
fn a_page_of_a_file_that_owes_arrives_while_a_private_copy_of_it_moves() {
    let rig = Rig::by_hand(Config { lru_batch: 1, ..lazily(bounds()) });
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    let file = rig.memory.create_file(1).unwrap();
    rig.run(&space);
    let private = rig.memory.map_private(&space, file, 0, Pages::new(1)).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    rig.store(&space, private, 5).unwrap();
    assert_eq!(rig.load(&space, shared), Ok(0));
    let (copy, page) = ((private, other_node(&rig, 0, private)), (shared, other_node(&rig, 0, shared)));
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Copy, move || {
        assert_eq!(inner.on(1, || inner.memory.move_pages(&inner_space, &[page])), [Moved::There]);
        assert!(inner.memory.engine().owes(inner_space.coherence()), "CPU 0 can still read it");
    });
    assert_eq!(rig.memory.move_pages(&space, &[copy]), [Moved::There]);
    assert!(rig.platform().all_done());
    assert_eq!((rig.load(&space, private), rig.load(&space, shared)), (Ok(5), Ok(0)));
    common::finish(&rig, space, &[file], free);
}

#[test]
fn a_file_is_settled_before_its_contents_change() {
    let truncate = |rig: &Rig, file| rig.memory.truncate(file, 0).unwrap();
    // The device may have a newer version.
    let invalidate = |rig: &Rig, file| rig.memory.invalidate(file, 0, 1).unwrap();
    for change in [truncate as fn(&Rig, ObjectId), invalidate] {
        let rig = Rig::by_hand(lazily(bounds()));
        let free = rig.memory.free_frames();
        let space = rig.memory.new_space().unwrap();
        let file = rig.memory.create_file(1).unwrap();
        let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
        read_and_move(&rig, &space, start);
        assert!(rig.platform().caches(1, start), "CPU 1 owes");
        change(&rig, file);
        assert!(!rig.platform().caches(1, start));
        common::finish(&rig, space, &[file], free);
    }
}

#[test]
fn scenario_08_frames_whose_bytes_change_while_they_are_free() {
    assert_eq!(move_and_fill(true), (false, 0));
    // The machine says that they keep their bytes, as for LUF before it left such frames out.
    assert_eq!(move_and_fill(false), (true, 0xaaaa_aaaa_aaaa_aaaa));
}
