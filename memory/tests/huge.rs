//! Huge pages: created by faults and by collapsing, split at the ends of a partial operation, moved whole.

use ceasefire::{PageSize, Schedule};
use ceasefire_memory::{
    CollapseError, Config, FaultError, Lazy, Migrated, NodeId, NodeLayout, Pages, Placement, Protection,
    UnmapError, Work, PAGE_BYTES,
};

use crate::common::{self, at, end, exhaust, finish, running, take_all, Moment, Rig, Space};

const NEAR: NodeId = NodeId(0);
const FAR: NodeId = NodeId(1);

fn layout() -> Config {
    let nodes = vec![NodeLayout::new(4096), NodeLayout::new(4096)];
    Config { swap_pages: 2048, lru_batch: 1, ..Config::new(nodes, 2, Schedule::Batched) }
}

fn fill(rig: &Rig, space: &Space, start: u64, pages: u64) {
    for page in 0..pages {
        rig.store(space, at(start, page), 0).unwrap();
        rig.on(1, || rig.store(space, at(start, page), page + 1)).unwrap();
    }
    rig.memory.list_collected();
}

/// Memory of `count` huge pages that both CPUs use; small page `n` holds `n + 1`.
fn huge(count: u64) -> (Rig, Space, u64, u64) {
    let (rig, space, free) = running(layout());
    let start = rig.memory.map_anonymous(&space, Pages::new(count * 512)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::new(count * 512), true).unwrap();
    fill(&rig, &space, start, count * 512);
    (rig, space, start, free)
}

/// The same memory in small pages.
fn small(pages: u64) -> (Rig, Space, u64, u64) {
    let (rig, space, free) = running(layout());
    let start = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    fill(&rig, &space, start, pages);
    (rig, space, start, free)
}

fn both(rig: &Rig, body: impl Fn()) {
    for cpu in 0..2 {
        rig.on(cpu, &body);
    }
}

fn assert_kept(rig: &Rig, space: &Space, start: u64, pages: std::ops::Range<u64>) {
    both(rig, || {
        for page in pages.clone() {
            assert_eq!(rig.load(space, at(start, page)), Ok(page + 1), "page {page}");
        }
    });
}

fn finish_all(rig: &Rig, space: Space, free: u64) {
    finish(rig, space, &[], free);
    assert_eq!(rig.memory.free_slots(), 2048);
}

#[test]
fn a_huge_page_that_cannot_be_split_stays_and_is_passed_over() {
    let (rig, space, free) = running(Config { swap_pages: 0, ..layout() });
    let start = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
    fill(&rig, &space, start, 520);
    let taken = take_all(&rig, NEAR);
    // There is no frame for a table.
    rig.memory.advise_page_out(&space, start, Pages::new(1024)).unwrap();
    assert_eq!(rig.memory.statistics().splits, 0);
    common::free(&rig, taken);
    assert_kept(&rig, &space, start, 0..520);
    finish(&rig, space, &[], free);
}

#[test]
fn one_fault_brings_a_huge_page_where_there_is_room_for_one() {
    let (rig, space, start, free) = huge(2);
    assert_eq!(rig.memory.statistics().faults, 2);
    assert_kept(&rig, &space, start, 0..1024);
    let odd = rig.memory.map_anonymous(&space, Pages::new(600)).unwrap();
    rig.memory.advise_huge(&space, odd, Pages::new(600), true).unwrap();
    let before = rig.memory.free_frames();
    rig.store(&space, at(odd, 599), 1).unwrap();
    assert!(before - rig.memory.free_frames() < 5, "it would reach beyond the area");
    finish_all(&rig, space, free);
}

#[test]
fn a_huge_page_that_a_load_brings_in_takes_stores_only_where_they_are_allowed() {
    let (rig, space, free) = running(layout());
    let start = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
    rig.memory.protect(&space, start, Pages::HUGE, Protection::Read).unwrap();
    both(&rig, || {
        assert_eq!(rig.load(&space, at(start, 7)), Ok(0));
        assert_eq!(rig.store(&space, at(start, 7), 1), Err(FaultError::ReadOnly(at(start, 7))));
    });
    rig.memory.protect(&space, start, Pages::HUGE, Protection::ReadWrite).unwrap();
    both(&rig, || rig.store(&space, at(start, 7), 1).unwrap());
    finish_all(&rig, space, free);
}

#[test]
fn without_512_neighbouring_frames_pages_stay_small() {
    let nodes = vec![NodeLayout::new(400), NodeLayout::new(400)];
    let (rig, space, free) = running(Config { nodes, ..layout() });
    let start = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
    rig.store(&space, start, 5).unwrap();
    assert_eq!(rig.load(&space, start), Ok(5));
    assert_eq!(rig.memory.collapse(&space, start), Err(CollapseError::OutOfMemory));
    assert_eq!(rig.load(&space, start), Ok(5));
    finish_all(&rig, space, free);
}

#[test]
fn unmapping_a_part_splits_and_keeps_the_rest() {
    let (rig, space, start, free) = huge(2);
    rig.memory.unmap(&space, at(start, 100), Pages::new(600)).unwrap();
    assert_eq!(rig.memory.statistics().splits, 2);
    assert_kept(&rig, &space, start, 0..100);
    assert_kept(&rig, &space, start, 700..1024);
    both(&rig, || {
        for page in [100, 511, 512, 699] {
            assert_eq!(rig.load(&space, at(start, page)), Err(FaultError::NotMapped(at(start, page))));
        }
    });
    finish_all(&rig, space, free);
}

#[test]
fn unmapping_the_whole_splits_nothing_and_frees_all() {
    let (rig, space, start, free) = huge(2);
    let before = rig.memory.free_frames();
    rig.memory.unmap(&space, start, Pages::HUGE).unwrap();
    assert_eq!((rig.memory.statistics().splits, rig.memory.free_frames()), (0, before + 512));
    both(&rig, || assert_eq!(rig.load(&space, at(start, 3)), Err(FaultError::NotMapped(at(start, 3)))));
    assert_kept(&rig, &space, start, 512..1024);
    finish_all(&rig, space, free);
}

#[test]
fn protecting_a_part_splits_only_at_its_ends() {
    let (rig, space, start, free) = huge(3);
    rig.memory.protect(&space, at(start, 500), Pages::new(600), Protection::Read).unwrap();
    assert_eq!(rig.memory.statistics().splits, 2, "the one in the middle stays whole");
    both(&rig, || {
        for page in 0..1536 {
            let address = at(start, page);
            let expected =
                if (500..1100).contains(&page) { Err(FaultError::ReadOnly(address)) } else { Ok(()) };
            assert_eq!(rig.store(&space, address, page + 1), expected, "page {page}");
        }
    });
    rig.memory.protect(&space, start, Pages::new(3 * 512), Protection::None).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, at(start, 700)), Err(FaultError::NoAccess(at(start, 700)))));
    rig.memory.protect(&space, start, Pages::new(3 * 512), Protection::Read).unwrap();
    assert_kept(&rig, &space, start, 0..1536);
    both(&rig, || assert!(rig.store(&space, at(start, 700), 1).is_err()));
    finish_all(&rig, space, free);
}

#[test]
fn discarding_a_part_zeroes_only_that_part() {
    let (rig, space, start, free) = huge(1);
    rig.memory.discard(&space, at(start, 100), Pages::new(10)).unwrap();
    both(&rig, || {
        for page in 0..512 {
            let expected = if (100..110).contains(&page) { 0 } else { page + 1 };
            assert_eq!(rig.load(&space, at(start, page)), Ok(expected));
        }
    });
    finish_all(&rig, space, free);
}

#[test]
fn a_huge_page_moves_whole_between_equal_offsets_and_otherwise_in_parts() {
    for (to, splits) in [(1 << 40, 0), ((1 << 40) + 5 * PAGE_BYTES, 1)] {
        let (rig, space, start, free) = huge(1);
        let moved = rig.memory.remap(&space, start, Pages::HUGE, Pages::HUGE, Placement::At(to));
        assert_eq!((moved, rig.memory.statistics().splits), (Ok(to), splits));
        assert_kept(&rig, &space, to, 0..512);
        both(&rig, || {
            for page in 0..512 {
                assert_eq!(rig.load(&space, at(start, page)), Err(FaultError::NotMapped(at(start, page))));
            }
        });
        assert_eq!(rig.memory.migrate_space(&space, NEAR, FAR).unwrap().moved, 512, "the reverse map knows");
        assert_kept(&rig, &space, to, 0..512);
        finish_all(&rig, space, free);
    }
}

#[test]
fn a_mapping_that_shrinks_within_a_huge_page_keeps_the_rest() {
    for kept in [1, 100, 511] {
        let (rig, space, start, free) = huge(1);
        let pages = Pages::new(kept);
        assert_eq!(rig.memory.remap(&space, start, Pages::HUGE, pages, Placement::Here), Ok(start));
        assert_eq!(rig.memory.statistics().splits, 1);
        assert_kept(&rig, &space, start, 0..kept);
        both(&rig, || {
            for page in kept..512 {
                assert_eq!(rig.load(&space, at(start, page)), Err(FaultError::NotMapped(at(start, page))));
            }
        });
        finish_all(&rig, space, free);
    }
}

#[test]
fn a_mapping_moves_over_a_huge_page() {
    let (rig, space, start, free) = huge(2);
    let other = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    fill(&rig, &space, other, 512);
    rig.memory.remap(&space, other, Pages::HUGE, Pages::HUGE, Placement::At(start)).unwrap();
    rig.memory
        .remap(&space, at(start, 1), Pages::new(1), Pages::new(1), Placement::At(at(start, 600)))
        .unwrap();
    both(&rig, || {
        assert_eq!(rig.load(&space, start), Ok(1));
        assert_eq!(rig.load(&space, at(start, 600)), Ok(2));
        assert_eq!(rig.load(&space, at(start, 601)), Ok(602));
        assert_eq!(rig.load(&space, at(start, 1)), Err(FaultError::NotMapped(at(start, 1))));
    });
    finish_all(&rig, space, free);
}

#[test]
fn a_mapping_that_moves_over_either_end_of_a_huge_page_keeps_the_rest() {
    // The mapping has pages, or none and so no table.
    for (first, used) in [(0, true), (300, true), (0, false), (300, false)] {
        let (rig, space, start, free) = huge(1);
        let other = rig.memory.map_anonymous(&space, Pages::new(212)).unwrap();
        fill(&rig, &space, other, if used { 212 } else { 0 });
        let to = at(start, first);
        rig.memory.remap(&space, other, Pages::new(212), Pages::new(212), Placement::At(to)).unwrap();
        both(&rig, || {
            for page in 0..512 {
                let moved = (first..first + 212).contains(&page);
                let expected = match (moved, used) {
                    (true, true) => page - first + 1,
                    (true, false) => 0,
                    (false, _) => page + 1,
                };
                assert_eq!(rig.load(&space, at(start, page)), Ok(expected), "page {page}");
            }
        });
        finish_all(&rig, space, free);
    }
}

#[test]
fn a_discard_spares_a_huge_page_that_is_made_meanwhile_beyond_its_end() {
    let (rig, space, free) = running(layout());
    let start = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    fill(&rig, &space, start, 1);
    rig.memory.advise_huge(&space, at(start, 512), Pages::HUGE, true).unwrap();
    let (inner, inner_space) = (rig.clone(), space.clone());
    // After the first table.
    rig.platform().at(Moment::Reschedule, move || {
        inner.on(1, || inner.store(&inner_space, at(start, 900), 7)).unwrap();
    });
    rig.memory.discard(&space, start, Pages::new(520)).unwrap();
    assert!(rig.platform().all_done());
    both(&rig, || assert_eq!(rig.load(&space, at(start, 900)), Ok(7)));
    assert_eq!(rig.memory.statistics().splits, 0, "it is huge");
    finish_all(&rig, space, free);
}

#[test]
fn a_page_that_is_about_to_migrate_does_not_collapse() {
    let (rig, space, start, free) = small(512);
    let (inner, inner_space) = (rig.clone(), space.clone());
    // The pages are off the lists, and the first is not locked yet.
    rig.platform().at(Moment::Work(Work::MigratePage), move || {
        assert_eq!(inner.memory.collapse(&inner_space, start), Ok(false));
    });
    let migrated = rig.memory.migrate_space(&space, NEAR, FAR).unwrap();
    assert_eq!(migrated, Migrated { moved: 512, busy: 0 });
    assert_kept(&rig, &space, start, 0..512);
    finish_all(&rig, space, free);
}

#[test]
fn the_frame_for_a_split_may_come_from_the_huge_page_itself() {
    let (rig, space, start, free) = huge(1);
    let mut taken = take_all(&rig, NEAR);
    // So many that the other CPU gives back a few to the node, which stays below its minimum.
    let few: Vec<_> = taken.drain(..187).collect();
    rig.on(1, || common::free(&rig, few));
    // The allocation of the table finds too few frames. It reclaims, and so it splits the page first.
    rig.memory.protect(&space, start, Pages::new(1), Protection::Read).unwrap();
    assert_eq!(rig.memory.statistics().splits, 1);
    assert!(rig.memory.statistics().reclaimed_direct > 0);
    common::free(&rig, taken);
    assert_eq!(rig.store(&space, start, 0), Err(FaultError::ReadOnly(start)));
    assert_kept(&rig, &space, start, 0..512);
    finish_all(&rig, space, free);
}

#[test]
fn a_call_reports_each_translation_that_it_withdraws() {
    let (rig, space, start, free) = huge(1);
    let small = rig.memory.map_anonymous(&space, Pages::new(2)).unwrap();
    fill(&rig, &space, small, 2);
    rig.platform().take_withdrawn();
    rig.memory.protect(&space, at(small, 1), Pages::new(1), Protection::Read).unwrap();
    assert_eq!(rig.platform().take_withdrawn(), [(at(small, 1), PageSize::KIB_4)]);
    rig.memory.unmap(&space, small, Pages::new(2)).unwrap();
    assert_eq!(rig.platform().take_withdrawn(), [0, 1].map(|page| (at(small, page), PageSize::KIB_4)));
    rig.memory.unmap(&space, start, Pages::HUGE).unwrap();
    assert_eq!(rig.platform().take_withdrawn(), [(start, PageSize::MIB_2)]);
    finish_all(&rig, space, free);
}

#[test]
fn a_huge_page_that_no_cpu_could_store_to_moves_without_a_flush() {
    let lazy = Lazy { max_age: 1_000_000, tick: 250_000, ..Lazy::default() };
    let (rig, space, free) = running(Config { schedule: Schedule::Lazy, lazy, ..layout() });
    let start = rig.memory.map_anonymous(&space, Pages::HUGE).unwrap();
    rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
    rig.memory.protect(&space, start, Pages::HUGE, Protection::Read).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(0)));
    rig.memory.list_collected();
    let before = rig.memory.counters();
    assert_eq!(rig.memory.migrate_space(&space, NEAR, FAR).unwrap().moved, 512);
    assert_eq!((rig.memory.counters().since(&before).interrupts, rig.memory.owing_frames()), (0, 512));
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(0)));
    finish_all(&rig, space, free);
}

#[test]
fn fork_splits_and_both_keep_their_own() {
    let (rig, space, start, free) = huge(1);
    let child = rig.memory.fork(&space).unwrap();
    assert_eq!(rig.memory.statistics().splits, 1);
    rig.on(1, || rig.store(&space, at(start, 5), 99)).unwrap();
    rig.run(&child);
    assert_eq!(rig.load(&child, at(start, 5)), Ok(6));
    rig.store(&child, at(start, 6), 77).unwrap();
    rig.memory.exit(child);
    rig.run(&space);
    both(&rig, || assert_eq!(rig.load(&space, at(start, 6)), Ok(7)));
    assert_eq!(rig.load(&space, at(start, 5)), Ok(99));
    finish_all(&rig, space, free);
}

#[test]
fn a_split_without_a_frame_for_the_table_is_an_error_and_changes_nothing() {
    let nodes = vec![NodeLayout::new(1024), NodeLayout::new(64)];
    let (rig, space, free) = running(Config { nodes, swap_pages: 0, ..layout() });
    let start = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
    fill(&rig, &space, start, 512);
    assert_eq!(rig.memory.statistics().faults, 1);
    let filler = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    assert!((0..1024).any(|page| rig.store(&space, at(filler, page), 1).is_err()));
    assert_eq!(rig.memory.unmap(&space, at(start, 1), Pages::new(1)), Err(UnmapError::OutOfMemory));
    assert!(rig.memory.protect(&space, at(start, 1), Pages::new(1), Protection::Read).is_err());
    assert!(rig.memory.discard(&space, at(start, 1), Pages::new(1)).is_err());
    assert!(rig.memory.fork(&space).is_err());
    assert!(rig
        .memory
        .remap(&space, at(start, 1), Pages::new(1), Pages::new(1), Placement::At(1 << 40))
        .is_err());
    assert_kept(&rig, &space, start, 0..512);
    both(&rig, || rig.store(&space, at(start, 1), 2).unwrap());
    finish(&rig, space, &[], free);
}

#[test]
fn small_pages_collapse_into_a_huge_one() {
    let (rig, space, start, free) = small(1024);
    rig.memory.discard(&space, at(start, 7), Pages::new(1)).unwrap();
    assert_eq!(rig.load(&space, at(start, 8)), Ok(9));
    let before = rig.memory.free_frames();
    assert_eq!(rig.memory.collapse(&space, at(start, 300) + 5), Ok(true));
    assert_eq!(rig.memory.free_frames(), before, "511 pages and a table for 512");
    let faults = rig.memory.statistics().faults;
    assert_kept(&rig, &space, start, 8..1024);
    both(&rig, || assert_eq!(rig.load(&space, at(start, 7)), Ok(0)));
    both(&rig, || (0..512).for_each(|page| rig.store(&space, at(start, page), 3).unwrap()));
    assert_eq!(rig.memory.statistics().faults, faults);
    assert_eq!(rig.memory.collapse(&space, start), Ok(true), "it is one");
    assert_eq!(rig.memory.statistics().collapses, 1);
    finish_all(&rig, space, free);
}

#[test]
fn collapsed_memory_takes_stores_only_where_they_are_allowed() {
    let (rig, space, start, free) = small(1024);
    rig.memory.protect(&space, start, Pages::HUGE, Protection::Read).unwrap();
    let collapsed = rig.memory.collapse(&space, start).unwrap();
    assert_kept(&rig, &space, start, 0..512);
    both(&rig, || {
        assert_eq!(
            rig.store(&space, at(start, 9), 1),
            Err(FaultError::ReadOnly(at(start, 9))),
            "{collapsed}"
        );
    });
    rig.memory.discard(&space, at(start, 512), Pages::HUGE).unwrap();
    rig.memory.protect(&space, at(start, 512), Pages::HUGE, Protection::None).unwrap();
    let _ = rig.memory.collapse(&space, at(start, 512)).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, at(start, 600)), Err(FaultError::NoAccess(at(start, 600)))));
    rig.memory.protect(&space, start, Pages::new(2 * 512), Protection::ReadWrite).unwrap();
    both(&rig, || {
        rig.store(&space, at(start, 9), 1).unwrap();
        assert_eq!(rig.load(&space, at(start, 600)), Ok(0));
    });
    finish_all(&rig, space, free);
}

#[test]
fn pages_in_other_use_do_not_collapse() {
    let (rig, space, start, free) = small(1024);
    assert_eq!(rig.memory.collapse(&space, start - 1), Err(CollapseError::NotAnonymous(start - 1)));
    let file = rig.memory.create_file(512).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(512), true).unwrap();
    assert_eq!(rig.memory.collapse(&space, shared), Err(CollapseError::NotAnonymous(shared)));
    let part = rig.memory.map_anonymous(&space, Pages::new(511)).unwrap();
    assert_eq!(rig.memory.collapse(&space, part), Err(CollapseError::NotAnonymous(part)));
    let untouched = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    assert_eq!(rig.memory.collapse(&space, untouched), Ok(false));
    let child = rig.memory.fork(&space).unwrap();
    assert_eq!(rig.memory.collapse(&space, start), Ok(false), "shared");
    rig.memory.exit(child);
    rig.run(&space);
    rig.memory.advise_page_out(&space, at(start, 511), Pages::new(1)).unwrap();
    assert_eq!(rig.memory.collapse(&space, start), Ok(false), "on the swap device");
    assert_eq!(rig.load(&space, at(start, 511)), Ok(512));
    assert_eq!(rig.memory.collapse(&space, start), Ok(false), "back in memory, with its slot");
    rig.memory.hint(&space, at(start, 600), Pages::new(1)).unwrap();
    assert_eq!(rig.memory.collapse(&space, at(start, 512)), Ok(false), "hidden");
    assert_kept(&rig, &space, start, 0..1024);
    assert_eq!(rig.memory.statistics().collapses, 0);
    finish(&rig, space, &[file], free);
}

#[test]
fn a_huge_page_migrates_whole_with_a_flush_of_its_own() {
    let (rig, space, start, free) = huge(3);
    let before = rig.memory.counters();
    assert_eq!(rig.memory.migrate_space(&space, NEAR, FAR), Ok(Migrated { moved: 1536, busy: 0 }));
    assert_eq!(rig.memory.counters().since(&before).shootdowns, 3);
    let statistics = rig.memory.statistics();
    assert_eq!((statistics.migrated, statistics.migrated_huge, statistics.splits), (1536, 3, 0));
    assert_kept(&rig, &space, start, 0..1536);
    both(&rig, || rig.store(&space, at(start, 700), 701).unwrap());
    assert_eq!(rig.memory.migrate_space(&space, NEAR, FAR), Ok(Migrated::default()));
    finish_all(&rig, space, free);
}

#[test]
fn a_node_without_room_for_a_huge_page_is_full() {
    let nodes = vec![NodeLayout::new(4096), NodeLayout::new(400)];
    let (rig, space, free) = running(Config { nodes, ..layout() });
    let start = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
    fill(&rig, &space, start, 512);
    assert!(rig.memory.migrate_space(&space, NEAR, FAR).is_err());
    assert_kept(&rig, &space, start, 0..512);
    rig.memory.advise_page_out(&space, start, Pages::HUGE).unwrap();
    finish_all(&rig, space, free);
}

#[test]
fn a_hidden_huge_page_moves_to_its_user() {
    let (rig, space, start, free) = huge(1);
    assert_eq!(rig.memory.hint(&space, start, Pages::new(511)), Ok(0), "a part says nothing about the rest");
    assert_eq!(rig.memory.hint(&space, start, Pages::HUGE), Ok(512));
    assert!(!rig.platform().caches(1, at(start, 9)));
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 9))), Ok(10));
    assert_eq!(rig.memory.statistics().promoted, 512);
    assert_kept(&rig, &space, start, 0..512);
    finish_all(&rig, space, free);
}

#[test]
fn reclaim_splits_a_huge_page_and_takes_its_parts() {
    let (rig, space, start, free) = huge(2);
    end(&rig, exhaust(&rig));
    rig.run(&space);
    assert_eq!(rig.memory.statistics().splits, 2);
    assert_eq!(rig.memory.free_slots(), 2048 - 1024);
    assert_kept(&rig, &space, start, 0..1024);
    finish_all(&rig, space, free);
}

#[test]
fn paging_out_takes_a_whole_huge_page_and_nothing_beyond_the_range() {
    let (rig, space, start, free) = huge(2);
    rig.memory.advise_page_out(&space, start, Pages::HUGE).unwrap();
    assert_eq!(rig.memory.free_slots(), 2048 - 512, "all of it");
    rig.memory.advise_page_out(&space, at(start, 768), Pages::new(256)).unwrap();
    assert_eq!(rig.memory.free_slots(), 2048 - 768, "the second half");
    let faults = rig.memory.statistics().faults;
    assert_kept(&rig, &space, start, 512..768);
    assert_eq!(rig.memory.statistics().faults, faults);
    assert_kept(&rig, &space, start, 0..1024);
    finish_all(&rig, space, free);
}

#[test]
fn a_partly_locked_huge_page_keeps_the_locked_part() {
    let (rig, space, start, free) = huge(1);
    rig.memory.lock(&space, start, Pages::new(100)).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&space);
    assert_eq!(rig.memory.free_slots(), 2048 - 412);
    let faults = rig.memory.statistics().faults;
    assert_kept(&rig, &space, start, 0..100);
    assert_eq!(rig.memory.statistics().faults, faults);
    assert_kept(&rig, &space, start, 0..512);
    rig.memory.unmap(&space, start, Pages::new(200)).unwrap();
    assert_kept(&rig, &space, start, 200..512);
    finish_all(&rig, space, free);
}

#[test]
fn an_unmap_after_a_partial_lock_takes_only_its_range() {
    let (rig, space, start, free) = huge(1);
    rig.memory.lock(&space, start, Pages::new(100)).unwrap();
    rig.memory.unmap(&space, at(start, 100), Pages::new(412)).unwrap();
    assert_kept(&rig, &space, start, 0..100);
    finish_all(&rig, space, free);
}

#[test]
fn operations_on_a_moving_huge_page_take_effect_before_or_after_the_move() {
    type Act = fn(&Rig, &Space, u64);
    let acts: [(&str, Act); 4] = [
        ("munmap", |rig, space, start| rig.memory.unmap(space, start, Pages::HUGE).unwrap()),
        ("mprotect", |rig, space, start| {
            rig.memory.protect(space, start, Pages::HUGE, Protection::Read).unwrap();
        }),
        ("mremap", |rig, space, start| {
            rig.memory.remap(space, start, Pages::HUGE, Pages::HUGE, Placement::At(1 << 40)).unwrap();
        }),
        ("madvise", |rig, space, start| rig.memory.discard(space, start, Pages::HUGE).unwrap()),
    ];
    for (name, act) in acts {
        for early in [true, false] {
            let (rig, space, start, free) = huge(1);
            let (inner, inner_space) = (rig.clone(), space.clone());
            let moment = if early { Moment::Work(Work::MigratePage) } else { Moment::Copy };
            rig.platform().at(moment, move || inner.on(1, || act(&inner, &inner_space, start)));
            rig.memory.migrate_space(&space, NEAR, FAR).unwrap();
            assert!(rig.platform().all_done());
            let page = at(start, 3);
            both(&rig, || match name {
                "munmap" => assert_eq!(rig.load(&space, page), Err(FaultError::NotMapped(page))),
                "mprotect" => {
                    assert_eq!(rig.load(&space, page), Ok(4));
                    assert_eq!(rig.store(&space, page, 1), Err(FaultError::ReadOnly(page)));
                }
                "mremap" => {
                    assert_eq!(rig.load(&space, page), Err(FaultError::NotMapped(page)));
                    assert_eq!(rig.load(&space, at(1 << 40, 3)), Ok(4));
                }
                _ => assert_eq!(rig.load(&space, page), Ok(0)),
            });
            finish_all(&rig, space, free);
        }
    }
}

#[test]
fn a_page_that_is_reclaimed_does_not_collapse_and_is_not_lost() {
    let (rig, space, start, free) = small(512);
    let (inner, inner_space) = (rig.clone(), space.clone());
    // The first page is unmapped and held by the batch. The second is about to be checked.
    rig.platform().after(1, Moment::Work(Work::ReclaimPage), move || {
        inner.on(1, || assert_eq!(inner.memory.collapse(&inner_space, start), Ok(false)));
    });
    rig.memory.advise_page_out(&space, start, Pages::new(2)).unwrap();
    assert!(rig.platform().all_done());
    assert_kept(&rig, &space, start, 0..512);
    finish_all(&rig, space, free);
}

#[test]
fn stores_before_a_collapse_are_in_it_and_no_cpu_stores_to_what_is_copied() {
    let (rig, space, start, free) = small(512);
    let inner = rig.clone();
    rig.platform().at(Moment::Copy, move || {
        for cpu in 0..2 {
            assert!((0..512).all(|page| !inner.platform().caches(cpu, at(start, page))), "CPU {cpu}");
        }
    });
    assert_eq!(rig.memory.collapse(&space, start), Ok(true));
    assert!(rig.platform().all_done());
    assert_kept(&rig, &space, start, 0..512);
    finish_all(&rig, space, free);
}
