//! Bounds on debts: they are kept, and cost nothing where nothing must be paid.

use ceasefire::{Batch, BoundsError, Condition, Owed, PageSize, Platform, Schedule, Stamp, LONGEST_AGE};
use ceasefire_memory::{Config, ConfigError, Frame, Lazy, NodeLayout, Pages, PAGE_BYTES};

use crate::common::owing::{
    bounds, finish, lazily, machine, near, owe, pass, settle_by_ticks, take_all, TableLock, AGE, FRAMES,
    MOVED, NEAR, READ,
};
use crate::common::{free, Rig};

#[test]
fn background_reclaim_pays_for_a_node_at_its_bound_unless_enough_frames_will_settle() {
    // 2 * MOVED frames are fewer than the node should have free; all frames are more.
    for (owed, paid) in [(2 * MOVED, 1), (usize::MAX, 0)] {
        let (rig, space) = machine(Lazy { max_owed: Some(2 * MOVED as u32), ..bounds() });
        let all = rig.memory.free_frames() + 1;
        let (mut here, there) = take_all(&rig);
        let kept = here.split_off(here.len() - 156 - MOVED);
        rig.on(1, || free(&rig, kept));
        let rest = here.split_off(owed.min(here.len()));
        let owing = owe(&rig, &space, here).0.len() as u64;
        rig.memory.reclaim_node(NEAR);
        let left = if paid == 1 { 0 } else { owing };
        assert_eq!((rig.memory.counters().interrupts, rig.memory.owing_frames()), (paid, left));
        free(&rig, there.into_iter().chain(rest));
        finish(&rig, space, all);
    }
}

#[test]
fn debts_settled_at_no_cost_make_room_for_new_ones() {
    const PAGES: u32 = 8;
    let (rig, space) = machine(Lazy { max_owed: Some(2 * MOVED as u32), ..bounds() });
    let all = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(PAGES).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(u64::from(PAGES)), false).unwrap();
    rig.run(&space);
    assert_eq!(rig.load(&space, start), Ok(0));
    rig.memory.list_collected();
    rig.rest();
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(0));
    assert!(near(rig.platform().leads_to(1, start)));
    let (here, there) = take_all(&rig);
    owe(&rig, &space, here);
    settle_by_ticks(&rig);
    // More frames than may owe at a time are settled, but not yet checked.
    assert!(rig.memory.owing_frames() > 2 * MOVED as u64);
    let before = rig.memory.counters().interrupts;
    let taken = rig.memory.reclaim_range(&space, start, Pages::new(u64::from(PAGES)));
    assert_eq!((taken, rig.memory.counters().interrupts), (Ok(u64::from(PAGES)), before));
    free(&rig, there);
    drop(rig.memory.engine().unload());
    rig.memory.unmap(&space, start, Pages::new(u64::from(PAGES))).unwrap();
    rig.memory.delete_file(file);
    finish(&rig, space, all);
}

#[test]
fn no_node_exceeds_its_bound_because_another_has_room() {
    const PAGES: u64 = 3 * ceasefire::BATCH as u64;
    let lazy = Lazy { max_owed: Some(MOVED as u32), ..bounds() };
    let rig = Rig::by_hand(Config { read_ahead: 1, fault_around: 1, ..lazily(lazy) });
    let all = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    let file = rig.memory.create_file(PAGES as u32).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(PAGES), false).unwrap();
    let load = |cpu, page| assert_eq!(rig.on(cpu, || rig.load(&space, start + page * PAGE_BYTES)), Ok(0));
    rig.run(&space);
    rig.on(1, || rig.run(&space));
    // The first page of each batch is on the near node, all others on the far one.
    (0..PAGES).for_each(|page| load(usize::from(page % ceasefire::BATCH as u64 != 0), page));
    (0..PAGES).for_each(|page| load(1, page));
    rig.memory.list_collected();
    assert_eq!(rig.memory.reclaim_range(&space, start, Pages::new(PAGES)), Ok(PAGES));
    // Only the first batch owes. The others were flushed, wherever their frames are.
    assert_eq!(rig.memory.owing_frames(), ceasefire::BATCH as u64);
    drop(rig.memory.engine().unload());
    rig.memory.unmap(&space, start, Pages::new(PAGES)).unwrap();
    rig.memory.delete_file(file);
    finish(&rig, space, all);
}

#[test]
fn a_node_runs_ahead_only_while_frames_come_to_owe() {
    let (rig, space) = machine(bounds());
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    owe(&rig, &space, here);
    settle_by_ticks(&rig);
    // From here on frames are taken at the same rate, and none comes to owe.
    let mut here = Vec::new();
    for _ in 0..64 {
        free(&rig, here);
        pass(&rig, AGE);
        here = take_all(&rig).0;
    }
    // 62 are with the node, above its low watermark of 40; the others are with CPU 1.
    let rest = here.split_off(here.len() - 156 - 2 * MOVED);
    rig.on(1, || free(&rig, rest));
    rig.memory.reclaim_node(NEAR);
    rig.platform().take_wake(NEAR);
    let frame = rig.platform().interrupts_off(|| rig.memory.allocate_atomic(NEAR)).unwrap();
    assert!(near(frame.number()) && !rig.platform().take_wake(NEAR), "there are enough frames");
    free(&rig, here.into_iter().chain([frame]).chain(there));
    finish(&rig, space, all);
}

#[test]
fn a_node_without_frames_causes_no_payment() {
    let nodes = vec![NodeLayout::new(FRAMES), NodeLayout::new(0)];
    let rig = Rig::by_hand(Config { nodes, ..lazily(bounds()) });
    let all = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.on(1, || rig.run(&space));
    let file = rig.memory.create_file(200).unwrap();
    let mut byte = [1];
    for page in 0..200 {
        rig.memory.read(file, page * PAGE_BYTES, &mut byte).unwrap();
    }
    let (mut here, there) = take_all(&rig);
    assert!(there.is_empty());
    let rest = here.split_off(1);
    let (owing, _) = owe(&rig, &space, here);
    // No frame is free, so this reclaims directly. It finds enough pages in the file, and need not pay.
    let fresh = rig.memory.new_space().unwrap();
    assert!(!owing.contains(&fresh.root()));
    assert_eq!((rig.memory.counters().interrupts, rig.memory.owing_frames()), (0, 1));
    assert!(rig.memory.statistics().reclaimed_direct > 0);
    free(&rig, rest);
    rig.memory.exit(fresh);
    rig.memory.delete_file(file);
    finish(&rig, space, all);
}

#[test]
fn with_age_zero_nothing_owes() {
    let (rig, space) = machine(Lazy { max_age: 0, ..bounds() });
    let all = rig.memory.free_frames() + 1;
    let (here, there) = take_all(&rig);
    let mut batch: Batch<'_, _, Frame, _> =
        Batch::new(rig.memory.engine(), Schedule::Lazy, |frame: Owed<Frame>| {
            assert_eq!(frame.stamp(), Stamp::SETTLED);
            rig.memory.free_owed(frame);
        });
    for frame in here {
        let mut unmapping = batch.take(frame);
        unmapping.clear(&TableLock(space.clone()), 0, PageSize::KIB_4, |_| READ);
        unmapping.release_in_debt(Condition::UNKEPT);
    }
    drop(batch);
    assert_eq!(rig.memory.owing_frames(), 0);
    free(&rig, there);
    finish(&rig, space, all);
}

#[test]
fn bounds_that_cannot_be_kept_are_refused_with_those_that_can() {
    let refused = |lazy| Rig::refused(lazily(lazy));
    let (node, frames) = (NEAR, FRAMES);
    for max_owed in [0, FRAMES + 1] {
        let error = ConfigError::MaxOwed { node, max_owed, frames };
        assert_eq!(refused(Lazy { max_owed: Some(max_owed), ..bounds() }), error);
        assert!(error.to_string().contains("at most its 512"), "{error}");
    }
    let reserve = FRAMES + 1;
    let error = ConfigError::Reserve { node, reserve, frames };
    assert_eq!(refused(Lazy { reserve: Some(reserve), ..bounds() }), error);
    assert!(error.to_string().contains("at most its 512"), "{error}");
    let max_age = LONGEST_AGE + 1;
    let error = ConfigError::Bounds(BoundsError::TooOld { max_age });
    assert_eq!(refused(Lazy { max_age, ..bounds() }), error);
    assert!(error.to_string().contains(&LONGEST_AGE.to_string()), "{error}");
    assert_eq!(refused(Lazy { tick: 0, ..bounds() }), ConfigError::Bounds(BoundsError::NoTick));
    let most = Lazy { max_owed: Some(FRAMES), reserve: Some(FRAMES), ..bounds() };
    drop(Rig::by_hand(lazily(most)));
    // A node with CPUs and no memory.
    let nodes = vec![NodeLayout::new(FRAMES), NodeLayout::new(0)];
    drop(Rig::by_hand(Config { nodes, ..lazily(most) }));
}
