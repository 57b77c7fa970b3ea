//! Moving pages between nodes: batches, single pages, hints and demotion, with other operations meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ceasefire::Schedule;
use ceasefire_memory::{
    Busy, Config, FaultError, Frame, MigrateError, Migrated, Moved, NodeId, NodeLayout, Pages, Placement,
    Protection, RangeError, Work, USER_END,
};

use crate::common::{
    at, between, config, exhaust, finish, free, meet, owing, running, shared_space, Moment, Rig, Space,
};

const NEAR: NodeId = NodeId(0);
const FAR: NodeId = NodeId(1);

/// A machine of two CPUs on two nodes, a space that both run, and `pages` pages on the first node that both have used:
/// page `n` holds `n + 1`.
fn pages_in_use(config: Config, pages: u64) -> (Rig, Space, u64, u64) {
    let (rig, space, free) = running(config);
    let start = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    for page in 0..pages {
        rig.store(&space, at(start, page), page + 1).unwrap();
        rig.on(1, || rig.store(&space, at(start, page) + 8, page)).unwrap();
    }
    (rig, space, start, free)
}

fn assert_kept(rig: &Rig, space: &Space, start: u64, pages: u64) {
    for cpu in 0..2 {
        for page in 0..pages {
            assert_eq!(rig.on(cpu, || rig.load(space, at(start, page))), Ok(page + 1), "page {page}");
            assert_eq!(rig.on(cpu, || rig.load(space, at(start, page) + 8)), Ok(page), "page {page}");
        }
    }
}

fn moved(rig: &Rig, space: &Space) -> Migrated {
    rig.memory.migrate_space(space, NEAR, FAR).unwrap()
}

/// The number of interrupting flushes that `body` costs.
fn shootdowns(rig: &Rig, body: impl FnOnce()) -> u64 {
    let before = rig.memory.counters();
    body();
    rig.memory.counters().since(&before).shootdowns
}

#[test]
fn a_batch_of_pages_costs_one_flush_and_keeps_their_bytes() {
    let (rig, space, start, free) = pages_in_use(config(4096), 512);
    let flushes = shootdowns(&rig, || assert_eq!(moved(&rig, &space), Migrated { moved: 512, busy: 0 }));
    assert_eq!(flushes, 1);
    assert_kept(&rig, &space, start, 512);
    assert_eq!(moved(&rig, &space), Migrated::default(), "no page is left in its old place");
    assert_eq!(rig.memory.statistics().migrated, 512);
    finish(&rig, space, &[], free);
}

#[test]
fn pages_beyond_a_batch_cost_another_flush() {
    let (rig, space, start, free) = pages_in_use(config(4096), 700);
    let flushes = shootdowns(&rig, || assert_eq!(moved(&rig, &space).moved, 700));
    assert_eq!(flushes, 2);
    assert_kept(&rig, &space, start, 700);
    finish(&rig, space, &[], free);
}

#[test]
fn without_batches_every_page_costs_a_flush() {
    let (rig, space, start, free) = pages_in_use(Config { schedule: Schedule::PerPage, ..config(1024) }, 40);
    let flushes = shootdowns(&rig, || assert_eq!(moved(&rig, &space).moved, 40));
    assert_eq!(flushes, 40);
    assert_kept(&rig, &space, start, 40);
    finish(&rig, space, &[], free);
}

#[test]
fn a_page_of_a_file_moves_with_its_place_and_stays_dirty_or_clean() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(8).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(8), true).unwrap();
    rig.store(&space, at(start, 1), 11).unwrap();
    rig.load(&space, at(start, 2)).unwrap();
    assert_eq!(moved(&rig, &space).moved, 7);
    assert_eq!(rig.memory.cached_pages(file), 7, "no page exists twice");
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 1))), Ok(11));
    assert_eq!(rig.memory.sync(file), 1, "only the dirty one");
    assert_eq!(moved(&rig, &space).moved, 0);
    assert_eq!(rig.memory.migrate_space(&space, FAR, NEAR).unwrap().moved, 7);
    assert_eq!(rig.memory.sync(file), 0, "a clean page stays clean");
    rig.store(&space, at(start, 1), 12).unwrap();
    assert_eq!(rig.memory.sync(file), 1);
    finish(&rig, space, &[file], free);
}

#[test]
fn pages_that_others_map_too_stay() {
    let (rig, space, start, free) = pages_in_use(config(1024), 4);
    let child = rig.memory.fork(&space).unwrap();
    let file = rig.memory.create_file(4).unwrap();
    let own = rig.memory.map_shared(&space, file, 0, Pages::new(4), false).unwrap();
    let other = rig.memory.new_space().unwrap();
    let theirs = rig.memory.map_shared(&other, file, 0, Pages::new(4), false).unwrap();
    rig.load(&space, own).unwrap();
    rig.run(&other);
    rig.load(&other, theirs).unwrap();
    rig.run(&space);
    assert_eq!(moved(&rig, &space), Migrated::default());
    rig.memory.exit(other);
    rig.run(&space);
    rig.memory.exit(child);
    rig.run(&space);
    assert_eq!(moved(&rig, &space), Migrated { moved: 8, busy: 0 });
    assert_kept(&rig, &space, start, 4);
    finish(&rig, space, &[file], free);
}

#[test]
fn a_page_held_all_the_time_stays_where_it_is() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(4).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
    rig.store(&space, start, 5).unwrap();
    rig.on(1, || rig.load(&space, start)).unwrap();
    let (inner, inner_space) = (rig.clone(), space.clone());
    // A read of a file holds the page meanwhile.
    rig.platform().at(Moment::Load, move || {
        inner.on(1, || {
            assert_eq!(moved(&inner, &inner_space), Migrated { moved: 3, busy: 1 });
            assert_eq!(inner.load(&inner_space, start), Ok(5), "it is back in its place");
            inner.store(&inner_space, start, 6).unwrap();
        });
    });
    let mut bytes = [0; 8];
    assert_eq!(rig.memory.read(file, 0, &mut bytes), Ok(8));
    assert_eq!(rig.memory.statistics().migrated, 3);
    assert_eq!(rig.load(&space, start), Ok(6));
    assert_eq!(moved(&rig, &space), Migrated { moved: 1, busy: 0 }, "it has no other holder now");
    finish(&rig, space, &[file], free);
}

#[test]
fn a_busy_page_gets_its_entries_back_and_is_tried_again() {
    let rig = Rig::threaded(config(512));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(4).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
    rig.store(&space, start, 5).unwrap();
    let flags = || Arc::new(AtomicBool::new(false));
    let (holds, may_go, gone) = (flags(), flags(), flags());
    std::thread::scope(|scope| {
        {
            let (rig, holds, may_go, gone) = (rig.clone(), holds.clone(), may_go.clone(), gone.clone());
            scope.spawn(move || {
                let _fails = rig.start(1);
                let (inner, holding, released) = (rig.clone(), holds, may_go);
                rig.platform().at(Moment::Load, move || {
                    holding.store(true, Ordering::SeqCst);
                    inner.platform().idle_until(|| released.load(Ordering::SeqCst));
                });
                assert_eq!(rig.memory.read(file, 0, &mut [0; 8]), Ok(8));
                gone.store(true, Ordering::SeqCst);
                rig.platform().idle_until(|| rig.platform().all_done());
            });
        }
        let _fails = rig.start(0);
        rig.platform().idle_until(|| holds.load(Ordering::SeqCst));
        let (inner, inner_space) = (rig.clone(), space.clone());
        // Four pages in the first round. The fifth visit to a page is the second to the busy one.
        rig.platform().after(4, Moment::Work(Work::MigratePage), move || {
            assert_eq!(inner.load(&inner_space, start), Ok(5), "no CPU waits for it between two rounds");
            may_go.store(true, Ordering::SeqCst);
            inner.platform().idle_until(|| gone.load(Ordering::SeqCst));
        });
        assert_eq!(moved(&rig, &space), Migrated { moved: 4, busy: 0 });
    });
    assert_eq!(rig.load(&space, start), Ok(5));
    rig.platform().assert_no_violation();
}

/// Writes a file out on CPU 0 while CPU 1, which moves both dirty pages, is at the occurrence of `moment` after the next
/// `times`; returns how many were written.
fn synced_during(times: u32, moment: Moment) -> u64 {
    let rig = Rig::threaded(config(512));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(2).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    for page in 0..2 {
        rig.store(&space, at(start, page), 5).unwrap();
    }
    rig.memory.list_collected();
    let flags = || Arc::new(AtomicBool::new(false));
    let (there, waits) = (flags(), flags());
    // Each CPU answers interrupts until both are done.
    let (moves, syncs) = (flags(), flags());
    let written = std::thread::scope(|scope| {
        {
            let (rig, space) = (rig.clone(), space.clone());
            let (there, waits) = (there.clone(), waits.clone());
            let (moves, syncs) = (moves.clone(), syncs.clone());
            scope.spawn(move || {
                let _fails = rig.start(1);
                let (inner, arrived, waiting) = (rig.clone(), there, waits);
                rig.platform().after(times, moment, move || {
                    arrived.store(true, Ordering::SeqCst);
                    inner.platform().idle_until(|| waiting.load(Ordering::SeqCst));
                });
                let migrated = moved(&rig, &space);
                assert_eq!(migrated.moved + migrated.busy, 2, "the sync may hold the pages all the time");
                moves.store(true, Ordering::SeqCst);
                rig.platform().idle_until(|| syncs.load(Ordering::SeqCst));
            });
        }
        let _fails = rig.start(0);
        rig.platform().idle_until(|| there.load(Ordering::SeqCst));
        rig.platform().at(Moment::Wait, move || waits.store(true, Ordering::SeqCst));
        let written = rig.memory.sync(file);
        assert!(rig.platform().all_done(), "the sync did not wait for a page");
        syncs.store(true, Ordering::SeqCst);
        rig.platform().idle_until(|| moves.load(Ordering::SeqCst));
        written
    });
    rig.platform().assert_no_violation();
    written
}

#[test]
fn a_sync_waits_for_a_page_on_its_way_and_writes_it() {
    // The first page is locked, and the second is not.
    assert_eq!(synced_during(1, Moment::Work(Work::MigratePage)), 2);
    // No task can hold the first page.
    assert_eq!(synced_during(0, Moment::Copy), 2);
}

#[test]
fn a_full_target_is_an_error_and_no_program_notices() {
    let nodes = vec![NodeLayout::new(1024), NodeLayout::new(256)];
    let (rig, space, start, free) = pages_in_use(Config::new(nodes, 2, Schedule::Batched), 400);
    let left = rig.memory.free_frames();
    let Err(MigrateError::Full { node, migrated }) = rig.memory.migrate_space(&space, NEAR, FAR) else {
        panic!("256 frames hold 400 pages")
    };
    assert_eq!((node, migrated.busy), (FAR, 0));
    assert!((100..256).contains(&migrated.moved), "{migrated:?}");
    assert_eq!(rig.memory.statistics().migrated, migrated.moved);
    assert_eq!(rig.memory.free_frames(), left);
    assert_kept(&rig, &space, start, 400);
    assert_eq!(
        rig.memory.migrate_space(&space, NEAR, FAR),
        Err(MigrateError::Full { node: FAR, migrated: Migrated::default() })
    );
    assert_eq!(rig.memory.migrate_space(&space, FAR, NEAR).unwrap().moved, migrated.moved, "none was lost");
    finish(&rig, space, &[], free);
}

#[test]
fn nodes_that_do_not_exist_are_named_and_nothing_moves() {
    let (rig, space, start, free) = pages_in_use(config(512), 4);
    for (from, to, wrong) in [(0, 2, 2), (7, 1, 7), (9, 8, 9)] {
        let error = MigrateError::NoNode(NodeId(wrong));
        assert_eq!(rig.memory.migrate_space(&space, NodeId(from), NodeId(to)), Err(error));
    }
    assert_eq!(rig.memory.move_pages(&space, &[(start, NodeId(2))]), [Moved::NoNode]);
    assert_eq!(rig.memory.migrate_space(&space, NEAR, NEAR), Ok(Migrated::default()));
    assert_eq!(rig.memory.statistics().migrated, 0);
    assert_kept(&rig, &space, start, 4);
    finish(&rig, space, &[], free);
}

#[test]
fn each_page_of_move_pages_has_a_status_of_its_own() {
    let (rig, space, start, free) = pages_in_use(config(1024), 8);
    let child = rig.memory.fork(&space).unwrap();
    for page in 0..6 {
        rig.store(&space, at(start, page), page + 1).unwrap();
    }
    let zeros = rig.memory.map_anonymous(&space, Pages::new(4)).unwrap();
    rig.load(&space, zeros).unwrap();
    let wanted = [
        (at(start, 0), FAR),
        (at(start, 1) + 77, FAR),
        (at(start, 2), NEAR),
        (at(start, 7), FAR),
        (zeros, FAR),
        (at(zeros, 1), FAR),
        (at(zeros, 4), FAR),
        (USER_END, FAR),
        (u64::MAX, FAR),
        (at(start, 3), NodeId(3)),
        (at(start, 4), FAR),
        (at(start, 4), FAR),
    ];
    let expected = [
        Moved::There,
        Moved::There,
        Moved::There,
        Moved::Shared,
        Moved::Absent,
        Moved::Absent,
        Moved::NotMapped,
        Moved::NotMapped,
        Moved::NotMapped,
        Moved::NoNode,
        Moved::There,
        Moved::There,
    ];
    assert_eq!(rig.memory.move_pages(&space, &wanted), expected);
    assert_eq!(rig.memory.statistics().migrated, 3);
    rig.memory.exit(child);
    rig.run(&space);
    assert_kept(&rig, &space, start, 8);
    finish(&rig, space, &[], free);
}

#[test]
fn move_pages_says_when_a_node_is_full_and_when_a_page_is_busy() {
    let nodes = vec![NodeLayout::new(1024), NodeLayout::new(64)];
    let (rig, space, start, free) = pages_in_use(Config::new(nodes, 2, Schedule::Batched), 100);
    let wanted: Vec<_> = (0..100).map(|page| (at(start, page), FAR)).collect();
    let statuses = rig.memory.move_pages(&space, &wanted);
    let there = statuses.iter().take_while(|&&status| status == Moved::There).count();
    assert!(there > 20, "{there}");
    assert!(statuses[there..].iter().all(|&status| status == Moved::Full), "{statuses:?}");
    assert_eq!(rig.memory.statistics().migrated, there as u64);
    rig.memory.unmap(&space, start, Pages::new(50)).unwrap();
    let file = rig.memory.create_file(1).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    rig.load(&space, shared).unwrap();
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Load, move || {
        assert_eq!(inner.memory.move_pages(&inner_space, &[(shared, FAR)]), [Moved::Busy]);
    });
    rig.memory.read(file, 0, &mut [0; 8]).unwrap();
    finish(&rig, space, &[file], free);
}

#[test]
fn a_hidden_page_counts_its_next_use_and_moves_to_its_user() {
    let (rig, space, start, free) = pages_in_use(config(1024), 8);
    rig.memory.list_collected();
    assert_eq!(rig.memory.hint(&space, start, Pages::new(8)), Ok(8));
    assert_eq!(rig.memory.hint(&space, start, Pages::new(8)), Ok(0), "they are hidden already");
    for cpu in 0..2 {
        assert!(!rig.platform().caches(cpu, start), "CPU {cpu} would use it unseen");
    }
    assert_eq!(rig.load(&space, start), Ok(1));
    assert_eq!((rig.memory.statistics().hints, rig.memory.statistics().promoted), (1, 0), "it is near");
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 1))), Ok(2));
    rig.on(1, || rig.store(&space, at(start, 2), 3)).unwrap();
    let statistics = rig.memory.statistics();
    assert_eq!((statistics.hints, statistics.promoted, statistics.migrated), (3, 2, 2));
    assert_eq!(moved(&rig, &space).moved, 6, "two have moved already");
    assert_kept(&rig, &space, start, 8);
    finish(&rig, space, &[], free);
}

#[test]
fn hidden_pages_that_are_shared_do_not_move_to_one_of_their_users() {
    let (rig, space, start, free) = pages_in_use(config(1024), 2);
    rig.memory.list_collected();
    let child = rig.memory.fork(&space).unwrap();
    rig.memory.hint(&space, start, Pages::new(2)).unwrap();
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(1));
    assert_eq!(rig.memory.statistics().promoted, 0);
    rig.memory.exit(child);
    rig.run(&space);
    finish(&rig, space, &[], free);
}

#[test]
fn a_page_on_its_way_to_the_lists_does_not_move_to_its_user() {
    let (rig, space, start, free) = pages_in_use(config(1024), 2);
    assert_eq!(rig.memory.hint(&space, start, Pages::new(2)), Ok(2));
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(1));
    assert_eq!((rig.memory.statistics().hints, rig.memory.statistics().promoted), (1, 0));
    rig.memory.list_collected();
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 1))), Ok(2));
    assert_eq!((rig.memory.statistics().hints, rig.memory.statistics().promoted), (2, 1));
    assert_kept(&rig, &space, start, 2);
    finish(&rig, space, &[], free);
}

#[test]
fn a_page_that_moved_to_its_user_can_be_used_at_once() {
    let (rig, space) = owing::machine(owing::bounds());
    let free = rig.memory.free_frames() + 1;
    rig.run(&space);
    let file = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    assert_eq!(rig.load(&space, start), Ok(0));
    rig.memory.list_collected();
    assert_eq!(rig.memory.hint(&space, start, Pages::new(1)), Ok(1));
    let before = rig.memory.statistics().faults;
    // No CPU could store to the page, so it could also have arrived with a debt, and the CPU had to pay that first.
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(0));
    assert_eq!((rig.memory.statistics().promoted, rig.memory.statistics().faults), (1, before + 1));
    finish(&rig, space, &[file], free);
}

/// A page on node `home`, which the CPU of node 0 uses next. Node `short` has 62 free frames, which all owe; no more
/// than that are free anywhere. They are above the minimum, and so few that a payment is not worth it.
fn with_few_owing_frames(home: usize, short: NodeId, lazy: Config) -> (Rig, [Space; 2], u64, Vec<Frame>) {
    let rig = Rig::by_hand(lazy);
    let [space, other] = [(); 2].map(|()| rig.memory.new_space().unwrap());
    let start = rig.on(home, || {
        rig.run(&space);
        let start = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
        rig.store(&space, start, 1).unwrap();
        start
    });
    rig.memory.list_collected();
    rig.memory.hint(&space, start, Pages::new(1)).unwrap();
    rig.on(1, || rig.run(&other));
    let (near, far) = owing::take_all(&rig);
    let (mut few, mut kept) = if short == NEAR { (near, far) } else { (far, near) };
    kept.extend(few.split_off(2 * owing::MOVED));
    assert_eq!(owing::owe(&rig, &other, few).0.len(), 2 * owing::MOVED);
    rig.run(&space);
    (rig, [space, other], start, kept)
}

/// Ends a machine of [`with_few_owing_frames`].
fn end_owing(rig: &Rig, [space, other]: [Space; 2], kept: Vec<Frame>) {
    free(rig, kept);
    drop(rig.memory.engine().unload());
    rig.memory.exit(space);
    rig.platform().assert_no_violation();
    drop(other);
}

#[test]
fn a_page_does_not_move_to_its_user_if_the_frame_must_be_paid_for() {
    let (rig, [space, other], start, kept) = with_few_owing_frames(1, NEAR, owing::lazily(owing::bounds()));
    assert_eq!(rig.load(&space, start), Ok(1));
    let statistics = rig.memory.statistics();
    assert_eq!((statistics.hints, statistics.promoted, statistics.allocations_paid), (1, 0, 0));
    assert_eq!(rig.memory.owing_frames(), 2 * owing::MOVED as u64);
    end_owing(&rig, [space, other], kept);
}

#[test]
fn no_page_is_demoted_if_the_frame_must_be_paid_for() {
    let mut config = owing::lazily(owing::bounds());
    config.nodes[1].tier = 1;
    let (rig, [space, other], start, kept) = with_few_owing_frames(0, FAR, config);
    rig.memory.reclaim_node(NEAR);
    let statistics = rig.memory.statistics();
    assert!(statistics.scanned > 0, "no frame of the near node is free");
    assert_eq!((statistics.demoted, statistics.allocations_paid), (0, 0));
    assert_eq!(rig.memory.owing_frames(), 2 * owing::MOVED as u64);
    assert_eq!(rig.load(&space, start), Ok(1));
    end_owing(&rig, [space, other], kept);
}

#[test]
fn a_hint_hides_only_present_and_usable_pages() {
    let (rig, space, start, free) = pages_in_use(config(512), 4);
    for (from, pages) in [(start, 0), (start + 1, 1), (USER_END, 1), (start, u64::MAX)] {
        let pages = Pages::new(pages);
        assert_eq!(rig.memory.hint(&space, from, pages), Err(RangeError { start: from, pages }));
    }
    rig.memory.protect(&space, start, Pages::new(2), Protection::None).unwrap();
    assert_eq!(rig.memory.hint(&space, 0, between(0, USER_END)), Ok(2));
    assert_eq!(rig.load(&space, start), Err(FaultError::NoAccess(start)));
    assert_eq!(rig.load(&space, at(start, 2)), Ok(3));
    finish(&rig, space, &[], free);
}

/// A small fast node and a larger slow one. The CPU is on the fast node.
fn tiers(fast: u32, slow: u32) -> Config {
    let nodes = vec![NodeLayout::new(fast), NodeLayout { frames: slow, tier: 1 }];
    Config { lru_batch: 1, read_ahead: 1, ..Config::new(nodes, 1, Schedule::Batched) }
}

fn one_space(config: Config) -> (Rig, Space, u64) {
    let rig = Rig::by_hand(config);
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    (rig, space, free)
}

fn finish_alone(rig: &Rig, space: Space, free: u64) {
    rig.memory.exit(space);
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), free, "frames were lost or found");
    rig.platform().assert_no_violation();
}

#[test]
fn unused_pages_are_demoted_to_slow_memory_before_any_is_freed() {
    let (rig, space, free) = one_space(tiers(256, 1024));
    let start = rig.memory.map_anonymous(&space, Pages::new(128)).unwrap();
    for page in 0..128 {
        rig.store(&space, at(start, page), page + 1).unwrap();
    }
    let file = rig.memory.create_file(16).unwrap();
    rig.memory.write(file, 0, &vec![7; 16 * 4096]).unwrap();
    let spaces: Vec<Space> = (0..250).map(|_| rig.memory.new_space().unwrap()).collect();
    rig.memory.reclaim_node(NEAR);
    rig.memory.reclaim_node(NEAR);
    let statistics = rig.memory.statistics();
    assert!(statistics.demoted >= 64, "{statistics:?}");
    assert_eq!(rig.memory.cached_pages(file), 16, "none was freed");
    assert_eq!(statistics.written, 0);
    for page in 0..128 {
        assert_eq!(rig.load(&space, at(start, page)), Ok(page + 1));
    }
    crate::common::end(&rig, spaces);
    rig.run(&space);
    rig.memory.delete_file(file);
    finish_alone(&rig, space, free);
}

#[test]
fn pages_of_files_are_freed_where_slow_memory_has_no_room_for_them() {
    let (rig, space, free) = one_space(tiers(512, 64));
    let file = rig.memory.create_file(400).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(400), false).unwrap();
    for page in 0..400 {
        rig.load(&space, at(shared, page)).unwrap();
    }
    // Fills the rest, the slow node first. None of these pages can move anywhere.
    let start = rig.memory.map_anonymous(&space, Pages::new(500)).unwrap();
    for page in 0..440 {
        assert_eq!(rig.store(&space, at(start, page), page + 1), Ok(()), "page {page}");
    }
    assert!(rig.memory.cached_pages(file) < 100);
    for page in 0..440 {
        assert_eq!(rig.load(&space, at(start, page)), Ok(page + 1));
    }
    rig.memory.unmap(&space, shared, Pages::new(400)).unwrap();
    rig.memory.delete_file(file);
    finish_alone(&rig, space, free);
}

#[test]
fn with_demotion_off_pages_are_freed() {
    let (rig, space, free) = one_space(Config { demote: false, ..tiers(256, 1024) });
    let file = rig.memory.create_file(128).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(128), false).unwrap();
    for page in 0..128 {
        rig.load(&space, at(shared, page)).unwrap();
    }
    let spaces: Vec<Space> = exhaust(&rig);
    assert_eq!((rig.memory.statistics().demoted, rig.memory.cached_pages(file)), (0, 0));
    crate::common::end(&rig, spaces);
    rig.run(&space);
    rig.memory.unmap(&space, shared, Pages::new(128)).unwrap();
    rig.memory.delete_file(file);
    finish_alone(&rig, space, free);
}

/// Moves the pages of a space. Performs `act` as CPU 0 when the first page has set out and nothing is flushed.
fn during_departure(rig: &Rig, space: &Space, act: impl FnOnce(&Rig, &Space) + Send + 'static) -> Migrated {
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().after(1, Moment::Work(Work::MigratePage), move || act(&inner, &inner_space));
    let migrated = rig.on(1, || moved(rig, space));
    assert!(rig.platform().all_done());
    migrated
}

/// The same when all are flushed and the first is about to be copied.
fn during_copy(rig: &Rig, space: &Space, act: impl FnOnce(&Rig, &Space) + Send + 'static) -> Migrated {
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Copy, move || inner.on(0, || act(&inner, &inner_space)));
    let migrated = rig.on(1, || moved(rig, space));
    assert!(rig.platform().all_done());
    migrated
}

#[test]
fn a_store_before_the_flush_is_copied_too() {
    let (rig, space, start, free) = pages_in_use(config(512), 4);
    let migrated = during_departure(&rig, &space, move |rig, space| {
        rig.on(0, || {
            assert!(rig.platform().caches(0, start), "nothing is flushed yet");
            rig.store(space, start, 99).unwrap();
        });
    });
    assert_eq!(migrated.moved, 4);
    for cpu in 0..2 {
        assert_eq!(rig.on(cpu, || rig.load(&space, start)), Ok(99));
    }
    finish(&rig, space, &[], free);
}

#[test]
fn a_page_that_another_program_maps_before_the_flush_is_mapped_once_by_each_and_moves() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let other = rig.memory.new_space().unwrap();
    let file = rig.memory.create_file(2).unwrap();
    let map = |space: &Space| rig.memory.map_shared(space, file, 0, Pages::new(2), false).unwrap();
    let (start, theirs) = (map(&space), map(&other));
    assert_eq!(rig.load(&space, start), Ok(0));
    let mapper = other.clone();
    let migrated = during_departure(&rig, &space, move |rig, space| {
        rig.on(0, || {
            rig.run(&mapper);
            assert_eq!(rig.load(&mapper, theirs), Ok(0));
            rig.run(space);
        });
    });
    assert_eq!(migrated, Migrated { moved: 2, busy: 0 });
    assert_eq!(rig.load(&space, start), Ok(0));
    rig.run(&other);
    assert_eq!(rig.load(&other, theirs), Ok(0));
    rig.memory.exit(other);
    rig.run(&space);
    finish(&rig, space, &[file], free);
}

#[test]
fn after_the_flush_no_cpu_holds_the_copied_page() {
    let (rig, space, start, free) = pages_in_use(config(512), 4);
    during_copy(&rig, &space, move |rig, _| {
        for cpu in 0..2 {
            assert!((0..4).all(|page| !rig.platform().caches(cpu, at(start, page))), "CPU {cpu}");
        }
    });
    assert_kept(&rig, &space, start, 4);
    finish(&rig, space, &[], free);
}

#[test]
fn a_page_on_its_way_is_busy_for_an_invalidation() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(2).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    assert_eq!(rig.load(&space, start), Ok(0));
    rig.memory.list_collected();
    let migrated = during_copy(&rig, &space, move |rig, _| {
        assert_eq!(rig.memory.invalidate(file, 0, 2), Err(Busy { pages: 1 }));
    });
    assert_eq!((migrated.moved, rig.memory.cached_pages(file)), (1, 1), "the other page is dropped");
    assert_eq!(rig.memory.invalidate(file, 0, 2), Ok(()));
    finish(&rig, space, &[file], free);
}

#[test]
fn an_access_to_a_page_on_its_way_waits_and_finds_it() {
    let rig = Rig::threaded(config(512));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let start = rig.memory.map_anonymous(&space, Pages::new(2)).unwrap();
    rig.store(&space, start, 5).unwrap();
    rig.store(&space, at(start, 1), 6).unwrap();
    let moves = || assert_eq!(moved(&rig, &space).moved, 2);
    meet((&rig, &space), Moment::Copy, moves, |rig, space| {
        rig.store(space, start, 7).unwrap();
        assert_eq!(rig.load(space, at(start, 1)), Ok(6));
    });
    assert_eq!(rig.load(&space, start), Ok(7), "the store found the copy");
    rig.platform().assert_no_violation();
}

#[test]
fn a_page_unmapped_while_it_moves_is_gone() {
    for early in [true, false] {
        let (rig, space, start, free) = pages_in_use(config(512), 4);
        let act = move |rig: &Rig, space: &Space| {
            rig.memory.unmap(space, start, Pages::new(4)).unwrap();
            for cpu in 0..2 {
                rig.on(cpu, || assert_eq!(rig.load(space, start), Err(FaultError::NotMapped(start))));
            }
        };
        let migrated =
            if early { during_departure(&rig, &space, act) } else { during_copy(&rig, &space, act) };
        assert!(migrated.moved + migrated.busy <= 4);
        assert_eq!(rig.load(&space, start), Err(FaultError::NotMapped(start)));
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_page_discarded_while_it_moves_reads_as_zero() {
    for early in [true, false] {
        let (rig, space, start, free) = pages_in_use(config(512), 4);
        let act = move |rig: &Rig, space: &Space| {
            rig.memory.discard(space, start, Pages::new(1)).unwrap();
            for cpu in 0..2 {
                rig.on(cpu, || assert_eq!(rig.load(space, start), Ok(0)));
            }
            rig.store(space, start, 77).unwrap();
        };
        if early {
            during_departure(&rig, &space, act);
        } else {
            during_copy(&rig, &space, act);
        }
        for cpu in 0..2 {
            assert_eq!(rig.on(cpu, || rig.load(&space, start)), Ok(77));
            assert_eq!(rig.on(cpu, || rig.load(&space, at(start, 1))), Ok(2));
        }
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_page_that_loses_rights_while_it_moves_arrives_without_them() {
    for early in [true, false] {
        for protection in [Protection::Read, Protection::None] {
            let (rig, space, start, free) = pages_in_use(config(512), 4);
            let act = move |rig: &Rig, space: &Space| {
                rig.memory.protect(space, start, Pages::new(1), protection).unwrap();
            };
            if early {
                during_departure(&rig, &space, act);
            } else {
                during_copy(&rig, &space, act);
            }
            for cpu in 0..2 {
                rig.on(cpu, || {
                    assert!(rig.store(&space, start, 9).is_err(), "{protection:?}");
                    let loaded = rig.load(&space, start);
                    match protection {
                        Protection::Read => assert_eq!(loaded, Ok(1)),
                        _ => assert_eq!(loaded, Err(FaultError::NoAccess(start))),
                    }
                });
            }
            rig.memory.protect(&space, start, Pages::new(1), Protection::Read).unwrap();
            assert_eq!(rig.load(&space, start), Ok(1));
            assert_eq!(rig.store(&space, start, 9), Err(FaultError::ReadOnly(start)));
            rig.memory.protect(&space, start, Pages::new(1), Protection::ReadWrite).unwrap();
            rig.store(&space, start, 9).unwrap();
            assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(9));
            finish(&rig, space, &[], free);
        }
    }
}

#[test]
fn a_page_that_is_remapped_while_it_moves_arrives_at_the_new_place() {
    for early in [true, false] {
        for pages in [4, 512] {
            let (rig, space, start, free) = pages_in_use(config(4096), pages);
            let to = start + (1 << 30);
            let act = move |rig: &Rig, space: &Space| {
                let length = Pages::new(pages);
                assert_eq!(rig.memory.remap(space, start, length, length, Placement::At(to)), Ok(to));
                for cpu in 0..2 {
                    rig.on(cpu, || assert_eq!(rig.load(space, start), Err(FaultError::NotMapped(start))));
                }
            };
            if early {
                during_departure(&rig, &space, act);
            } else {
                during_copy(&rig, &space, act);
            }
            assert_kept(&rig, &space, to, pages);
            finish(&rig, space, &[], free);
        }
    }
}

#[test]
fn a_page_that_is_forked_while_it_moves_arrives_in_both_and_is_copied_on_a_store() {
    for early in [true, false] {
        let (rig, space, start, free) = pages_in_use(config(1024), 4);
        let (send, receive) = std::sync::mpsc::channel();
        let act = move |rig: &Rig, space: &Space| send.send(rig.memory.fork(space).unwrap()).unwrap();
        if early {
            during_departure(&rig, &space, act);
        } else {
            during_copy(&rig, &space, act);
        }
        let child = receive.recv().unwrap();
        rig.store(&space, start, 50).unwrap();
        rig.on(1, || {
            rig.run(&child);
            assert_eq!(rig.load(&child, start), Ok(1));
            rig.store(&child, at(start, 1), 60).unwrap();
            assert_eq!(rig.load(&child, at(start, 3)), Ok(4));
            rig.memory.exit(child);
            rig.run(&space);
        });
        assert_eq!(rig.load(&space, at(start, 1)), Ok(2));
        assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(50));
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_page_that_leaves_its_file_before_it_sets_out_is_gone() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(4).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
    rig.store(&space, start, 5).unwrap();
    let inner = rig.clone();
    rig.platform().at(Moment::Work(Work::MigratePage), move || inner.memory.truncate(file, 0).unwrap());
    moved(&rig, &space);
    assert_eq!(rig.load(&space, start), Err(FaultError::BeyondEnd(start)));
    assert_eq!(rig.memory.cached_pages(file), 0);
    finish(&rig, space, &[file], free);
}

#[test]
fn an_exit_while_pages_move_leaves_nothing_behind() {
    let (rig, space, _, free) = pages_in_use(config(512), 4);
    let other = rig.memory.new_space().unwrap();
    let ended = space.clone();
    rig.on(1, || rig.run(&other));
    during_departure(&rig, &space, move |rig, _| rig.on(0, || rig.memory.exit(ended)));
    rig.on(1, || rig.memory.exit(other));
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), free);
    rig.platform().assert_no_violation();
}
