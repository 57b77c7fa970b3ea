//! madvise of many ranges of one space: one flush, or one for each table, and all of them or none.

use ceasefire_memory::{Access, AdviseError, Config, NodeLayout, Pages, RangeError};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, end, exhaust, finish, shared_space, Moment, Rig, Space};

/// Pages that one table translates.
const TABLE: u64 = 512;

type Advise = fn(&Rig, &Space, &[(u64, Pages)]) -> Result<(), AdviseError>;

/// The two calls, and whether they make the pages read as zeros at once.
const CALLS: [(Advise, bool); 2] = [
    (|rig, space, ranges| rig.memory.discard_ranges(space, ranges), true),
    (|rig, space, ranges| rig.memory.advise_free_ranges(space, ranges), false),
];

fn both(rig: &Rig, body: impl Fn()) {
    for cpu in 0..2 {
        rig.on(cpu, &body);
    }
}

/// Both CPUs have stored to the pages: page `n` of the memory holds `n + 1`.
fn store(rig: &Rig, space: &Space, start: u64, pages: impl IntoIterator<Item = u64>) {
    for page in pages {
        rig.store(space, at(start, page), 0).unwrap();
        rig.on(1, || rig.store(space, at(start, page), page + 1)).unwrap();
    }
    rig.memory.list_collected();
}

/// A space that both CPUs run, with 4 tables of memory in which both have stored to the first 8 pages of each table.
fn stored() -> (Rig, Space, u64, u64) {
    stored_to(512, touched())
}

/// The same memory on a machine with so many frames; the stores are to these pages.
fn stored_to(frames: u32, pages: impl IntoIterator<Item = u64>) -> (Rig, Space, u64, u64) {
    let rig = Rig::by_hand(Config { lru_batch: 1, ..config(frames) });
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    both(&rig, || rig.run(&space));
    let start = rig.memory.map_anonymous(&space, Pages::new(4 * TABLE)).unwrap();
    store(&rig, &space, start, pages);
    (rig, space, start, free)
}

fn touched() -> impl Iterator<Item = u64> + Clone {
    (0..4).flat_map(|table| table * TABLE..table * TABLE + 8)
}

/// The ranges of whole pages, as starts and bytes.
fn ranges(start: u64, pages: &[(u64, u64)]) -> Vec<(u64, Pages)> {
    pages.iter().map(|&(page, count)| (at(start, page), Pages::new(count))).collect()
}

/// Checks that both CPUs read zeros in the touched pages for which `gone` holds, and the stored words in the others.
fn assert_gone(rig: &Rig, space: &Space, start: u64, gone: impl Fn(u64) -> bool) {
    both(rig, || {
        for page in touched() {
            let expected = if gone(page) { 0 } else { page + 1 };
            assert_eq!(rig.load(space, at(start, page)), Ok(expected), "page {page}");
        }
    });
}

fn shootdowns(rig: &Rig, body: impl FnOnce()) -> u64 {
    let before = rig.memory.counters();
    body();
    rig.memory.counters().since(&before).shootdowns
}

#[test]
fn one_flush_serves_ranges_that_are_cleared_and_one_for_each_table_those_that_are_narrowed() {
    let pages = [(0, 2), (5, 1), (TABLE + 1, 3), (2 * TABLE, 8), (3 * TABLE + 7, 1)];
    for ((advise, _), flushes) in CALLS.into_iter().zip([1, 4]) {
        let (rig, space, start, free) = stored();
        let parts = ranges(start, &pages);
        assert_eq!(shootdowns(&rig, || advise(&rig, &space, &parts).unwrap()), flushes);
        store(&rig, &space, start, touched());
        let one_by_one = || parts.iter().for_each(|part| advise(&rig, &space, &[*part]).unwrap());
        assert_eq!(shootdowns(&rig, one_by_one), 5);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_long_range_is_flushed_once_if_it_is_cleared_and_table_by_table_if_it_is_narrowed() {
    for ((advise, _), flushes) in CALLS.into_iter().zip([1, 4]) {
        let (rig, space, start, free) = stored();
        let all = ranges(start, &[(0, 4 * TABLE)]);
        assert_eq!(shootdowns(&rig, || advise(&rig, &space, &all).unwrap()), flushes);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_full_table_is_flushed_once() {
    for (advise, _) in CALLS {
        let (rig, space, start, free) = stored_to(1024, 0..TABLE);
        let table = [(start, Pages::new(TABLE))];
        assert_eq!(shootdowns(&rig, || advise(&rig, &space, &table).unwrap()), 1);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_discard_while_another_one_is_under_way_costs_one_flush_too() {
    let (rig, space, start, free) = stored();
    let (inner, inner_space) = (rig.clone(), space.clone());
    // The first table of the other one is flushed. This one must flush for both.
    rig.platform().at(Moment::Reschedule, move || {
        inner.on(1, || {
            let discard = || inner.memory.discard(&inner_space, at(start, 3 * TABLE), Pages::new(8)).unwrap();
            assert_eq!(shootdowns(&inner, discard), 1);
        });
    });
    rig.memory.discard(&space, start, Pages::new(2 * TABLE)).unwrap();
    assert!(rig.platform().all_done());
    assert_gone(&rig, &space, start, |page| !(2 * TABLE..3 * TABLE).contains(&page));
    finish(&rig, space, &[], free);
}

/// Discards two ranges; returns whether CPU 1 still reads old bytes.
fn reads_discarded(rig: &Rig, space: &Space, start: u64) -> bool {
    rig.memory.discard_ranges(space, &ranges(start, &[(0, 1), (TABLE, 1)])).unwrap();
    [0, TABLE].iter().any(|&page| rig.on(1, || rig.load(space, at(start, page))) != Ok(0))
}

#[test]
fn no_cpu_uses_a_discarded_page_of_any_range() {
    let (rig, space, start, free) = stored();
    assert!(!reads_discarded(&rig, &space, start), "R3 is broken");
    assert_gone(&rig, &space, start, |page| page == 0 || page == TABLE);
    finish(&rig, space, &[], free);
    #[cfg(ceasefire_sabotage)]
    {
        let (rig, space, start, _) = stored();
        guards::remove(&rig.memory, [guards::Engine::GatherFlush]);
        assert!(reads_discarded(&rig, &space, start), "R3 must be seen to break without its guard");
    }
}

#[test]
fn ranges_may_overlap_and_come_in_any_order() {
    let pages = [(3 * TABLE, 2), (2, 3), (0, 4), (3 * TABLE + 1, 1), (TABLE - 4, 6), (2, 1)];
    let asked = |page: u64| pages.iter().any(|&(first, count)| (first..first + count).contains(&page));
    for ((advise, zeros), flushes) in CALLS.into_iter().zip([1, 3]) {
        let (rig, space, start, free) = stored();
        let before = rig.memory.free_frames();
        assert_eq!(shootdowns(&rig, || advise(&rig, &space, &ranges(start, &pages)).unwrap()), flushes);
        let count = touched().filter(|page| asked(*page)).count() as u64;
        assert_eq!(rig.memory.free_frames() - before, if zeros { count } else { 0 });
        if !zeros {
            assert_gone(&rig, &space, start, |_| false);
            end(&rig, exhaust(&rig));
            rig.run(&space);
        }
        assert_gone(&rig, &space, start, asked);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn no_range_is_no_error_and_costs_no_flush() {
    for (advise, _) in CALLS {
        let (rig, space, start, free) = stored();
        assert_eq!(shootdowns(&rig, || assert_eq!(advise(&rig, &space, &[]), Ok(()))), 0);
        assert_gone(&rig, &space, start, |_| false);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn ranges_without_translations_cost_no_flush() {
    for (advise, _) in CALLS {
        let (rig, space, start, free) = stored();
        let parts = ranges(start, &[(20, 5), (TABLE + 20, 5)]);
        assert_eq!(shootdowns(&rig, || advise(&rig, &space, &parts).unwrap()), 0);
        assert_gone(&rig, &space, start, |_| false);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_refused_range_keeps_all_others_as_they_are() {
    for (advise, zeros) in CALLS {
        let (rig, space, start, free) = stored();
        let file = rig.memory.create_file(4).unwrap();
        let shared = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
        let locked = at(start, TABLE);
        rig.memory.lock(&space, locked, Pages::new(1)).unwrap();
        let hole = at(shared, 4);
        let (none, one) = (Pages::new(0), Pages::new(1));
        let mut refused = vec![
            ((start + 1, one), AdviseError::Range(RangeError { start: start + 1, pages: one })),
            ((start, none), AdviseError::Range(RangeError { start, pages: none })),
            ((locked, one), AdviseError::Locked(locked)),
        ];
        if !zeros {
            refused.push(((shared, one), AdviseError::NotAnonymous(shared)));
            refused.push(((hole, one), AdviseError::NotMapped(hole)));
        }
        let before = rig.memory.free_frames();
        for (range, error) in refused {
            let good = ranges(start, &[(0, 4), (2 * TABLE, 4)]);
            for at in 0..=good.len() {
                let mut parts = good.clone();
                parts.insert(at, range);
                assert_eq!(advise(&rig, &space, &parts), Err(error));
            }
        }
        assert_eq!(rig.memory.free_frames(), before);
        end(&rig, exhaust(&rig));
        rig.run(&space);
        assert_gone(&rig, &space, start, |_| false);
        finish(&rig, space, &[file], free);
    }
}

#[test]
fn ranges_that_cut_a_huge_page_split_it_once() {
    let nodes = vec![NodeLayout::new(2048)];
    let rig = Rig::by_hand(Config { nodes, ..config(2048) });
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    both(&rig, || rig.run(&space));
    let start = rig.memory.map_anonymous(&space, Pages::new(2 * TABLE)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::new(2 * TABLE), true).unwrap();
    store(&rig, &space, start, 0..2 * TABLE);
    assert_eq!(rig.memory.statistics().faults, 2);
    rig.memory.discard_ranges(&space, &ranges(start, &[(9, 1), (3, 2), (TABLE, TABLE)])).unwrap();
    assert_eq!(rig.memory.statistics().splits, 1, "the second huge page goes whole");
    both(&rig, || {
        for page in 0..2 * TABLE {
            let gone = page == 9 || (3..5).contains(&page) || page >= TABLE;
            assert_eq!(rig.load(&space, at(start, page)), Ok(if gone { 0 } else { page + 1 }));
        }
    });
    finish(&rig, space, &[], free);
}

#[test]
fn pages_of_a_file_that_were_stored_to_are_flushed_table_by_table() {
    let (rig, space) = shared_space(4096);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(3 * TABLE as u32).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(3 * TABLE), true).unwrap();
    both(&rig, || [0, TABLE].iter().for_each(|&page| rig.store(&space, at(shared, page), 7).unwrap()));
    both(&rig, || assert_eq!(rig.load(&space, at(shared, 2 * TABLE)), Ok(0)));
    let parts = ranges(shared, &[(0, 1), (TABLE, 1), (2 * TABLE, 1)]);
    let flushes = shootdowns(&rig, || rig.memory.discard_ranges(&space, &parts).unwrap());
    assert_eq!(flushes, 3, "one for each table with a dirty page, one for the clean page");
    both(&rig, || assert_eq!(rig.load(&space, shared), Ok(7), "the file keeps the store"));
    finish(&rig, space, &[file], free);
}

#[test]
fn more_pages_than_the_gather_has_room_for_are_flushed_in_parts() {
    let (rig, space) = shared_space(12_000);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(10_500)).unwrap();
    store(&rig, &space, start, 0..10_500);
    let parts = ranges(start, &[(0, 5_000), (5_100, 5_400)]);
    assert_eq!(shootdowns(&rig, || rig.memory.discard_ranges(&space, &parts).unwrap()), 2);
    both(&rig, || assert_eq!(rig.load(&space, at(start, 10_400)), Ok(0)));
    both(&rig, || assert_eq!(rig.load(&space, at(start, 5_050)), Ok(5_051)));
    finish(&rig, space, &[], free);
}

/// A huge page is flushed before the table above it is unlocked, since no mark can take its place.
#[test]
fn each_huge_page_of_the_ranges_has_a_flush_of_its_own() {
    let rig = Rig::by_hand(config(2048));
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    both(&rig, || rig.run(&space));
    let start = rig.memory.map_anonymous(&space, Pages::new(3 * TABLE)).unwrap();
    rig.memory.advise_huge(&space, start, Pages::new(3 * TABLE), true).unwrap();
    store(&rig, &space, start, (0..3).map(|table| table * TABLE));
    let parts = ranges(start, &[(0, TABLE), (2 * TABLE, TABLE)]);
    assert_eq!(shootdowns(&rig, || rig.memory.discard_ranges(&space, &parts).unwrap()), 2);
    finish(&rig, space, &[], free);
}

/// CPU 0 advises about pages of two tables. When the first is unlocked, CPU 1 stores to pages of both, in and between
/// the ranges.
#[test]
fn faults_go_on_in_several_ranges() {
    for (advise, zeros) in CALLS {
        let (rig, space, start, free) = stored();
        let (inner, inner_space) = (rig.clone(), space.clone());
        rig.platform().at(Moment::Reschedule, move || {
            inner.on(1, || {
                for page in [0, 1, 2, TABLE] {
                    // CPU 1 may hold the old entry of a cleared page. The fault flushes it.
                    inner.memory.fault(&inner_space, at(start, page), Access::Write).unwrap();
                    inner.store(&inner_space, at(start, page), 77).unwrap();
                }
            });
        });
        advise(&rig, &space, &ranges(start, &[(0, 2), (4, 2), (TABLE, 2)])).unwrap();
        assert!(rig.platform().all_done());
        rig.platform().assert_no_violation();
        both(&rig, || {
            let seen = [0, 1, 2, 4, TABLE].map(|page| rig.load(&space, at(start, page)).unwrap());
            assert_eq!(seen, if zeros { [77, 77, 77, 0, 0] } else { [77, 77, 77, 5, 77] });
        });
        finish(&rig, space, &[], free);
    }
}

/// CPU 0 gives up pages in two tables. When the first table is unlocked, CPU 1 stores to one of its pages, and reclaims
/// all that it can.
fn given_up_while_stored(without: Option<Guard>) -> (Rig, Space, u64, u64) {
    let (rig, space, start, free) = stored();
    guards::remove(&rig.memory, without);
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Reschedule, move || {
        inner.on(1, || {
            // If the entry was not flushed, it does not record the store.
            inner.store(&inner_space, start, 9).unwrap();
            end(&inner, exhaust(&inner));
        });
    });
    rig.memory.advise_free_ranges(&space, &ranges(start, &[(0, 2), (TABLE, 2)])).unwrap();
    assert!(rig.platform().all_done());
    rig.on(1, || rig.run(&space));
    (rig, space, start, free)
}

#[test]
fn a_table_with_pages_given_up_is_flushed_before_it_is_unlocked() {
    let (rig, space, start, free) = given_up_while_stored(None);
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(9)));
    assert_eq!(rig.load(&space, at(start, 1)), Ok(0), "flushed, and reclaimed");
    end(&rig, exhaust(&rig));
    rig.run(&space);
    both(&rig, || {
        assert!([1, TABLE, TABLE + 1].iter().all(|&page| rig.load(&space, at(start, page)) == Ok(0)));
    });
    finish(&rig, space, &[], free);
    #[cfg(ceasefire_sabotage)]
    {
        let (rig, space, start, _) = given_up_while_stored(Some(guards::Engine::UnlockFlush.into()));
        assert_eq!(
            rig.load(&space, start),
            Ok(0),
            "R5: the store landed in a page that reclaim took for clean"
        );
    }
}
