//! Tests of the record alone, without a memory manager.

use alloc::vec;

use ceasefire::Schedule;

use super::*;
use crate::address::{Block, ObjectId, Store};
use crate::frames::node::NodeLayout;

const FRAMES: u32 = 2048;
const ASID: Asid = Asid::SHARED;
const ROOT: Root = Root(7 << 12);
const OTHER: Root = Root(8 << 12);
const AT: u64 = 5 << 30;
const SMALL: PageSize = PageSize::KIB_4;
const HUGE: PageSize = PageSize::MIB_2;

fn cpu(number: usize) -> CpuId {
    CpuId::new(number).unwrap()
}

fn frame(number: u32) -> FrameNumber {
    FrameNumber::new(number)
}

/// Two CPUs that run one space.
fn running() -> Shadow {
    let config = Config::new(vec![NodeLayout::new(FRAMES)], 2, Schedule::Lazy);
    let mut shadow = Shadow::new(&config);
    for number in 0..2 {
        assert_eq!(shadow.loads(cpu(number), ROOT, ASID, true), Ok(()));
    }
    shadow
}

fn gone(shadow: &mut Shadow, address: u64, number: u32) {
    shadow.gone(ROOT, address, SMALL, frame(number), 9);
}

fn who(result: Result<(), Misuse>) -> Option<(Wrong, u32, usize)> {
    let misuse = result.err()?;
    assert_eq!(misuse.since, Some(9));
    assert!(misuse
        .address
        .is_some_and(|address| Place::new(ROOT, address, HUGE) == Place::new(ROOT, AT, HUGE)));
    Some((misuse.wrong, misuse.frame.get(), misuse.cpu?.index()))
}

#[test]
fn a_frame_is_out_of_reach_once_each_cpu_has_flushed_its_page_or_all() {
    type Flush = fn(&mut Shadow);
    let page: Flush = |shadow| shadow.forgets_page(cpu(1), ASID, AT);
    let asid: Flush = |shadow| shadow.forgets_asid(cpu(1), ASID);
    let all: Flush = |shadow| shadow.forgets_all(cpu(1));
    let load: Flush = |shadow| shadow.loads(cpu(1), ROOT, ASID, true).unwrap();
    let none: Flush = |shadow| shadow.forgets_page(cpu(1), ASID, AT + 4096);
    for (flush, reached) in [(page, false), (asid, false), (all, false), (load, false), (none, true)] {
        let mut shadow = running();
        // A flush before the translation is cleared proves nothing: the CPU may walk again.
        flush(&mut shadow);
        gone(&mut shadow, AT, 3);
        assert_eq!(who(shadow.touches(frame(3), 1)), Some((Wrong::Accessed, 3, 0)));
        shadow.forgets_page(cpu(0), ASID, AT);
        flush(&mut shadow);
        assert_eq!(who(shadow.hands_out(frame(3))), reached.then_some((Wrong::Reused, 3, 1)));
        assert_eq!((shadow.held(), shadow.hands_out(frame(3))), (0, Ok(())), "it is reported once");
    }
}

#[test]
fn a_translation_cleared_again_is_held_again() {
    let mut shadow = running();
    gone(&mut shadow, AT, 3);
    (0..2).for_each(|number| shadow.forgets_page(cpu(number), ASID, AT));
    assert_eq!(shadow.held(), 0);
    gone(&mut shadow, AT, 3);
    shadow.forgets_page(cpu(0), ASID, AT);
    gone(&mut shadow, AT, 3);
    assert_eq!((shadow.held(), who(shadow.hands_out(frame(3)))), (1, Some((Wrong::Reused, 3, 0))));
}

#[test]
fn a_cpu_that_runs_another_space_is_excused_and_must_flush_before_it_is_back() {
    type Leave = fn(&mut Shadow);
    type Back = fn(&mut Shadow, bool) -> Result<(), Misuse>;
    let rest: (Leave, Back) = (
        |shadow| shadow.rests(cpu(1)),
        |shadow, flush| {
            if flush {
                shadow.loads(cpu(1), ROOT, ASID, true)?;
            }
            shadow.runs(cpu(1))
        },
    );
    let unload: (Leave, Back) =
        (|shadow| shadow.leaves(cpu(1)), |shadow, flush| shadow.loads(cpu(1), ROOT, ASID, flush));
    for (leave, back) in [rest, unload] {
        for flush in [false, true] {
            let mut shadow = running();
            gone(&mut shadow, AT, 3);
            shadow.forgets_asid(cpu(0), ASID);
            leave(&mut shadow);
            assert_eq!(shadow.hands_out(frame(3)), Ok(()));
            assert_eq!(who(back(&mut shadow, flush)), (!flush).then_some((Wrong::Unflushed, 3, 1)));
            assert_eq!(back(&mut shadow, false), Ok(()));
        }
    }
    // Under a tag that another space took, the CPU holds no entry of this one.
    let mut shadow = running();
    gone(&mut shadow, AT, 3);
    (0..2).for_each(|number| shadow.loads(cpu(number), OTHER, ASID, true).unwrap());
    assert_eq!(shadow.hands_out(frame(3)), Ok(()));
    assert_eq!(shadow.loads(cpu(1), ROOT, ASID, true), Ok(()));
}

#[test]
fn the_first_free_frame_of_those_touched_is_named() {
    let mut shadow = running();
    shadow.hands_out(frame(2)).unwrap();
    gone(&mut shadow, AT, 3);
    assert_eq!(who(shadow.touches(frame(2), 3)), Some((Wrong::Accessed, 3, 0)));
}

#[test]
fn a_broadcast_counts_after_its_wait_for_translations_cleared_before_its_start() {
    type Start = fn(&mut Shadow);
    let page: Start = |shadow| {
        let extent = Extent::Pages { start: AT - 4096, count: 2, size: SMALL };
        shadow.broadcasts(cpu(0), ASID, extent);
    };
    let asid: Start = |shadow| shadow.broadcasts(cpu(0), ASID, Extent::All);
    let everything: Start = |shadow| shadow.broadcasts_everything(cpu(0));
    for start in [page, asid, everything] {
        let mut shadow = running();
        gone(&mut shadow, AT, 3);
        start(&mut shadow);
        assert!(who(shadow.touches(frame(3), 1)).is_some());
        shadow.waited(cpu(1));
        assert!(who(shadow.touches(frame(3), 1)).is_some(), "another CPU's wait does not count");
        gone(&mut shadow, AT, 4);
        shadow.waited(cpu(0));
        assert_eq!(shadow.hands_out(frame(3)), Ok(()));
        assert_eq!(who(shadow.hands_out(frame(4))), Some((Wrong::Reused, 4, 0)));
    }
}

#[test]
fn an_asid_flushed_after_its_cpu_left_is_empty_until_the_cpu_is_back() {
    type Then = fn(&mut Shadow);
    let away: Then = |shadow| shadow.leaves(cpu(1));
    let start: Then = |shadow| shadow.broadcasts_everything(cpu(0));
    let wait: Then = |shadow| shadow.waited(cpu(0));
    // An entry that the CPU filled before it left counts, unless the broadcast began later.
    for (order, may_hold) in
        [([away, start, wait], false), ([start, away, wait], true), ([start, wait, away], true)]
    {
        for looked_at in [false, true] {
            let mut shadow = running();
            for then in order {
                then(&mut shadow);
            }
            gone(&mut shadow, AT, 3);
            shadow.forgets_asid(cpu(0), ASID);
            if looked_at {
                assert_eq!(shadow.hands_out(frame(3)), Ok(()), "it runs another space");
            }
            let back = shadow.loads(cpu(1), ROOT, ASID, false);
            assert_eq!(who(back), (looked_at && may_hold).then_some((Wrong::Unflushed, 3, 1)));
            let now = shadow.hands_out(frame(3));
            assert_eq!(who(now), (!looked_at && may_hold).then_some((Wrong::Reused, 3, 1)));
            // The CPU walks again from here on.
            gone(&mut shadow, AT, 4);
            shadow.forgets_asid(cpu(0), ASID);
            assert_eq!(who(shadow.hands_out(frame(4))), Some((Wrong::Reused, 4, 1)));
        }
    }
}

#[test]
fn a_translation_of_any_size_may_come_back_only_to_the_same_frame() {
    // The cleared translation, the new one, and the frame through which the page at 3 leads to a wrong place.
    let cases = [
        ((SMALL, 3, 3), (SMALL, 3, 3), None),
        ((SMALL, 3, 3), (SMALL, 3, 4), Some(3)),
        ((SMALL, 3, 3), (SMALL, 4, 4), None),
        ((HUGE, 0, 512), (HUGE, 0, 512), None),
        ((HUGE, 0, 512), (HUGE, 0, 1024), Some(512)),
        ((HUGE, 0, 512), (SMALL, 3, 515), None),
        ((HUGE, 0, 512), (SMALL, 3, 3), Some(512)),
        ((SMALL, 3, 515), (HUGE, 0, 512), None),
        ((SMALL, 3, 515), (HUGE, 0, 1024), Some(515)),
    ];
    for ((old_size, old_page, old), (size, page, new), seen) in cases {
        let mut shadow = running();
        shadow.gone(ROOT, AT + (old_page << 12), old_size, frame(old), 9);
        assert_eq!(shadow.installs(OTHER, AT + (page << 12), size, frame(new)), Ok(()));
        let result = who(shadow.installs(ROOT, AT + (page << 12), size, frame(new)));
        assert_eq!(result, seen.map(|frame| (Wrong::Retranslated, frame, 0)), "{old} and {new}");
    }
}

#[test]
fn every_part_of_a_huge_page_is_reached_through_it() {
    let mut shadow = running();
    shadow.gone(ROOT, AT, HUGE, frame(512), 9);
    shadow.forgets_page(cpu(0), ASID, AT);
    assert_eq!(shadow.hands_out(frame(511)), Ok(()));
    assert_eq!(who(shadow.hands_out(frame(700))), Some((Wrong::Reused, 700, 1)));
    shadow.gone(ROOT, AT, HUGE, frame(512), 9);
    (0..2).for_each(|number| shadow.forgets_page(cpu(number), ASID, AT));
    assert_eq!((shadow.hands_out(frame(701)), shadow.hands_out(frame(512))), (Ok(()), Ok(())));
}

#[test]
fn an_older_copy_of_a_block_counts_until_its_frame_holds_another_page() {
    let block = |index| Block { store: Store::Swap, index };
    let mut shadow = running();
    for (number, index) in [(3, 1), (4, 1), (5, 2), (6, 9)] {
        gone(&mut shadow, AT + (u64::from(number) << 12), number);
        shadow.outdated(frame(number), block(index));
    }
    (0..2).for_each(|number| shadow.forgets_page(cpu(number), ASID, AT + (3 << 12)));
    assert_eq!(who(shadow.finds(Store::Swap, 0, 1)), Some((Wrong::Replaced, 4, 0)));
    assert_eq!(shadow.finds(Store::Swap, 3, 8), Ok(()));
    (0..2).for_each(|number| shadow.forgets_asid(cpu(number), ASID));
    assert_eq!(shadow.hands_out(frame(5)), Ok(()));
    gone(&mut shadow, AT, 5);
    assert_eq!(shadow.finds(Store::Swap, 2, 2), Ok(()), "it holds another page by now");
    assert_eq!(shadow.finds(Store::Swap, 0, u32::MAX), Ok(()));
}

#[test]
fn a_range_of_blocks_longer_than_the_number_of_copies_finds_them_all() {
    let block = |store, index| Block { store, index };
    let file = Store::File(ObjectId::new(1));
    let mut copies = Copies::new(FRAMES);
    for (number, block) in (0..).zip([block(Store::Swap, 5), block(Store::Swap, 80), block(file, 5)]) {
        copies.add(FRAMES + number, block);
    }
    for (store, first, last, expected) in [
        (Store::Swap, 0, u32::MAX, vec![FRAMES, FRAMES + 1]),
        (Store::Swap, 79, 81, vec![FRAMES + 1]),
        (Store::Swap, 80, 80, vec![FRAMES + 1]),
        (Store::Swap, 81, u32::MAX, vec![]),
        (file, 4, 5, vec![FRAMES + 2]),
    ] {
        let mut found = copies.of(store, first, last);
        found.sort_unstable();
        assert_eq!(found, expected, "{store:?} {first} {last}");
    }
    (0..3).for_each(|number| copies.remove(FRAMES + number));
    assert_eq!(copies.of(Store::Swap, 0, u32::MAX), []);
}

/// A hash that many share makes every look-up a walk.
#[test]
fn places_and_blocks_that_are_used_together_have_hashes_of_their_own() {
    let places = [ROOT, OTHER].into_iter().flat_map(|root| {
        [SMALL, HUGE].into_iter().flat_map(move |size| (0..8).map(move |page| (root, page, size)))
    });
    let places = places.map(|(root, page, size)| Place::new(root, page << size.shift(), size).hash());
    let stores = [Store::Swap, Store::File(ObjectId::new(0)), Store::File(ObjectId::new(1))];
    let blocks = stores.into_iter().flat_map(|store| (0..8).map(move |index| Block { store, index }));
    for hashes in [places.collect::<Vec<u32>>(), blocks.map(copies::hash).collect()] {
        let mut distinct = hashes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), hashes.len(), "{hashes:x?}");
    }
}

#[test]
fn a_page_mapped_by_many_spaces_in_turn_leaves_no_more_places_than_can_be_held() {
    let mut shadow = running();
    for page in 0..10_000 {
        gone(&mut shadow, AT + (page << 12), 3);
        (0..2).for_each(|number| shadow.forgets_asid(cpu(number), ASID));
    }
    assert!(shadow.held() < 16, "{}", shadow.held());
}

#[test]
fn an_asid_of_a_cpu_costs_what_the_book_says() {
    assert_eq!(size_of::<Slot>(), 72);
}
