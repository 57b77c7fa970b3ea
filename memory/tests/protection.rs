//! A program's rights to its memory: mprotect and mremap. Debts of batches are paid before these return.

use ceasefire_memory::{
    FaultError, NodeId, Pages, Placement, ProtectError, Protection, RangeError, RemapError, Work, PAGE_BYTES,
    USER_END,
};

use crate::common::guards::{self, Guard};
use crate::common::{at, finish, shared_space, Moment, Rig, Space};

const HUGE: u64 = 1 << 21;

/// A space that both CPUs run, with memory in which both have stored to each of the first `pages` pages: page `n` holds
/// `n + 1`.
fn stored(frames: u32, pages: u64) -> (Rig, Space, u64, u64) {
    let (rig, space) = shared_space(frames);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    for page in 0..pages {
        rig.store(&space, at(start, page), 0).unwrap();
        rig.on(1, || rig.store(&space, at(start, page), page + 1)).unwrap();
    }
    (rig, space, start, free)
}

fn both(rig: &Rig, body: impl Fn()) {
    for cpu in 0..2 {
        rig.on(cpu, &body);
    }
}

/// Checks that both CPUs read in each of the first `pages` pages what was [`stored`] there.
fn assert_kept(rig: &Rig, space: &Space, start: u64, pages: u64) {
    both(rig, || (0..pages).for_each(|page| assert_eq!(rig.load(space, at(start, page)), Ok(page + 1))));
}

#[test]
fn after_the_right_to_store_is_taken_no_cpu_stores() {
    let (rig, space, start, free) = stored(256, 6);
    rig.memory.protect(&space, at(start, 1), Pages::new(2), Protection::Read).unwrap();
    both(&rig, || {
        for page in 0..6 {
            let address = at(start, page);
            let expected = if (1..3).contains(&page) { Err(FaultError::ReadOnly(address)) } else { Ok(()) };
            assert_eq!(rig.store(&space, address, page + 1), expected);
            assert_eq!(rig.load(&space, address), Ok(page + 1));
        }
    });
    finish(&rig, space, &[], free);
}

#[test]
fn taking_rights_from_a_whole_range_costs_one_flush() {
    let (rig, space, start, free) = stored(256, 40);
    let before = rig.memory.counters();
    rig.memory.protect(&space, start, Pages::new(40), Protection::Read).unwrap();
    assert_eq!(rig.memory.counters().since(&before).shootdowns, 1);
    rig.memory.protect(&space, start, Pages::new(40), Protection::ReadWrite).unwrap();
    assert_eq!(rig.memory.counters().since(&before).shootdowns, 1, "giving rights costs no flush");
    both(&rig, || rig.store(&space, start, 1).unwrap());
    finish(&rig, space, &[], free);
}

#[test]
fn memory_without_rights_keeps_its_bytes() {
    let (rig, space, start, free) = stored(256, 4);
    rig.memory.protect(&space, start, Pages::new(4), Protection::None).unwrap();
    both(&rig, || {
        assert_eq!(rig.load(&space, start), Err(FaultError::NoAccess(start)));
        assert_eq!(rig.store(&space, at(start, 3), 1), Err(FaultError::NoAccess(at(start, 3))));
    });
    rig.memory.protect(&space, start, Pages::new(4), Protection::ReadWrite).unwrap();
    both(&rig, || {
        for page in 0..4 {
            assert_eq!(rig.load(&space, at(start, page)), Ok(page + 1));
            rig.store(&space, at(start, page), page + 1).unwrap();
        }
    });
    finish(&rig, space, &[], free);
}

#[test]
fn the_right_to_load_alone_does_not_bring_back_the_right_to_store() {
    for hint in [false, true] {
        let (rig, space, start, free) = stored(256, 2);
        if hint {
            assert_eq!(rig.memory.hint(&space, start, Pages::new(2)), Ok(2));
        }
        rig.memory.protect(&space, start, Pages::new(2), Protection::None).unwrap();
        rig.memory.protect(&space, start, Pages::new(2), Protection::Read).unwrap();
        both(&rig, || {
            assert_eq!(rig.load(&space, start), Ok(1));
            assert_eq!(rig.store(&space, start, 9), Err(FaultError::ReadOnly(start)));
        });
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_right_that_comes_back_does_not_make_a_shared_page_private() {
    let (rig, space, start, free) = stored(256, 1);
    let file = rig.memory.create_file(1).unwrap();
    let private = rig.memory.map_private(&space, file, 0, Pages::new(1)).unwrap();
    rig.load(&space, private).unwrap();
    let child = rig.memory.fork(&space).unwrap();
    for address in [start, private] {
        rig.memory.protect(&space, address, Pages::new(1), Protection::None).unwrap();
        rig.memory.protect(&space, address, Pages::new(1), Protection::ReadWrite).unwrap();
        rig.store(&space, address, 9).unwrap();
    }
    let mut bytes = [1; 8];
    rig.memory.read(file, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8], "the file does not see it");
    rig.run(&child);
    assert_eq!(rig.load(&child, start), Ok(1));
    assert_eq!(rig.load(&child, private), Ok(0));
    rig.memory.exit(child);
    rig.run(&space);
    finish(&rig, space, &[file], free);
}

#[test]
fn fresh_memory_that_may_not_be_stored_to_reads_as_zero() {
    let (rig, space) = shared_space(256);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(2)).unwrap();
    rig.memory.protect(&space, start, Pages::new(2), Protection::Read).unwrap();
    both(&rig, || {
        assert_eq!(rig.load(&space, start), Ok(0));
        assert_eq!(rig.store(&space, start, 1), Err(FaultError::ReadOnly(start)));
    });
    rig.memory.protect(&space, start, Pages::new(2), Protection::None).unwrap();
    rig.memory.protect(&space, start, Pages::new(2), Protection::ReadWrite).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(0)));
    rig.store(&space, start, 1).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(1)));
    assert_eq!(rig.load(&space, at(start, 1)), Ok(0), "no store reached the shared zero frame");
    finish(&rig, space, &[], free);
}

#[test]
fn the_dirty_state_survives_the_loss_of_rights() {
    let (rig, space) = shared_space(256);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(2).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    for (page, protection) in [(0, Protection::None), (1, Protection::Read)] {
        rig.store(&space, at(start, page), 3).unwrap();
        rig.memory.protect(&space, at(start, page), Pages::new(1), protection).unwrap();
    }
    assert_eq!(rig.memory.sync(file), 2);
    finish(&rig, space, &[file], free);
}

#[test]
fn a_wrong_range_to_protect_is_named_and_changes_nothing() {
    let (rig, space, start, free) = stored(256, 4);
    let bad = [(start, 0), (start + 8, 1), (start, u64::MAX), (USER_END, 1)];
    for (from, pages) in bad {
        let pages = Pages::new(pages);
        let error = RangeError { start: from, pages };
        assert_eq!(
            rig.memory.protect(&space, from, pages, Protection::None),
            Err(ProtectError::Range(error))
        );
    }
    let beyond = rig.memory.protect(&space, start, Pages::new(5), Protection::None);
    assert_eq!(beyond, Err(ProtectError::NotMapped(at(start, 4))));
    rig.memory.unmap(&space, at(start, 1), Pages::new(1)).unwrap();
    let hole = rig.memory.protect(&space, start, Pages::new(4), Protection::None);
    assert_eq!(hole, Err(ProtectError::NotMapped(at(start, 1))));
    let file = rig.memory.create_file(2).unwrap();
    let fixed = rig.memory.map_shared(&space, file, 0, Pages::new(2), false).unwrap();
    let forbidden = rig.memory.protect(&space, at(fixed, 1), Pages::new(1), Protection::ReadWrite);
    assert_eq!(forbidden, Err(ProtectError::Forbidden(at(fixed, 1))));
    both(&rig, || {
        rig.store(&space, start, 1).unwrap();
        assert_eq!(rig.load(&space, at(fixed, 1)), Ok(0));
    });
    finish(&rig, space, &[file], free);
}

#[test]
fn a_mapping_grows_where_it_is_and_keeps_its_bytes() {
    let (rig, space, start, free) = stored(256, 4);
    assert_eq!(rig.memory.remap(&space, start, Pages::new(4), Pages::new(9), Placement::Here), Ok(start));
    both(&rig, || {
        for page in 0..4 {
            assert_eq!(rig.load(&space, at(start, page)), Ok(page + 1));
        }
        assert_eq!(rig.load(&space, at(start, 8)), Ok(0));
        assert_eq!(rig.load(&space, at(start, 9)), Err(FaultError::NotMapped(at(start, 9))));
    });
    rig.store(&space, at(start, 8), 5).unwrap();
    assert_eq!(
        rig.memory.migrate_space(&space, NodeId(0), NodeId(1)).unwrap().moved,
        5,
        "the reverse map knows"
    );
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 8))), Ok(5));
    finish(&rig, space, &[], free);
}

#[test]
fn a_mapping_shrinks_and_the_pages_behind_are_gone_everywhere() {
    let (rig, space, start, free) = stored(256, 6);
    let left = rig.memory.free_frames();
    assert_eq!(rig.memory.remap(&space, start, Pages::new(6), Pages::new(2), Placement::Here), Ok(start));
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), left + 4);
    both(&rig, || {
        assert_eq!(rig.load(&space, at(start, 1)), Ok(2));
        assert_eq!(rig.load(&space, at(start, 2)), Err(FaultError::NotMapped(at(start, 2))));
    });
    finish(&rig, space, &[], free);
}

/// Moves `pages` pages, of which both CPUs hold translations, to `to`, and checks them there.
fn move_to(pages: u64, offset: u64, to: u64) {
    let (rig, space, start, free) = stored(8192, pages + offset);
    let (from, length) = (at(start, offset), Pages::new(pages));
    assert_eq!(rig.memory.remap(&space, from, length, length, Placement::At(to)), Ok(to));
    both(&rig, || {
        for page in 0..offset + pages {
            let address = at(start, page);
            if page < offset {
                assert_eq!(rig.load(&space, address), Ok(page + 1));
            } else {
                assert!(!rig.platform().caches(0, address) && !rig.platform().caches(1, address));
                assert_eq!(rig.load(&space, address), Err(FaultError::NotMapped(address)), "page {page}");
                let moved = to + (address - from);
                assert_eq!(rig.load(&space, moved), Ok(page + 1), "page {page}");
                rig.store(&space, moved, page + 1).unwrap();
            }
        }
    });
    assert_eq!(rig.memory.migrate_space(&space, NodeId(0), NodeId(1)).unwrap().moved, pages + offset);
    both(&rig, || assert_eq!(rig.load(&space, to), Ok(offset + 1)));
    finish(&rig, space, &[], free);
}

#[test]
fn moved_pages_are_at_the_new_place_and_on_no_cpu_at_the_old_one() {
    move_to(5, 0, 1 << 40);
    move_to(5, 3, (1 << 40) + 7 * PAGE_BYTES);
}

#[test]
fn whole_tables_move_with_their_pages() {
    move_to(1024, 0, 1 << 40);
    move_to(1300, 0, (1 << 40) + 3 * HUGE);
}

#[test]
fn pages_move_between_tables_at_different_offsets() {
    move_to(1100, 0, (1 << 40) + 300 * PAGE_BYTES);
    move_to(700, 100, 1 << 40);
}

#[test]
fn a_whole_table_moves_with_one_flush() {
    let (rig, space, start, free) = stored(4096, 512);
    // It keeps the tables above in use.
    let other = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    rig.load(&space, other).unwrap();
    let before = rig.memory.counters();
    rig.memory.remap(&space, start, Pages::HUGE, Pages::HUGE, Placement::At(1 << 40)).unwrap();
    assert_eq!(rig.memory.counters().since(&before).shootdowns, 1);
    finish(&rig, space, &[], free);
}

#[test]
fn whole_tables_move_whatever_is_mapped_before_the_new_place() {
    let (rig, space, start, free) = stored(4096, 1024);
    let to = (1 << 40) + HUGE;
    // Mappings on both sides of the new place have tables of their own.
    let other = rig.memory.map_anonymous(&space, Pages::new(2)).unwrap();
    for (page, at) in [(0, to - HUGE), (1, to + 2 * HUGE)] {
        let from = other + page * PAGE_BYTES;
        rig.memory.remap(&space, from, Pages::new(1), Pages::new(1), Placement::At(at)).unwrap();
        rig.store(&space, at, 9).unwrap();
    }
    rig.platform().at(Moment::Work(Work::Unmap), || panic!("a page moves by itself"));
    let pages = Pages::new(1024);
    assert_eq!(rig.memory.remap(&space, start, pages, pages, Placement::At(to)), Ok(to));
    rig.platform().forget_hooks();
    assert_kept(&rig, &space, to, 1024);
    finish(&rig, space, &[], free);
}

#[test]
fn a_call_promises_exactly_the_ranges_that_it_takes_away() {
    use Protection::{None, Read};
    let (rig, space, start, free) = stored(4096, 512);
    let page = |number| at(start, number);
    let remap = |from, pages, new_pages, placement| {
        rig.memory.remap(&space, from, Pages::new(pages), Pages::new(new_pages), placement).unwrap()
    };
    rig.platform().take_returned();
    rig.memory.protect(&space, page(4), Pages::new(2), Read).unwrap();
    assert_eq!(rig.platform().take_returned(), [(page(4), page(6), Read)]);
    rig.memory.protect(&space, page(4), Pages::new(2), Protection::ReadWrite).unwrap();
    assert_eq!(rig.platform().take_returned(), []);
    rig.memory.unmap(&space, page(508), Pages::new(4)).unwrap();
    assert_eq!(rig.platform().take_returned(), [(page(508), page(512), None)]);
    remap(start, 508, 500, Placement::Here);
    assert_eq!(rig.platform().take_returned(), [(page(500), page(508), None)]);
    remap(start, 500, 510, Placement::Here);
    assert_eq!(rig.platform().take_returned(), []);
    let to = 1 << 40;
    remap(start, 510, 300, Placement::At(to));
    assert_eq!(
        rig.platform().take_returned(),
        [(start, page(510), None), (to, at(to, 300), None)],
        "the old place, and what was mapped at the new one"
    );
    rig.memory.discard_ranges(&space, &[(at(to, 9), Pages::new(1)), (to, Pages::new(2))]).unwrap();
    assert_eq!(rig.platform().take_returned(), [(to, at(to, 2), None), (at(to, 9), at(to, 10), None)]);
    finish(&rig, space, &[], free);
}

#[test]
fn an_unmap_of_many_pages_costs_one_flush() {
    let (rig, space, start, free) = stored(2048, 600);
    let before = rig.memory.counters();
    rig.memory.unmap(&space, start, Pages::new(600)).unwrap();
    assert_eq!(rig.memory.counters().since(&before).shootdowns, 1);
    finish(&rig, space, &[], free);
}

#[test]
fn a_move_makes_only_the_tables_of_the_new_place() {
    let (rig, space, start, free) = stored(512, 3);
    let before = rig.memory.free_frames();
    // The new place ends with the range of its table, under the same tables above.
    let to = start + 4 * HUGE - 3 * PAGE_BYTES;
    let pages = Pages::new(3);
    rig.memory.remap(&space, start, pages, pages, Placement::At(to)).unwrap();
    assert_eq!(rig.memory.free_frames(), before, "one table is new, and one is not needed any more");
    assert_kept(&rig, &space, to, 3);
    finish(&rig, space, &[], free);
}

#[test]
fn a_mapping_that_cannot_grow_where_it_is_moves_if_it_may() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    let next = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    assert_eq!(next, start + HUGE);
    rig.store(&space, at(start, 3), 4).unwrap();
    let (pages, more) = (Pages::HUGE, Pages::new(513));
    assert_eq!(rig.memory.remap(&space, start, pages, more, Placement::Here), Err(RemapError::NoRoom(more)));
    assert_eq!(rig.load(&space, at(start, 3)), Ok(4));
    let to = rig.memory.remap(&space, start, pages, more, Placement::Anywhere).unwrap();
    assert_ne!(to, start);
    both(&rig, || {
        assert_eq!(rig.load(&space, at(to, 3)), Ok(4));
        assert_eq!(rig.load(&space, at(to, 512)), Ok(0));
        assert_eq!(rig.load(&space, start), Err(FaultError::NotMapped(start)));
    });
    finish(&rig, space, &[], free);
}

#[test]
fn mappings_at_the_new_place_are_unmapped() {
    let (rig, space, start, free) = stored(2048, 4);
    let file = rig.memory.create_file(1).unwrap();
    let target = rig.memory.map_anonymous(&space, Pages::new(600)).unwrap();
    for page in [0, 1, 599] {
        both(&rig, || rig.store(&space, at(target, page), 100 + page).unwrap());
    }
    let to = at(target, 1);
    assert_eq!(rig.memory.remap(&space, start, Pages::new(4), Pages::new(4), Placement::At(to)), Ok(to));
    both(&rig, || {
        assert_eq!(rig.load(&space, target), Ok(100));
        assert_eq!(rig.load(&space, to), Ok(1), "CPU 1 could still read the old page");
        assert_eq!(rig.load(&space, at(to, 3)), Ok(4));
        assert_eq!(rig.load(&space, at(target, 599)), Ok(699));
    });
    finish(&rig, space, &[file], free);
}

#[test]
fn a_whole_table_moves_over_existing_pages() {
    let (rig, space, start, free) = stored(4096, 512);
    let target = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    both(&rig, || rig.store(&space, at(target, 9), 5).unwrap());
    rig.memory.remap(&space, start, Pages::HUGE, Pages::HUGE, Placement::At(target)).unwrap();
    assert_kept(&rig, &space, target, 512);
    finish(&rig, space, &[], free);
}

#[test]
fn whole_tables_move_to_where_no_table_was() {
    let (rig, space, start, free) = stored(4096, 1024);
    let pages = Pages::new(1024);
    let mut from = start;
    // The second table is in another GiB than the first, and each place in another than the ones before. So nothing is
    // there of the tables above either.
    for to in [(1 << 40) - HUGE, (5 << 40) - HUGE, (3 << 40) - HUGE] {
        assert_eq!(rig.memory.remap(&space, from, pages, pages, Placement::At(to)), Ok(to));
        assert_kept(&rig, &space, to, 1024);
        from = to;
    }
    finish(&rig, space, &[], free);
}

#[test]
fn pages_behind_an_empty_table_move_to_another_offset() {
    let (rig, space) = shared_space(2048);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    let used = [512, 513, 700, 1023];
    for page in used {
        both(&rig, || rig.store(&space, at(start, page), page).unwrap());
    }
    let (pages, to) = (Pages::new(1024), at(1 << 40, 5));
    assert_eq!(rig.memory.remap(&space, start, pages, pages, Placement::At(to)), Ok(to));
    both(&rig, || {
        for page in used {
            assert_eq!(rig.load(&space, at(to, page)), Ok(page));
        }
    });
    finish(&rig, space, &[], free);
}

#[test]
fn a_mapping_grows_up_to_the_next() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    assert_eq!(rig.memory.map_anonymous(&space, Pages::new(1)), Ok(start + HUGE));
    let grow = |from, to| rig.memory.remap(&space, start, from, to, Placement::Here);
    assert_eq!(grow(Pages::new(1), Pages::HUGE), Ok(start));
    let more = Pages::new(513);
    assert_eq!(grow(Pages::HUGE, more), Err(RemapError::NoRoom(more)));
    finish(&rig, space, &[], free);
}

#[test]
fn a_mapping_grows_up_to_the_longest_file() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(1).unwrap();
    let first = 1 << 31;
    let start = rig.memory.map_shared(&space, file, first, Pages::new(1), false).unwrap();
    let grow = |pages| rig.memory.remap(&space, start, Pages::new(1), Pages::new(pages), Placement::Here);
    let longest = u64::from(u32::MAX) - u64::from(first);
    let more = Pages::new(longest + 1);
    assert_eq!(grow(longest + 1), Err(RemapError::NoRoom(more)));
    assert_eq!(grow(longest), Ok(start));
    finish(&rig, space, &[file], free);
}

#[test]
fn moved_mappings_of_files_show_the_same_pages_and_truncation_finds_them() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(8).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(8), true).unwrap();
    let private = rig.memory.map_private(&space, file, 0, Pages::new(8)).unwrap();
    both(&rig, || rig.store(&space, at(shared, 5), 6).unwrap());
    both(&rig, || rig.store(&space, at(private, 4), 7).unwrap());
    let pages = Pages::new(4);
    let (shared_to, private_to) = (1 << 40, 1 << 41);
    rig.memory.remap(&space, at(shared, 4), pages, pages, Placement::At(shared_to)).unwrap();
    rig.memory.remap(&space, at(private, 4), pages, pages, Placement::At(private_to)).unwrap();
    both(&rig, || {
        assert_eq!(rig.load(&space, at(shared_to, 1)), Ok(6));
        assert_eq!(rig.load(&space, private_to), Ok(7));
        assert_eq!(rig.load(&space, at(private_to, 1)), Ok(6));
        assert_eq!(rig.load(&space, at(shared, 4)), Err(FaultError::NotMapped(at(shared, 4))));
    });
    assert_eq!(rig.memory.sync(file), 1);
    rig.memory.truncate(file, 4 * PAGE_BYTES).unwrap();
    both(&rig, || {
        for address in [shared_to, at(shared_to, 1), private_to, at(private_to, 1)] {
            assert_eq!(rig.load(&space, address), Err(FaultError::BeyondEnd(address)));
        }
    });
    finish(&rig, space, &[file], free);
}

#[test]
fn an_image_is_mapped_at_its_link_address() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let image = rig.memory.create_file(8).unwrap();
    rig.memory.write(image, 5 * PAGE_BYTES, &7u64.to_le_bytes()).unwrap();
    let pages = Pages::new(4);
    for linked in [0x40_0000, 0x40_4000, 1 << 46] {
        let start = rig.memory.map_private(&space, image, 4, Pages::new(4)).unwrap();
        assert_eq!(start, 0x20_0000, "the first free range");
        assert_eq!(rig.memory.remap(&space, start, pages, pages, Placement::At(linked)), Ok(linked));
        both(&rig, || assert_eq!(rig.load(&space, at(linked, 1)), Ok(7)));
        rig.store(&space, at(linked, 1), linked).unwrap();
        both(&rig, || assert_eq!(rig.load(&space, at(linked, 1)), Ok(linked)));
        assert_eq!(rig.load(&space, start), Err(FaultError::NotMapped(start)));
    }
    let mut word = [0; 8];
    rig.memory.read(image, 5 * PAGE_BYTES, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 7, "the program's stores are private");
    finish(&rig, space, &[image], free);
}

#[test]
fn hidden_pages_move_too() {
    let (rig, space, start, free) = stored(512, 4);
    rig.memory.protect(&space, start, Pages::new(1), Protection::None).unwrap();
    rig.memory.hint(&space, at(start, 1), Pages::new(1)).unwrap();
    for page in 0..2 {
        let to = at(1 << 40, page);
        rig.memory.remap(&space, at(start, page), Pages::new(1), Pages::new(1), Placement::At(to)).unwrap();
    }
    assert_eq!(rig.load(&space, 1 << 40), Err(FaultError::NoAccess(1 << 40)));
    rig.memory.protect(&space, 1 << 40, Pages::new(1), Protection::Read).unwrap();
    assert_eq!(rig.load(&space, 1 << 40), Ok(1));
    assert_eq!(rig.load(&space, at(1 << 40, 1)), Ok(2));
    finish(&rig, space, &[], free);
}

#[test]
fn a_wrong_range_to_move_is_named_and_changes_nothing() {
    let (rig, space, start, free) = stored(512, 4);
    let remap =
        |from, pages, new_pages, placement| rig.memory.remap(&space, from, pages, new_pages, placement);
    let [none, one, two, three] = [0, 1, 2, 3].map(Pages::new);
    for (from, wrong) in [(start, none), (start + 1, one)] {
        let error = RangeError { start: from, pages: wrong };
        assert_eq!(remap(from, wrong, one, Placement::Here), Err(RemapError::Range(error)));
    }
    for wrong in [none, Pages::new(u64::MAX / PAGE_BYTES), Pages::new(u64::MAX)] {
        let error = RangeError { start, pages: wrong };
        assert_eq!(remap(start, one, wrong, Placement::Anywhere), Err(RemapError::Range(error)));
    }
    for to in [1 << 40 | 1, USER_END, USER_END - PAGE_BYTES] {
        let error = RangeError { start: to, pages: two };
        assert_eq!(remap(start, one, two, Placement::At(to)), Err(RemapError::Range(error)));
    }
    for (to, new_pages) in [(start, one), (at(start, 1), one), (start - PAGE_BYTES, two)] {
        assert_eq!(remap(start, two, new_pages, Placement::At(to)), Err(RemapError::Overlap));
    }
    assert_eq!(remap(start, Pages::new(5), one, Placement::Here), Err(RemapError::NotOneMapping(start)));
    let file = rig.memory.create_file(1).unwrap();
    let last = rig.memory.map_shared(&space, file, u32::MAX - 2, Pages::new(1), false).unwrap();
    assert_eq!(remap(last, one, three, Placement::Here), Err(RemapError::NoRoom(three)));
    assert_eq!(remap(last, one, two, Placement::Here), Ok(last));
    both(&rig, || {
        for page in 0..4 {
            assert_eq!(rig.load(&space, at(start, page)), Ok(page + 1));
        }
    });
    finish(&rig, space, &[file], free);
}

#[test]
fn moving_without_memory_for_tables_is_an_error_and_changes_nothing() {
    let (rig, space, start, free) = stored(256, 4);
    let filler = rig.memory.map_anonymous(&space, Pages::new(512)).unwrap();
    let full = (0..512).find(|&page| rig.store(&space, at(filler, page), 1).is_err()).unwrap();
    let length = Pages::new(4);
    let result = rig.memory.remap(&space, start, length, length, Placement::At(1 << 45));
    assert_eq!(result, Err(RemapError::OutOfMemory));
    both(&rig, || assert_eq!(rig.load(&space, at(start, 2)), Ok(3)));
    assert!(full > 100);
    // Enough for some of the tables, which are given back.
    for pages in 1..3 {
        rig.memory.discard(&space, filler, Pages::new(pages)).unwrap();
        rig.memory.list_collected();
        let left = rig.memory.free_frames();
        let result = rig.memory.remap(&space, start, length, length, Placement::At(1 << 45));
        assert_eq!((result, rig.memory.free_frames()), (Err(RemapError::OutOfMemory), left));
        (0..pages).for_each(|page| rig.store(&space, at(filler, page), 1).unwrap());
    }
    finish(&rig, space, &[], free);
}

#[test]
fn tables_are_freed_with_the_mappings_that_needed_them() {
    let (rig, space) = shared_space(4096);
    let free = rig.memory.free_frames() + 1;
    let empty = rig.memory.free_frames();
    let start = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    for page in [0, 600] {
        both(&rig, || rig.store(&space, at(start, page), page).unwrap());
    }
    let to = (1 << 40) + PAGE_BYTES;
    let (pages, fewer) = (Pages::new(1024), Pages::new(512));
    rig.memory.remap(&space, start, pages, pages, Placement::At(to)).unwrap();
    assert_eq!(rig.platform().tables_freed(), 4, "all tables that lead to the old place");
    rig.memory.remap(&space, to, pages, fewer, Placement::Here).unwrap();
    rig.memory.unmap(&space, to, fewer).unwrap();
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), empty, "nothing is mapped, and no table is left");
    finish(&rig, space, &[], free);
}

/// Performs `act` as CPU 0 while pages move of which CPU 1 still holds translations: their flush is owed. Returns its
/// result.
fn while_owed(without: Option<Guard>, act: fn(&Rig, &Space, u64) -> bool) -> bool {
    let (rig, space, start, _) = stored(512, 4);
    guards::remove(&rig.memory, without);
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (send, receive) = std::sync::mpsc::channel();
    rig.platform().after(1, Moment::Work(Work::MigratePage), move || {
        assert!(inner.memory.engine().owes(inner_space.coherence()) && inner.platform().caches(1, start));
        send.send(act(&inner, &inner_space, start)).unwrap();
    });
    rig.memory.migrate_space(&space, NodeId(0), NodeId(1)).unwrap();
    if without.is_none() {
        rig.platform().assert_no_violation();
    }
    receive.recv().unwrap()
}

/// Checks that rule R3 holds for an operation, and is seen broken without the guard that enforces it.
fn assert_needs_settling(breaks: fn(&Rig, &Space, u64) -> bool) {
    assert!(!while_owed(None, breaks), "R3 is broken");
    #[cfg(ceasefire_sabotage)]
    assert!(
        while_owed(Some(guards::Engine::Settle.into()), breaks),
        "R3 must be seen to break without its guard"
    );
}

#[test]
fn munmap_pays_debts_before_it_returns() {
    assert_needs_settling(|rig, space, start| {
        rig.memory.unmap(space, start, Pages::new(1)).unwrap();
        rig.on(1, || rig.load(space, start)).is_ok()
    });
}

#[test]
fn mprotect_pays_debts_before_it_returns() {
    assert_needs_settling(|rig, space, start| {
        rig.memory.protect(space, start, Pages::new(1), Protection::Read).unwrap();
        rig.on(1, || rig.store(space, start, 9)).is_ok()
    });
    assert_needs_settling(|rig, space, start| {
        rig.memory.protect(space, start, Pages::new(1), Protection::None).unwrap();
        rig.on(1, || rig.load(space, start)).is_ok()
    });
}

#[test]
fn mremap_pays_debts_before_it_returns() {
    assert_needs_settling(|rig, space, start| {
        rig.memory.remap(space, start, Pages::new(1), Pages::new(1), Placement::At(1 << 40)).unwrap();
        rig.on(1, || rig.load(space, start)).is_ok()
    });
}

/// Forks while a page moves to which CPU 1 can still store; returns the value that the child reads after CPU 1 has
/// stored.
fn fork_while_owed(without: Option<Guard>) -> u64 {
    let (rig, space, start, _) = stored(512, 2);
    guards::remove(&rig.memory, without);
    // Fork takes no right from this page, so it has nothing to flush.
    rig.memory.protect(&space, at(start, 1), Pages::new(1), Protection::Read).unwrap();
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (send, receive) = std::sync::mpsc::channel();
    rig.on(1, || rig.store(&space, start, 1)).unwrap();
    rig.platform().after(1, Moment::Work(Work::MigratePage), move || {
        send.send(inner.memory.fork(&inner_space).unwrap()).unwrap();
        if inner.platform().caches(1, start) {
            inner.on(1, || inner.store(&inner_space, start, 9)).unwrap();
        }
    });
    rig.memory.migrate_space(&space, NodeId(0), NodeId(1)).unwrap();
    let child = receive.recv().unwrap();
    rig.run(&child);
    rig.load(&child, start).unwrap()
}

#[test]
fn fork_pays_debts_before_it_returns() {
    assert_eq!(fork_while_owed(None), 1);
    #[cfg(ceasefire_sabotage)]
    assert_eq!(
        fork_while_owed(Some(guards::Engine::Settle.into())),
        9,
        "without its guard the child sees a later store"
    );
}

#[test]
fn madvise_pays_debts_before_it_returns() {
    assert_needs_settling(|rig, space, start| {
        rig.memory.discard(space, start, Pages::new(1)).unwrap();
        rig.on(1, || rig.load(space, start)) != Ok(0)
    });
}
