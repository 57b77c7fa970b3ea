//! Anonymous memory under pressure: moved to the swap device, paged out on advice, or kept because it is locked.

use ceasefire::Schedule;
use ceasefire_memory::{
    AdviseError, Config, FaultError, LockError, NodeId, NodeLayout, Pages, Protection, RangeError, Work,
    PAGE_BYTES, USER_END,
};

#[cfg(ceasefire_sabotage)]
use crate::common::guards::{self, Guard};
use crate::common::{at, config, end, exhaust, finish, meet, running, shared_space, Moment, Rig, Space};

const SLOTS: u32 = 256;

fn swapping(frames: u32, slots: u32) -> Config {
    Config { swap_pages: slots, lru_batch: 1, ..config(frames) }
}

/// A machine with a swap device, and `pages` pages that both CPUs have stored to: page `n` holds `n + 1`.
fn stored(config: Config, pages: u64) -> (Rig, Space, u64, u64) {
    let (rig, space, free) = running(config);
    let start = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    for page in 0..pages {
        rig.store(&space, at(start, page), 0).unwrap();
        rig.on(1, || rig.store(&space, at(start, page), page + 1)).unwrap();
    }
    rig.memory.list_collected();
    (rig, space, start, free)
}

fn both(rig: &Rig, body: impl Fn()) {
    for cpu in 0..2 {
        rig.on(cpu, &body);
    }
}

fn assert_kept(rig: &Rig, space: &Space, start: u64, pages: u64) {
    both(rig, || {
        for page in 0..pages {
            assert_eq!(rig.load(space, at(start, page)), Ok(page + 1), "page {page}");
        }
    });
}

/// The end of the program, with all slots free again.
fn finish_all(rig: &Rig, space: Space, free: u64) {
    let slots = rig.memory.config().swap_pages;
    finish(rig, space, &[], free);
    assert_eq!(rig.memory.free_slots(), slots, "slots were lost or found");
}

#[test]
fn pages_go_out_and_come_back_with_their_bytes() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 50);
    let before = rig.memory.free_frames();
    rig.memory.advise_page_out(&space, start, Pages::new(50)).unwrap();
    assert_eq!(rig.memory.free_frames(), before + 50);
    assert_eq!((rig.memory.free_slots(), rig.platform().written()), (SLOTS - 50, 50));
    for cpu in 0..2 {
        assert!((0..50).all(|page| !rig.platform().caches(cpu, at(start, page))));
    }
    assert_kept(&rig, &space, start, 50);
    assert_eq!(rig.memory.statistics().swapped_in, 50);
    finish_all(&rig, space, free);
}

#[test]
fn a_page_that_was_only_read_goes_out_again_unwritten() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 8);
    rig.memory.advise_page_out(&space, start, Pages::new(8)).unwrap();
    assert_kept(&rig, &space, start, 8);
    rig.memory.list_collected();
    rig.memory.advise_page_out(&space, start, Pages::new(8)).unwrap();
    assert_eq!(rig.platform().written(), 8, "the device still holds it");
    assert_kept(&rig, &space, start, 8);
    rig.platform().at(Moment::Copy, || panic!("a page without other users is copied"));
    for page in 0..8 {
        rig.store(&space, at(start, page), page + 1).unwrap();
    }
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_slots(), SLOTS, "a page that is stored to gives up its slot");
    rig.memory.advise_page_out(&space, start, Pages::new(8)).unwrap();
    assert_eq!(rig.platform().written(), 16);
    assert_kept(&rig, &space, start, 8);
    finish_all(&rig, space, free);
}

#[test]
fn more_memory_than_there_is_can_be_used() {
    let (rig, space) = {
        let rig = Rig::by_hand(swapping(512, 1024));
        let space = rig.memory.new_space().unwrap();
        rig.run(&space);
        rig.on(1, || rig.run(&space));
        (rig, space)
    };
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(1200)).unwrap();
    for page in 0..1200 {
        assert_eq!(rig.on(page as usize % 2, || rig.store(&space, at(start, page), page + 1)), Ok(()));
    }
    for page in 0..1200 {
        assert_eq!(rig.on(page as usize / 2 % 2, || rig.load(&space, at(start, page))), Ok(page + 1));
    }
    finish_all(&rig, space, free);
}

#[test]
fn a_full_device_keeps_no_page_of_a_file_in_memory() {
    let (rig, space, start, free) = stored(swapping(512, 4), 200);
    let file = rig.memory.create_file(150).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(150), false).unwrap();
    for page in 0..150 {
        rig.load(&space, at(shared, page)).unwrap();
    }
    let more = rig.memory.map_anonymous(&space, Pages::new(220)).unwrap();
    for page in 0..220 {
        assert_eq!(rig.store(&space, at(more, page), page), Ok(()), "page {page}");
    }
    assert_kept(&rig, &space, start, 200);
    rig.memory.unmap(&space, shared, Pages::new(150)).unwrap();
    rig.memory.delete_file(file);
    finish_all(&rig, space, free);
}

#[test]
fn a_lock_stores_to_no_page_of_a_file() {
    let (rig, space) = shared_space(256);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(8).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
    rig.memory.lock(&space, shared, Pages::new(4)).unwrap();
    assert_eq!(rig.memory.sync(file), 0, "no page is dirty");
    let private = rig.memory.map_private(&space, file, 0, Pages::new(4)).unwrap();
    assert_eq!(rig.load(&space, private), Ok(0));
    let before = rig.memory.free_frames();
    rig.memory.lock(&space, private, Pages::new(4)).unwrap();
    assert_eq!(rig.memory.free_frames(), before, "no page is copied");
    finish(&rig, space, &[file], free);
}

#[test]
fn a_page_on_its_way_to_the_lists_can_be_given_up() {
    let rig = Rig::by_hand(config(256));
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let start = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    rig.store(&space, start, 1).unwrap();
    rig.memory.advise_free(&space, start, Pages::new(1)).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&space);
    assert_eq!(rig.load(&space, start), Ok(0));
    finish_all(&rig, space, free);
}

#[test]
fn a_store_to_a_page_whose_slot_another_program_names_makes_a_copy() {
    let (rig, space, start, free) = stored(swapping(512, SLOTS), 2);
    let child = rig.memory.fork(&space).unwrap();
    rig.memory.exit(rig.memory.fork(&space).unwrap());
    end(&rig, exhaust(&rig));
    assert!(rig.memory.free_slots() < SLOTS, "the pages went out");
    rig.run(&space);
    assert_eq!(rig.load(&space, start), Ok(1), "the page is back, and the child still names its slot");
    rig.memory.list_collected();
    rig.store(&space, start, 7).unwrap();
    rig.run(&child);
    assert_eq!([0, 1].map(|page| rig.load(&child, at(start, page))), [Ok(1), Ok(2)]);
    rig.memory.exit(child);
    rig.run(&space);
    assert_eq!(rig.load(&space, start), Ok(7));
    finish_all(&rig, space, free);
}

#[test]
fn the_larger_kind_of_pages_goes_first_while_the_device_has_room() {
    for (anonymous, of_file) in [(300, 50), (50, 300)] {
        let config = Config { nodes: vec![NodeLayout::new(512)], ..swapping(512, SLOTS) };
        let (rig, space, start, free) = stored(config, anonymous);
        let file = rig.memory.create_file(of_file).unwrap();
        rig.memory.read(file, 0, &mut vec![0; of_file as usize * PAGE_BYTES as usize]).unwrap();
        let mut spaces = Vec::new();
        while !rig.platform().take_wake(NodeId(0)) {
            spaces.push(rig.memory.new_space().unwrap());
        }
        // Much fewer pages go than the larger kind has.
        rig.memory.reclaim_node(NodeId(0));
        let (written, cached) = (rig.memory.statistics().written, rig.memory.cached_pages(file));
        assert_eq!(written > 0, anonymous > 50, "{written} anonymous pages are written");
        assert_eq!(cached < u64::from(of_file), of_file > 50, "{cached} pages of the file are left");
        end(&rig, spaces);
        rig.run(&space);
        assert_kept(&rig, &space, start, anonymous);
        rig.memory.delete_file(file);
        finish_all(&rig, space, free);
    }
}

#[test]
fn without_room_on_the_device_it_is_out_of_memory_and_nothing_is_lost() {
    let (rig, space, start, free) = stored(swapping(256, 16), 1);
    let more = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    let full = (0..1024).find(|&page| rig.store(&space, at(more, page), page + 1).is_err()).unwrap();
    assert_eq!(rig.store(&space, at(more, full), 1), Err(FaultError::OutOfMemory));
    assert!(full > 200, "{full} of 272");
    assert_eq!(rig.memory.free_slots(), 0);
    rig.memory.discard(&space, at(more, full / 2), Pages::new(full - full / 2)).unwrap();
    assert_kept(&rig, &space, more, full / 2);
    assert_kept(&rig, &space, start, 1);
    finish_all(&rig, space, free);
}

#[test]
fn an_unmapped_or_discarded_page_frees_its_slot() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 8);
    rig.memory.advise_page_out(&space, start, Pages::new(8)).unwrap();
    rig.memory.unmap(&space, start, Pages::new(2)).unwrap();
    assert_eq!(rig.memory.free_slots(), SLOTS - 6);
    rig.memory.discard(&space, at(start, 2), Pages::new(2)).unwrap();
    assert_eq!(rig.memory.free_slots(), SLOTS - 4);
    assert_eq!(rig.load(&space, at(start, 2)), Ok(0));
    rig.memory.advise_free(&space, at(start, 4), Pages::new(1)).unwrap();
    assert_eq!(rig.memory.free_slots(), SLOTS - 3);
    assert_eq!(rig.load(&space, at(start, 5)), Ok(6));
    rig.memory.unmap(&space, at(start, 5), Pages::new(1)).unwrap();
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_slots(), SLOTS - 2, "also after the page was read in again");
    finish_all(&rig, space, free);
}

#[test]
fn a_page_dropped_on_its_way_to_the_lists_leaves_the_device_when_the_batch_is_full() {
    let (rig, space, start, free) = stored(Config { lru_batch: 4, ..swapping(512, SLOTS) }, 4);
    rig.memory.advise_page_out(&space, start, Pages::new(4)).unwrap();
    assert_eq!(rig.load(&space, start), Ok(1));
    rig.memory.unmap(&space, start, Pages::new(1)).unwrap();
    assert_eq!(rig.memory.free_slots(), SLOTS - 4, "it is on its way to the lists");
    let fresh = rig.memory.map_anonymous(&space, Pages::new(4)).unwrap();
    (0..4).for_each(|page| rig.store(&space, at(fresh, page), 1).unwrap());
    assert_eq!(rig.memory.free_slots(), SLOTS - 3);
    finish_all(&rig, space, free);
}

#[test]
fn pages_on_the_device_move_with_their_mapping_and_keep_their_rights() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 4);
    rig.memory.advise_page_out(&space, start, Pages::new(4)).unwrap();
    let pages = Pages::new(4);
    rig.memory.remap(&space, start, pages, pages, ceasefire_memory::Placement::At(1 << 40)).unwrap();
    assert_eq!(rig.memory.free_slots(), SLOTS - 4);
    rig.memory.protect(&space, 1 << 40, Pages::new(1), Protection::Read).unwrap();
    assert_eq!(rig.store(&space, 1 << 40, 1), Err(FaultError::ReadOnly(1 << 40)));
    assert_kept(&rig, &space, 1 << 40, 4);
    assert_eq!(rig.load(&space, start), Err(FaultError::NotMapped(start)));
    finish_all(&rig, space, free);
}

/// Pages out two pages. Performs `act` when the first is unmapped and its flush is owed.
fn while_going_out(rig: &Rig, space: &Space, start: u64, act: impl FnOnce(&Rig, &Space) + Send + 'static) {
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().after(1, Moment::Work(Work::ReclaimPage), move || {
        assert!(inner.memory.engine().owes(inner_space.coherence()));
        inner.on(1, || act(&inner, &inner_space));
    });
    rig.memory.advise_page_out(space, start, Pages::new(2)).unwrap();
    assert!(rig.platform().all_done());
}

#[test]
fn a_store_through_an_owed_translation_is_written_out() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 4);
    while_going_out(&rig, &space, start, move |rig, space| {
        assert!(rig.platform().caches(1, start));
        rig.store(space, start, 9).unwrap();
    });
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(9)));
    finish_all(&rig, space, free);
}

#[test]
fn a_page_used_while_it_goes_out_is_found_and_not_duplicated() {
    for write in [false, true] {
        let (rig, space, start, free) = stored(swapping(1024, SLOTS), 4);
        // CPU 0 walks the tables, and finds the page in the device's cache. CPU 1 still uses its old entry.
        while_going_out(&rig, &space, start, move |rig, space| {
            rig.store(space, start, 8).unwrap();
            rig.on(0, || {
                if write {
                    rig.store(space, start, 9).unwrap();
                } else {
                    assert_eq!(rig.load(space, start), Ok(8));
                }
            });
            assert_eq!(rig.load(space, start), Ok(if write { 9 } else { 8 }));
            rig.store(space, start, 10).unwrap();
            rig.on(0, || assert_eq!(rig.load(space, start), Ok(10)));
        });
        both(&rig, || assert_eq!(rig.load(&space, start), Ok(10)));
        rig.store(&space, start, 11).unwrap();
        rig.on(1, || assert_eq!(rig.load(&space, start), Ok(11)));
        finish_all(&rig, space, free);
    }
}

#[test]
fn a_fork_while_a_page_goes_out_shares_it() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 2);
    let (send, receive) = std::sync::mpsc::channel();
    while_going_out(&rig, &space, start, move |rig, space| {
        send.send(rig.memory.fork(space).unwrap()).unwrap();
        rig.store(space, start, 9).unwrap();
    });
    let child = receive.recv().unwrap();
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(9)));
    rig.run(&child);
    assert_eq!(rig.load(&child, start), Ok(1));
    rig.memory.exit(child);
    rig.run(&space);
    finish_all(&rig, space, free);
}

#[test]
fn an_unmap_while_a_page_goes_out_frees_its_slot() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 4);
    while_going_out(&rig, &space, start, move |rig, space| {
        rig.memory.unmap(space, start, Pages::new(2)).unwrap();
        both(rig, || assert_eq!(rig.load(space, start), Err(FaultError::NotMapped(start))));
    });
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_slots(), SLOTS);
    finish_all(&rig, space, free);
}

#[test]
fn no_store_during_the_write_out_is_lost() {
    let (rig, space, start, free) = stored(swapping(1024, SLOTS), 2);
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::WriteOut, move || {
        inner.on(1, || inner.store(&inner_space, start, 9)).unwrap();
    });
    rig.memory.advise_page_out(&space, start, Pages::new(1)).unwrap();
    assert!(rig.platform().all_done());
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(9)));
    finish_all(&rig, space, free);
}

#[test]
fn two_cpus_that_miss_a_page_on_the_device_read_it_once() {
    let rig = Rig::threaded(swapping(512, 16));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let start = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    rig.store(&space, start, 5).unwrap();
    rig.memory.advise_page_out(&space, start, Pages::new(1)).unwrap();
    assert_eq!(rig.memory.free_slots(), 15);
    let read = |rig: &Rig, space: &Space| assert_eq!(rig.load(space, start), Ok(5));
    meet((&rig, &space), Moment::ReadIn, || read(&rig, &space), read);
    assert_eq!(rig.memory.statistics().swapped_in, 1);
    rig.platform().assert_no_violation();
}

#[test]
fn pages_given_up_are_kept_until_memory_is_short() {
    for swap in [0, SLOTS] {
        let (rig, space, start, free) = stored(swapping(512, swap), 8);
        rig.memory.advise_free(&space, start, Pages::new(4)).unwrap();
        assert_kept(&rig, &space, start, 8);
        let slots = rig.memory.free_slots();
        end(&rig, exhaust(&rig));
        rig.run(&space);
        both(&rig, || {
            assert!((0..4).all(|page| rig.load(&space, at(start, page)) == Ok(0)));
            assert!((4..8).all(|page| rig.load(&space, at(start, page)) == Ok(page + 1)));
        });
        assert!(rig.platform().written() <= 4, "a dropped page is not written");
        assert!(slots - rig.memory.free_slots() <= 4);
        finish_all(&rig, space, free);
    }
}

#[test]
fn a_store_keeps_a_page_that_was_given_up() {
    let (rig, space, start, free) = stored(swapping(512, 0), 4);
    rig.memory.advise_free(&space, start, Pages::new(4)).unwrap();
    // Through the same translation, which is clean now: the store must be noticed.
    rig.on(1, || rig.store(&space, at(start, 1), 7)).unwrap();
    rig.store(&space, at(start, 2) + 8, 7).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&space);
    both(&rig, || {
        assert_eq!(rig.load(&space, start), Ok(0));
        assert_eq!(rig.load(&space, at(start, 1)), Ok(7));
        assert_eq!(rig.load(&space, at(start, 2)), Ok(3), "the rest of the page too");
        assert_eq!(rig.load(&space, at(start, 3)), Ok(0));
    });
    finish_all(&rig, space, free);
}

/// CPU 1 stores to a page after its program gave it up; returns the value that is there after reclaim.
#[cfg(ceasefire_sabotage)]
fn stored_after_given_up(without: Guard) -> Result<u64, FaultError> {
    let (rig, space, start, _) = stored(swapping(512, 0), 1);
    guards::remove(&rig.memory, [without]);
    rig.memory.advise_free(&space, start, Pages::new(1)).unwrap();
    rig.on(1, || rig.store(&space, start, 7)).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&space);
    rig.load(&space, start)
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_its_guards_a_store_to_a_page_that_was_given_up_is_lost() {
    for guard in [guards::Own::Restore.into(), guards::Engine::GatherFlush.into()] {
        assert_eq!(stored_after_given_up(guard), Ok(0), "{guard:?}");
    }
}

#[test]
fn a_store_during_the_reclaim_of_a_page_given_up_is_kept() {
    let (rig, space, start, free) = stored(swapping(512, 0), 4);
    rig.memory.advise_free(&space, start, Pages::new(2)).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(1)));
    // The first page is unmapped and its flush owed; CPU 1 holds a clean translation of it.
    while_going_out(&rig, &space, start, move |rig, space| {
        rig.store(space, start, 9).unwrap();
        both(rig, || assert_eq!(rig.load(space, start), Ok(9)));
    });
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(9)));
    assert_eq!(rig.load(&space, start + 8), Ok(0), "in a fresh page");
    assert_eq!(rig.load(&space, at(start, 1)), Ok(0));
    finish_all(&rig, space, free);
}

/// Reclaim owes a flush for a page that was given up, and CPU 0 stores to a fresh page there.
#[cfg(ceasefire_sabotage)]
#[test]
fn without_settling_a_fresh_page_is_mapped_while_the_page_given_up_is_read() {
    let (rig, space, start, _) = stored(swapping(512, 0), 4);
    guards::remove(&rig.memory, [guards::Engine::Settle]);
    rig.memory.advise_free(&space, start, Pages::new(2)).unwrap();
    both(&rig, || assert_eq!(rig.load(&space, start), Ok(1)));
    while_going_out(&rig, &space, start, move |rig, space| {
        rig.on(0, || rig.store(space, start, 9)).unwrap();
        assert_eq!(rig.load(space, start), Ok(1), "R7: CPU 1 reads the old page");
    });
}

#[test]
fn giving_a_page_up_and_storing_to_it_both_survive_a_move() {
    let (rig, space, start, free) = stored(swapping(512, 0), 2);
    rig.memory.advise_free(&space, start, Pages::new(2)).unwrap();
    rig.store(&space, at(start, 1), 7).unwrap();
    assert_eq!(rig.memory.migrate_space(&space, NodeId(0), NodeId(1)).unwrap().moved, 2);
    end(&rig, exhaust(&rig));
    rig.run(&space);
    assert_eq!(rig.load(&space, start), Ok(0));
    assert_eq!(rig.load(&space, at(start, 1)), Ok(7));
    finish_all(&rig, space, free);
}

#[test]
fn pages_that_a_fork_shares_are_not_freed_lazily() {
    let (rig, space, start, free) = stored(swapping(512, 0), 2);
    let child = rig.memory.fork(&space).unwrap();
    rig.memory.advise_free(&space, start, Pages::new(2)).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&child);
    assert_eq!(rig.load(&child, start), Ok(1));
    rig.memory.exit(child);
    rig.run(&space);
    finish_all(&rig, space, free);
}

#[test]
fn cold_pages_go_before_others() {
    let nodes = vec![NodeLayout::new(512)];
    let config = Config { nodes, read_ahead: 1, ..swapping(512, SLOTS) };
    let (rig, space, start, free) = stored(config, 40);
    rig.memory.advise_cold(&space, at(start, 20), Pages::new(20)).unwrap();
    let mut spaces = Vec::new();
    while rig.memory.free_slots() == SLOTS {
        spaces.push(rig.memory.new_space().unwrap());
    }
    let gone = u64::from(SLOTS - rig.memory.free_slots());
    let in_memory = |page: u64| rig.memory.move_pages(&space, &[(at(start, page), NodeId(0))])[0];
    let cold = (20..40).filter(|&page| in_memory(page) == ceasefire_memory::Moved::Absent).count() as u64;
    assert_eq!(cold, gone.min(20), "{gone} pages went");
    assert!(cold > 0);
    end(&rig, spaces);
    rig.run(&space);
    assert_kept(&rig, &space, start, 40);
    finish_all(&rig, space, free);
}

#[test]
fn paging_out_pages_of_a_file_writes_what_is_dirty() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(8).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(8), true).unwrap();
    rig.load(&space, at(shared, 1)).unwrap();
    rig.store(&space, shared, 5).unwrap();
    rig.memory.advise_page_out(&space, shared, Pages::new(8)).unwrap();
    assert_eq!((rig.memory.cached_pages(file), rig.platform().written()), (0, 1));
    both(&rig, || assert_eq!(rig.load(&space, shared), Ok(5)));
    finish(&rig, space, &[file], free);
}

#[test]
fn wrong_advice_is_named_and_changes_nothing() {
    let (rig, space, start, free) = stored(swapping(512, SLOTS), 4);
    let file = rig.memory.create_file(4).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
    rig.store(&space, shared, 5).unwrap();
    rig.memory.lock(&space, at(start, 3), Pages::new(1)).unwrap();
    let memory = &rig.memory;
    let advise: [&dyn Fn(u64, Pages) -> Result<(), AdviseError>; 5] = [
        &|from, pages| memory.discard(&space, from, pages),
        &|from, pages| memory.advise_free(&space, from, pages),
        &|from, pages| memory.advise_cold(&space, from, pages),
        &|from, pages| memory.advise_page_out(&space, from, pages),
        &|from, pages| memory.advise_huge(&space, from, pages, true),
    ];
    for (which, advise) in advise.iter().enumerate() {
        for (from, pages) in [(start, 0), (start + 1, 1), (start, u64::MAX), (USER_END, 1)] {
            let pages = Pages::new(pages);
            assert_eq!(advise(from, pages), Err(AdviseError::Range(RangeError { start: from, pages })));
        }
        if which > 0 {
            let hole = at(start, 4);
            assert_eq!(advise(start, Pages::new(5)), Err(AdviseError::NotMapped(hole)), "{which}");
        }
        if which < 4 {
            assert_eq!(advise(start, Pages::new(4)), Err(AdviseError::Locked(at(start, 3))), "{which}");
        }
        if which == 1 || which == 4 {
            assert_eq!(advise(shared, Pages::new(1)), Err(AdviseError::NotAnonymous(shared)), "{which}");
        }
    }
    assert_kept(&rig, &space, start, 4);
    assert_eq!(rig.memory.free_slots(), SLOTS);
    finish(&rig, space, &[file], free);
}

#[test]
fn locked_pages_are_there_and_stay() {
    let (rig, space, start, free) = stored(swapping(512, SLOTS), 4);
    rig.memory.advise_page_out(&space, start, Pages::new(2)).unwrap();
    let fresh = rig.memory.map_anonymous(&space, Pages::new(4)).unwrap();
    rig.memory.lock(&space, start, Pages::new(4)).unwrap();
    rig.memory.lock(&space, fresh, Pages::new(2)).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&space);
    let faults = rig.memory.statistics().faults;
    assert_kept(&rig, &space, start, 4);
    both(&rig, || (0..2).for_each(|page| rig.store(&space, at(fresh, page), 1).unwrap()));
    assert_eq!(rig.memory.statistics().faults, faults, "no store waits for a copy");
    assert_eq!(rig.memory.migrate_space(&space, NodeId(0), NodeId(1)).unwrap().moved, 6, "they still move");
    assert_kept(&rig, &space, start, 4);
    finish_all(&rig, space, free);
}

#[test]
fn a_range_without_access_is_locked_for_later() {
    let (rig, space, start, free) = stored(swapping(512, SLOTS), 2);
    rig.memory.advise_page_out(&space, start, Pages::new(2)).unwrap();
    rig.memory.protect(&space, start, Pages::new(2), Protection::None).unwrap();
    assert_eq!(rig.memory.lock(&space, start, Pages::new(2)), Ok(()));
    assert_eq!(rig.memory.statistics().swapped_in, 0, "nothing is brought in");
    rig.memory.protect(&space, start, Pages::new(2), Protection::ReadWrite).unwrap();
    assert_kept(&rig, &space, start, 2);
    end(&rig, exhaust(&rig));
    rig.run(&space);
    assert_eq!(rig.memory.statistics().swapped_in, 2, "they stay");
    assert_kept(&rig, &space, start, 2);
    rig.memory.unlock(&space, start, Pages::new(2)).unwrap();
    finish_all(&rig, space, free);
}

#[test]
fn unlocked_pages_can_go_again() {
    let (rig, space, start, free) = stored(swapping(512, SLOTS), 4);
    rig.memory.lock(&space, start, Pages::new(4)).unwrap();
    rig.memory.unlock(&space, at(start, 1), Pages::new(2)).unwrap();
    end(&rig, exhaust(&rig));
    rig.run(&space);
    assert_eq!(rig.memory.free_slots(), SLOTS - 2);
    assert_kept(&rig, &space, start, 4);
    finish_all(&rig, space, free);
}

#[test]
fn a_failed_lock_leaves_the_range_unlocked() {
    let (rig, space, start, free) = stored(swapping(256, 0), 4);
    for (from, pages) in [(start, 0), (start + 1, 1), (start, u64::MAX), (USER_END, 1)] {
        let pages = Pages::new(pages);
        let error = Err(LockError::Range(RangeError { start: from, pages }));
        assert_eq!(rig.memory.lock(&space, from, pages), error);
        assert_eq!(rig.memory.unlock(&space, from, pages), error);
    }
    let hole = Err(LockError::NotMapped(at(start, 4)));
    assert_eq!(rig.memory.lock(&space, start, Pages::new(5)), hole);
    assert_eq!(rig.memory.unlock(&space, start, Pages::new(5)), hole);
    rig.memory.discard(&space, start, Pages::new(1)).unwrap();
    let large = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    rig.memory.lock(&space, large, Pages::new(1)).unwrap();
    assert_eq!(rig.memory.lock(&space, large, Pages::new(1024)), Err(LockError::OutOfMemory));
    assert_eq!(rig.memory.discard(&space, large, Pages::new(1)), Err(AdviseError::Locked(large)));
    assert_eq!(rig.memory.discard(&space, at(large, 1), Pages::new(1023)), Ok(()));
    let file = rig.memory.create_file(1).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    let beyond = Err(LockError::NotMapped(at(shared, 1)));
    assert_eq!(rig.memory.lock(&space, shared, Pages::new(2)), beyond);
    assert_eq!(rig.memory.discard(&space, shared, Pages::new(2)), Ok(()));
    finish(&rig, space, &[file], free);
}

#[test]
fn per_page_flushes_do_not_change_what_programs_see() {
    let config = Config { schedule: Schedule::PerPage, ..swapping(1024, SLOTS) };
    let (rig, space, start, free) = stored(config, 50);
    rig.memory.advise_page_out(&space, start, Pages::new(50)).unwrap();
    assert_kept(&rig, &space, start, 50);
    finish_all(&rig, space, free);
}
