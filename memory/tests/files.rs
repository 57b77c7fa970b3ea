//! Files: bytes read and written by calls and through mappings, and the contents of devices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ceasefire::Schedule;
use ceasefire_memory::{
    AdviseError, Busy, Config, FaultError, ObjectId, Pages, TruncateError, Work, WriteError, PAGE_BYTES,
};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, end, exhaust, finish, meet, shared_space, Moment, Rig, Space};

const LONGEST: u64 = (u32::MAX as u64) << 12;

/// A file that both CPUs map, shared and writable, and privately.
fn mapped(pages: u32) -> (Rig, Space, ObjectId, [u64; 2], u64) {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(pages).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(8), true).unwrap();
    let private = rig.memory.map_private(&space, file, 0, Pages::new(8)).unwrap();
    (rig, space, file, [shared, private], free)
}

fn both(rig: &Rig, body: impl Fn()) {
    for cpu in 0..2 {
        rig.on(cpu, &body);
    }
}

/// The word at an offset.
fn word(rig: &Rig, file: ObjectId, offset: u64) -> u64 {
    let mut bytes = [0xff; 8];
    assert_eq!(rig.memory.read(file, offset, &mut bytes), Ok(8));
    u64::from_le_bytes(bytes)
}

fn put(rig: &Rig, file: ObjectId, offset: u64, value: u64) {
    rig.memory.write(file, offset, &value.to_le_bytes()).unwrap();
}

/// Drops all pages, so the next access reads the device.
fn forget(rig: &Rig, file: ObjectId) {
    rig.memory.invalidate(file, 0, u32::MAX).unwrap();
    assert_eq!(rig.memory.cached_pages(file), 0);
}

#[test]
fn calls_and_mappings_see_the_same_bytes() {
    let (rig, space, file, [shared, private], free) = mapped(8);
    both(&rig, || assert_eq!(rig.load(&space, at(shared, 1)), Ok(0)));
    put(&rig, file, PAGE_BYTES, 5);
    both(&rig, || {
        assert_eq!(rig.load(&space, at(shared, 1)), Ok(5));
        assert_eq!(rig.load(&space, at(private, 1)), Ok(5));
    });
    rig.on(1, || rig.store(&space, at(shared, 1), 6)).unwrap();
    assert_eq!(word(&rig, file, PAGE_BYTES), 6);
    rig.store(&space, at(private, 1) + 8, 7).unwrap();
    assert_eq!(word(&rig, file, PAGE_BYTES + 8), 0, "private stores stay private");
    finish(&rig, space, &[file], free);
}

#[test]
fn reading_ends_with_the_file_and_writing_extends_it() {
    let (rig, space, file, [shared, _], free) = mapped(1);
    assert_eq!(rig.memory.read(file, PAGE_BYTES - 4, &mut [0; 16]), Ok(4));
    assert_eq!(rig.memory.read(file, PAGE_BYTES, &mut [0; 16]), Ok(0));
    assert_eq!(rig.memory.read(file, u64::MAX, &mut [0; 16]), Ok(0));
    assert_eq!(rig.load(&space, at(shared, 2)), Err(FaultError::BeyondEnd(at(shared, 2))));
    put(&rig, file, 2 * PAGE_BYTES + 8, 9);
    assert_eq!(rig.memory.file_bytes(file), 2 * PAGE_BYTES + 16);
    assert_eq!(rig.load(&space, at(shared, 2) + 8), Ok(9));
    assert_eq!(rig.load(&space, at(shared, 1)), Ok(0), "the hole between reads as zeros");
    assert_eq!(rig.memory.write(file, 0, &[]), Ok(()));
    // Across a page boundary. The rig keeps only the first words of a page.
    rig.memory.write(file, PAGE_BYTES - 8, &[3; 16]).unwrap();
    assert_eq!(word(&rig, file, PAGE_BYTES), u64::from_le_bytes([3; 8]));
    finish(&rig, space, &[file], free);
}

#[test]
fn a_read_ends_within_a_page_that_goes_on() {
    let (rig, space, file, _, free) = mapped(2);
    put(&rig, file, PAGE_BYTES, 6);
    let mut bytes = [0xff; 12];
    assert_eq!(rig.memory.read(file, PAGE_BYTES - 8, &mut bytes), Ok(12));
    assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0]);
    finish(&rig, space, &[file], free);
}

#[test]
fn a_stored_file_has_its_length_and_no_page_in_memory() {
    let (rig, space, file, _, free) = mapped(0);
    let stored = rig.memory.open_stored_file(3).unwrap();
    assert_eq!((rig.memory.file_bytes(stored), rig.memory.cached_pages(stored)), (3 * PAGE_BYTES, 0));
    finish(&rig, space, &[file, stored], free);
}

#[test]
fn writing_nothing_or_beyond_the_longest_file_changes_nothing() {
    let (rig, space, file, [shared, _], free) = mapped(1);
    assert_eq!(rig.memory.write(file, LONGEST, &[1]), Err(WriteError::TooLong(LONGEST + 1)));
    assert_eq!(rig.memory.write(file, u64::MAX, &[1, 2]), Err(WriteError::TooLong(u64::MAX)));
    assert_eq!(rig.memory.write(file, LONGEST, &[]), Ok(()));
    assert_eq!(rig.memory.truncate(file, LONGEST + 1), Err(TruncateError::TooLong(LONGEST + 1)));
    assert_eq!(rig.memory.file_bytes(file), PAGE_BYTES);
    assert_eq!(rig.memory.truncate(file, LONGEST), Ok(()));
    assert_eq!(rig.memory.truncate(file, 0), Ok(()));
    assert_eq!(rig.load(&space, shared), Err(FaultError::BeyondEnd(shared)));
    finish(&rig, space, &[file], free);
}

#[test]
fn a_write_that_runs_out_of_memory_reports_the_bytes_written() {
    let (rig, space, file, [shared, _], free) = mapped(0);
    put(&rig, file, 0, 1);
    rig.memory.lock(&space, shared, Pages::new(1)).unwrap();
    let filler = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    assert!((0..1024).any(|page| rig.store(&space, at(filler, page), 1).is_err()));
    let result = rig.memory.write(file, 0, &[7; 3 * 4096]);
    assert_eq!(result, Err(WriteError::OutOfMemory { written: 4096 }));
    assert_eq!(rig.memory.file_bytes(file), PAGE_BYTES, "it ends with the bytes written");
    assert_eq!(word(&rig, file, 0), u64::from_le_bytes([7; 8]));
    finish(&rig, space, &[file], free);
}

#[test]
fn bytes_stored_behind_the_end_are_gone_when_the_file_grows() {
    for grow in [true, false] {
        let (rig, space, file, [shared, _], free) = mapped(0);
        put(&rig, file, 0, 5);
        rig.store(&space, shared + 16, 99).unwrap();
        if grow {
            rig.memory.truncate(file, PAGE_BYTES).unwrap();
        } else {
            put(&rig, file, 24, 7);
        }
        both(&rig, || assert_eq!(rig.load(&space, shared + 16), Ok(0), "by truncate: {grow}"));
        assert_eq!(word(&rig, file, 16), 0);
        assert_eq!(word(&rig, file, 0), 5);
        finish(&rig, space, &[file], free);
    }
}

#[test]
fn each_sync_sees_the_stores_before_it() {
    let (rig, space, file, [shared, _], free) = mapped(8);
    for round in 1..5 {
        both(&rig, || rig.store(&space, at(shared, 1), round).unwrap());
        assert_eq!(rig.memory.sync(file), 1, "round {round}");
        assert_eq!(rig.memory.sync(file), 0, "round {round}");
    }
    rig.on(1, || rig.store(&space, at(shared, 1) + 8, 8)).unwrap();
    put(&rig, file, 2 * PAGE_BYTES, 3);
    assert_eq!(rig.memory.sync(file), 2);
    forget(&rig, file);
    assert_eq!(rig.memory.statistics().read, 0);
    both(&rig, || {
        assert_eq!(rig.load(&space, at(shared, 1)), Ok(4), "the device's contents");
        assert_eq!(rig.load(&space, at(shared, 1) + 8), Ok(8));
        assert_eq!(rig.load(&space, at(shared, 2)), Ok(3));
    });
    assert!(rig.memory.statistics().read >= 2);
    finish(&rig, space, &[file], free);
}

#[test]
fn pages_in_many_batches_are_written_with_a_flush_each() {
    let (rig, space) = shared_space(1024);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(100).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(100), true).unwrap();
    both(&rig, || (0..100).for_each(|page| rig.store(&space, at(shared, page), page + 1).unwrap()));
    let before = rig.memory.counters();
    assert_eq!(rig.memory.sync(file), 100);
    assert_eq!(rig.memory.counters().since(&before).shootdowns, 4, "100 pages, 32 at a time");
    both(&rig, || (0..100).for_each(|page| rig.store(&space, at(shared, page), 0).unwrap()));
    assert_eq!(rig.memory.sync(file), 100);
    finish(&rig, space, &[file], free);
}

/// Stores through an entry that CPU 1 holds while the page is written out; returns the number of violations.
fn store_during_write_out(without: Option<Guard>) -> u64 {
    let (rig, space, file, [shared, _], _) = mapped(2);
    guards::remove(&rig.memory, without);
    rig.on(1, || rig.store(&space, shared, 5)).unwrap();
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::WriteOut, move || {
        if inner.platform().caches(1, shared) {
            inner.on(1, || inner.store(&inner_space, shared, 6)).unwrap();
        }
    });
    assert_eq!(rig.memory.sync(file), 1);
    assert!(rig.platform().all_done());
    rig.platform().violations()
}

#[test]
fn no_store_lands_in_a_page_that_is_being_written() {
    assert_eq!(store_during_write_out(None), 0);
    #[cfg(ceasefire_sabotage)]
    assert!(
        store_during_write_out(Some(guards::Engine::WritableFlush.into())) > 0,
        "R5 breaks without its guard"
    );
}

#[test]
fn a_store_waits_for_the_write_out_and_is_written_by_the_next() {
    let rig = Rig::threaded(config(512));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(2).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    rig.store(&space, shared, 5).unwrap();
    let sync = || assert_eq!(rig.memory.sync(file), 1);
    meet((&rig, &space), Moment::WriteOut, sync, |rig, space| rig.store(space, shared, 6).unwrap());
    assert_eq!(rig.memory.sync(file), 1, "the store that waited");
    forget(&rig, file);
    assert_eq!(rig.load(&space, shared), Ok(6));
    rig.platform().assert_no_violation();
}

/// The wait lasts for ever on a machine with one thread, so a store that returns did not wait.
#[cfg(ceasefire_sabotage)]
#[test]
fn without_its_wait_a_store_lands_in_a_page_that_is_being_written() {
    for mapped_before in [true, false] {
        let (rig, space, file, [shared, _], _) = mapped(1);
        guards::remove(&rig.memory, [guards::Own::Stable]);
        put(&rig, file, 0, 5);
        if mapped_before {
            assert_eq!(rig.on(1, || rig.load(&space, shared)), Ok(5));
        }
        let (inner, inner_space) = (rig.clone(), space.clone());
        rig.platform().at(Moment::WriteOut, move || {
            inner.on(1, || inner.store(&inner_space, shared, 6)).unwrap();
            assert_eq!(word(&inner, file, 0), 6, "R5: the page changes while it is written out");
        });
        assert_eq!(rig.memory.sync(file), 1);
        assert!(rig.platform().all_done());
    }
}

/// Another CPU syncs the file after a store fault has made a page writable and before it has counted the mapping.
#[test]
fn a_store_fault_in_the_middle_of_a_sync_is_not_lost() {
    let rig = Rig::threaded(config(512));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(1).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(1), true).unwrap();
    put(&rig, file, 8, 1);
    let (faults, synced) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    std::thread::scope(|scope| {
        {
            let (rig, faults, synced) = (rig.clone(), faults.clone(), synced.clone());
            scope.spawn(move || {
                let _fails = rig.start(1);
                rig.platform().idle_until(|| faults.load(Ordering::SeqCst));
                rig.memory.sync(file);
                synced.store(true, Ordering::SeqCst);
            });
        }
        let _fails = rig.start(0);
        let (inner, through) = (rig.clone(), synced.clone());
        rig.platform().at(Moment::Work(Work::Map), move || {
            let before = inner.platform().contended();
            faults.store(true, Ordering::SeqCst);
            // Until the other CPU is done, or waits for the table that this fault has locked.
            let waits = || inner.platform().contended() > before;
            inner.platform().idle_until(|| through.load(Ordering::SeqCst) || waits());
        });
        rig.store(&space, shared, 6).unwrap();
        rig.platform().idle_until(|| synced.load(Ordering::SeqCst));
    });
    assert!(rig.platform().all_done());
    rig.store(&space, shared, 7).unwrap();
    assert_eq!(rig.memory.sync(file), 1, "the last store is written");
    forget(&rig, file);
    assert_eq!(rig.load(&space, shared), Ok(7));
    rig.platform().assert_no_violation();
}

#[test]
fn pages_beyond_a_truncation_are_gone_everywhere() {
    let (rig, space, file, [shared, private], free) = mapped(8);
    for page in 0..8 {
        both(&rig, || rig.store(&space, at(shared, page), page + 1).unwrap());
        both(&rig, || rig.store(&space, at(private, page) + 8, page + 1).unwrap());
    }
    rig.memory.truncate(file, 3 * PAGE_BYTES).unwrap();
    both(&rig, || {
        for (start, page) in
            [shared, private].into_iter().flat_map(|start| (0..8).map(move |page| (start, page)))
        {
            let (address, loaded) = (at(start, page), rig.load(&space, at(start, page)));
            let expected = if page < 3 { Ok(page + 1) } else { Err(FaultError::BeyondEnd(address)) };
            assert_eq!(loaded, expected);
            let stored = rig.store(&space, address, page + 1);
            assert_eq!(stored, expected.map(drop));
        }
        for page in 0..3 {
            assert_eq!(rig.load(&space, at(private, page) + 8), Ok(page + 1), "a private copy stays");
        }
    });
    assert_eq!(rig.memory.cached_pages(file), 3);
    assert_eq!(rig.memory.file_bytes(file), 3 * PAGE_BYTES);
    finish(&rig, space, &[file], free);
}

#[test]
fn a_file_that_grows_again_reads_as_zeros_though_its_device_holds_more() {
    let (rig, space, file, [shared, private], free) = mapped(8);
    for page in 0..8 {
        both(&rig, || rig.store(&space, at(shared, page), page + 1).unwrap());
        rig.store(&space, at(shared, page) + 16, page + 1).unwrap();
    }
    assert_eq!(rig.memory.sync(file), 8);
    forget(&rig, file);
    rig.memory.truncate(file, 2 * PAGE_BYTES + 8).unwrap();
    rig.memory.truncate(file, 8 * PAGE_BYTES).unwrap();
    both(&rig, || {
        assert_eq!(rig.load(&space, at(shared, 1) + 16), Ok(2));
        assert_eq!(rig.load(&space, at(shared, 2)), Ok(3), "before the cut");
        assert_eq!(rig.load(&space, at(shared, 2) + 16), Ok(0), "behind the cut");
        assert_eq!(rig.load(&space, at(shared, 3)), Ok(0));
        assert_eq!(rig.load(&space, at(private, 7)), Ok(0));
    });
    assert_eq!(rig.memory.sync(file), 1, "the page that was cut");
    forget(&rig, file);
    both(&rig, || {
        assert_eq!(rig.load(&space, at(shared, 2) + 16), Ok(0), "the device does not hold it either");
    });
    finish(&rig, space, &[file], free);
}

#[test]
fn a_fault_that_found_its_page_before_a_truncation_does_not_map_it() {
    for write in [false, true] {
        let (rig, space, file, [shared, private], free) = mapped(2);
        put(&rig, file, 0, 4);
        for start in [shared, private] {
            rig.memory.truncate(file, PAGE_BYTES).unwrap();
            // Moments of a fault without any lock, after its page was found.
            for times in 0..4 {
                let inner = rig.clone();
                rig.platform().after(times, Moment::Unlock, move || inner.memory.truncate(file, 0).unwrap());
                let stored =
                    if write { rig.store(&space, start, 1) } else { rig.load(&space, start).map(drop) };
                if rig.platform().all_done() {
                    let expected = Err(FaultError::BeyondEnd(start));
                    assert_eq!(rig.load(&space, start).map(drop), expected, "{stored:?} after {times}");
                    assert_eq!(rig.memory.cached_pages(file), 0);
                } else {
                    rig.memory.truncate(file, 0).unwrap();
                }
                assert!(rig.platform().all_done());
                rig.memory.truncate(file, PAGE_BYTES).unwrap();
            }
        }
        finish(&rig, space, &[file], free);
    }
}

#[test]
fn truncation_without_memory_for_the_last_page_is_an_error_and_changes_nothing() {
    let (rig, space, file, _, free) = mapped(4);
    put(&rig, file, PAGE_BYTES, 5);
    rig.memory.sync(file);
    forget(&rig, file);
    let filler = rig.memory.map_anonymous(&space, Pages::new(1024)).unwrap();
    let full = (0..1024).find(|&page| rig.store(&space, at(filler, page), 1).is_err()).unwrap();
    assert_eq!(rig.memory.truncate(file, PAGE_BYTES + 4), Err(TruncateError::OutOfMemory));
    assert_eq!(rig.memory.file_bytes(file), 4 * PAGE_BYTES);
    rig.memory.discard(&space, filler, Pages::new(full / 2)).unwrap();
    assert_eq!(word(&rig, file, PAGE_BYTES), 5);
    rig.memory.truncate(file, PAGE_BYTES + 4).unwrap();
    finish(&rig, space, &[file], free);
}

#[test]
fn an_invalidated_page_is_written_if_dirty_and_read_again() {
    let (rig, space, file, [shared, private], free) = mapped(8);
    both(&rig, || rig.store(&space, at(shared, 1), 5).unwrap());
    both(&rig, || assert_eq!(rig.load(&space, at(private, 1)), Ok(5)));
    rig.store(&space, at(private, 2) + 8, 3).unwrap();
    rig.memory.invalidate(file, 1, 2).unwrap();
    assert_eq!(rig.platform().written(), 1);
    for cpu in 0..2 {
        assert!(!rig.platform().caches(cpu, at(shared, 1)) && !rig.platform().caches(cpu, at(private, 1)));
    }
    assert_eq!(rig.memory.cached_pages(file), 5, "no others");
    both(&rig, || {
        assert_eq!(rig.load(&space, at(shared, 1)), Ok(5));
        assert_eq!(rig.load(&space, at(private, 2) + 8), Ok(3), "a private copy is not a page of the file");
    });
    assert_eq!(rig.memory.invalidate(file, 0, 0), Ok(()));
    assert_eq!(rig.memory.invalidate(file, 100, 5), Ok(()));
    finish(&rig, space, &[file], free);
}

#[test]
fn a_page_in_use_is_not_invalidated_and_counted() {
    let (rig, space, file, [shared, _], free) = mapped(4);
    rig.store(&space, shared, 5).unwrap();
    let inner = rig.clone();
    rig.platform().at(Moment::Load, move || {
        assert_eq!(inner.memory.invalidate(file, 0, 4), Err(Busy { pages: 1 }));
    });
    assert_eq!(word(&rig, file, 0), 5);
    assert_eq!(rig.memory.cached_pages(file), 1);
    assert_eq!(rig.load(&space, shared), Ok(5));
    finish(&rig, space, &[file], free);
}

#[test]
fn a_page_that_another_call_writes_out_is_not_invalidated_and_counted() {
    let (rig, space, file, [shared, _], free) = mapped(4);
    for page in 0..2 {
        rig.store(&space, at(shared, page), 5).unwrap();
    }
    rig.memory.list_collected();
    let inner = rig.clone();
    rig.platform().at(Moment::WriteOut, move || {
        assert_eq!(inner.on(1, || inner.memory.invalidate(file, 0, 4)), Err(Busy { pages: 2 }));
    });
    assert_eq!(rig.memory.invalidate(file, 0, 4), Ok(()));
    assert!(rig.platform().all_done());
    assert_eq!(rig.memory.cached_pages(file), 0);
    finish(&rig, space, &[file], free);
}

#[test]
fn two_stores_at_once_to_a_page_of_a_private_mapping_make_one_copy() {
    let (rig, space, file, [_, private], free) = mapped(4);
    let (inner, inner_space) = (rig.clone(), space.clone());
    // CPU 0 is about to look for the page of the file.
    rig.platform().at(Moment::Work(Work::CacheFind), move || {
        inner.on(1, || inner.store(&inner_space, private + 8, 6)).unwrap();
    });
    rig.store(&space, private, 5).unwrap();
    assert!(rig.platform().all_done());
    both(&rig, || {
        assert_eq!(rig.load(&space, private), Ok(5));
        assert_eq!(rig.load(&space, private + 8), Ok(6), "the second copy would be of the file's page");
    });
    finish(&rig, space, &[file], free);
}

#[test]
fn reclaimed_dirty_pages_come_back_from_the_device() {
    let (rig, space, file, [shared, _], free) = mapped(8);
    both(&rig, || (0..8).for_each(|page| rig.store(&space, at(shared, page), page + 1).unwrap()));
    let spaces = exhaust(&rig);
    assert_eq!(rig.memory.cached_pages(file), 0);
    end(&rig, spaces);
    rig.run(&space);
    assert_eq!(rig.platform().written(), 8);
    both(&rig, || {
        (0..8).for_each(|page| assert_eq!(rig.load(&space, at(shared, page)), Ok(page + 1)));
    });
    assert_eq!(rig.memory.sync(file), 0);
    finish(&rig, space, &[file], free);
}

#[test]
fn readers_wait_for_a_page_on_its_way_in_and_it_is_read_once() {
    let rig = Rig::threaded(Config { read_ahead: 1, ..config(512) });
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(1).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(1), true).unwrap();
    put(&rig, file, 0, 5);
    rig.memory.sync(file);
    forget(&rig, file);
    let read = |rig: &Rig, space: &Space| assert_eq!(rig.load(space, shared), Ok(5));
    meet((&rig, &space), Moment::ReadIn, || read(&rig, &space), read);
    assert_eq!(rig.memory.statistics().read, 1);
    rig.platform().assert_no_violation();
}

#[test]
fn a_page_reclaimed_by_the_kernel_may_be_read_until_it_is_found_again() {
    let rig = Rig::by_hand(Config { schedule: Schedule::Lazy, ..config(512) });
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    both(&rig, || rig.run(&space));
    let file = rig.memory.create_file(8).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(8), false).unwrap();
    let read = || both(&rig, || (0..8).for_each(|page| assert!(rig.load(&space, at(start, page)).is_ok())));
    let reads_on = || (0..8).filter(|&page| rig.platform().caches(1, at(start, page))).count();
    read();
    let interrupts = rig.memory.counters().interrupts;
    assert_eq!(rig.memory.reclaim_range(&space, start, Pages::new(8)), Ok(8));
    assert_eq!((reads_on(), rig.memory.counters().interrupts), (8, interrupts), "no CPU is interrupted");
    put(&rig, file, 3 * PAGE_BYTES, 9);
    both(&rig, || assert_eq!(rig.load(&space, at(start, 3)), Ok(9)));
    assert_eq!(rig.memory.counters().interrupts, interrupts + 1);
    // A call of the program is done when it returns.
    rig.memory.sync(file);
    read();
    rig.memory.advise_page_out(&space, start, Pages::new(8)).unwrap();
    assert_eq!((reads_on(), rig.memory.cached_pages(file)), (0, 0));
    let refused = rig.memory.reclaim_range(&space, start + 8 * PAGE_BYTES, Pages::new(1));
    assert_eq!(refused, Err(AdviseError::NotMapped(start + 8 * PAGE_BYTES)));
    finish(&rig, space, &[file], free);
}

#[test]
fn a_miss_brings_in_the_next_pages_that_the_device_holds() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(40).unwrap();
    for page in 0..40 {
        rig.memory.write(file, page * PAGE_BYTES, &[1]).unwrap();
    }
    rig.memory.sync(file);
    rig.memory.invalidate(file, 0, 40).unwrap();
    rig.memory.read(file, 3 * PAGE_BYTES, &mut [0]).unwrap();
    let (read_ahead, read) = (u64::from(rig.memory.config().read_ahead), rig.memory.statistics().read);
    assert_eq!((rig.memory.cached_pages(file), read), (read_ahead, read_ahead));
    finish(&rig, space, &[file], free);
}
