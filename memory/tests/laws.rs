//! The guarantees of the memory manager, one at a time, on a machine whose CPUs are driven by hand.

use std::collections::BTreeMap;

use ceasefire::Schedule;
use ceasefire_memory::{
    AdviseError, Config, ConfigError, FaultError, FrameNumber, MapError, NodeId, NodeLayout, ObjectId,
    OutOfMemory, Pages, RangeError, TooManyObjects, UnmapError, Work, PAGE_BYTES, USER_END,
};
use proptest::prelude::*;

use crate::common::guards::{self, Guard};
use crate::common::{at, between, config, end, exhaust, finish, running, shared_space, Moment, Rig, Space};

#[test]
fn an_access_to_nothing_and_a_store_to_a_read_only_page_are_refused() {
    let (rig, space) = shared_space(256);
    assert_eq!(rig.load(&space, 0x5123), Err(FaultError::NotMapped(0x5000)));
    assert_eq!(rig.store(&space, 0x5123, 1), Err(FaultError::NotMapped(0x5000)));
    let file = rig.memory.create_file(4).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(4), false).unwrap();
    assert_eq!(rig.load(&space, start), Ok(0));
    assert_eq!(rig.store(&space, start, 1), Err(FaultError::ReadOnly(start)));
    assert_eq!(rig.load(&space, at(start, 4)), Err(FaultError::NotMapped(at(start, 4))));
}

#[test]
fn fresh_memory_reads_as_zero_and_takes_a_frame_only_when_stored_to() {
    let (rig, space) = shared_space(256);
    let start = rig.memory.map_anonymous(&space, Pages::new(8)).unwrap();
    assert_eq!(rig.load(&space, start), Ok(0));
    let before = rig.memory.free_frames();
    for page in 0..8 {
        assert_eq!(rig.load(&space, at(start, page)), Ok(0));
        assert_eq!(rig.on(1, || rig.load(&space, at(start, page))), Ok(0));
    }
    assert_eq!(rig.memory.free_frames(), before, "a load takes no frame");
    rig.store(&space, at(start, 3), 42).unwrap();
    assert_eq!(rig.memory.free_frames(), before - 1);
    // CPU 1 read the zero page there, so it must be flushed.
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 3))), Ok(42));
    assert_eq!(rig.load(&space, at(start, 3) + 8), Ok(0), "the rest of the page is as it was");
    assert_eq!(rig.load(&space, at(start, 4)), Ok(0), "no store reached the shared zero frame");
}

#[test]
fn a_private_mapping_copies_the_pages_it_stores_to() {
    let (rig, space) = shared_space(256);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(4).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(4), true).unwrap();
    let private = rig.memory.map_private(&space, file, 0, Pages::new(4)).unwrap();
    rig.store(&space, at(shared, 1), 7).unwrap();
    assert_eq!(rig.load(&space, at(private, 1)), Ok(7));
    assert_eq!(rig.on(1, || rig.load(&space, at(private, 1))), Ok(7));
    rig.store(&space, at(private, 1) + 8, 9).unwrap();
    for cpu in 0..2 {
        rig.on(cpu, || {
            assert_eq!(rig.load(&space, at(private, 1)), Ok(7), "the copy keeps the file's bytes");
            assert_eq!(rig.load(&space, at(private, 1) + 8), Ok(9));
            assert_eq!(rig.load(&space, at(shared, 1) + 8), Ok(0), "the file does not see it");
        });
    }
    rig.store(&space, at(shared, 1), 8).unwrap();
    assert_eq!(rig.load(&space, at(private, 1)), Ok(7), "the copy does not see the file any more");
    rig.memory.discard(&space, private, Pages::new(4)).unwrap();
    assert_eq!(rig.load(&space, at(private, 1)), Ok(8), "without the copy it shows the file again");
    finish(&rig, space, &[file], free);
}

#[test]
fn a_fault_maps_the_neighbours_that_are_in_memory_and_no_others() {
    let rig = Rig::by_hand(Config { read_ahead: 4, ..config(256) });
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(64).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(64), false).unwrap();
    rig.load(&space, at(start, 4)).unwrap();
    assert_eq!(rig.memory.cached_pages(file), 4, "the page and its successors");
    let faults = rig.memory.statistics().faults;
    for page in 4..8 {
        rig.load(&space, at(start, page)).unwrap();
    }
    assert_eq!(rig.memory.statistics().faults, faults, "they are mapped");
    rig.load(&space, at(start, 8)).unwrap();
    assert_eq!(rig.memory.statistics().faults, faults + 1, "pages that were not in memory are not mapped");
    let outside = at(start, 16);
    rig.load(&space, outside).unwrap();
    assert_eq!(rig.memory.statistics().faults, faults + 2, "pages beyond the block are not mapped");
}

#[test]
fn invalid_ranges_change_nothing() {
    let (rig, space) = shared_space(256);
    let start = rig.memory.map_anonymous(&space, Pages::new(4)).unwrap();
    rig.store(&space, start, 1).unwrap();
    let bad = [
        (start, 0),
        (start + 1, 1),
        (start, u64::MAX),
        (start, u64::MAX / PAGE_BYTES),
        (USER_END - PAGE_BYTES, 2),
        (u64::MAX - PAGE_BYTES + 1, 1),
    ];
    for (from, pages) in bad {
        let pages = Pages::new(pages);
        let error = RangeError { start: from, pages };
        assert_eq!(rig.memory.unmap(&space, from, pages), Err(UnmapError::Range(error)));
        assert_eq!(rig.memory.discard(&space, from, pages), Err(AdviseError::Range(error)));
    }
    assert_eq!(rig.load(&space, start), Ok(1));
    for pages in [0, USER_END / PAGE_BYTES + 1, u64::MAX] {
        assert_eq!(
            rig.memory.map_anonymous(&space, Pages::new(pages)),
            Err(MapError::Length(Pages::new(pages)))
        );
    }
    let room = u64::from(u32::MAX);
    assert_eq!(rig.memory.map_anonymous(&space, Pages::new(room)).map(|_| ()), Ok(()));
    rig.memory.unmap(&space, 1 << 21, between(1 << 21, USER_END)).unwrap();
    assert_eq!(rig.memory.unmap(&space, start, Pages::new(1)), Ok(()), "nothing there is no error");
}

#[test]
fn memory_that_is_unmapped_in_part_remains_an_object() {
    let (rig, space) = shared_space(256);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(3)).unwrap();
    rig.memory.unmap(&space, at(start, 1), Pages::new(1)).unwrap();
    let others = std::iter::from_fn(|| rig.memory.map_anonymous(&space, Pages::new(1)).ok());
    assert_eq!(others.count(), 63, "of 64");
    finish(&rig, space, &[], free);
}

#[test]
fn objects_run_out_with_an_error_and_come_back() {
    let (rig, space) = shared_space(256);
    let mut starts = Vec::new();
    let error = loop {
        match rig.memory.map_anonymous(&space, Pages::new(1)) {
            Ok(start) => starts.push(start),
            Err(error) => break error,
        }
    };
    assert_eq!(error, MapError::Objects(TooManyObjects { limit: 64 }));
    assert_eq!(starts.len(), 64);
    let files: Vec<ObjectId> = (0..64).map(|_| rig.memory.create_file(1).unwrap()).collect();
    assert_eq!(rig.memory.create_file(1), Err(TooManyObjects { limit: 64 }));
    rig.memory.delete_file(files[5]);
    assert_eq!(rig.memory.create_file(1), Ok(files[5]));
    rig.memory.unmap(&space, starts[5], Pages::new(1)).unwrap();
    assert_eq!(rig.memory.map_anonymous(&space, Pages::new(1)), Ok(starts[5]));
}

#[test]
fn unmapping_splits_areas_and_frees_unneeded_tables() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let pages = 1024;
    let start = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    let edge = 512;
    for page in [0, 1, edge - 1, edge, pages - 1] {
        rig.store(&space, at(start, page), page + 1).unwrap();
        rig.on(1, || rig.load(&space, at(start, page)).unwrap());
    }
    rig.memory.unmap(&space, at(start, 1), Pages::new(1)).unwrap();
    assert_eq!(rig.platform().tables_freed(), 0, "the areas on both sides need the table");
    for cpu in 0..2 {
        rig.on(cpu, || {
            assert_eq!(rig.load(&space, start), Ok(1));
            assert_eq!(rig.load(&space, at(start, 1)), Err(FaultError::NotMapped(at(start, 1))));
            assert_eq!(rig.load(&space, at(start, 2)), Ok(0));
        });
    }
    rig.memory.unmap(&space, at(start, 2), Pages::new(edge - 2)).unwrap();
    assert_eq!(rig.platform().tables_freed(), 0, "the first page needs it");
    rig.memory.unmap(&space, start, Pages::new(1)).unwrap();
    assert_eq!(rig.platform().tables_freed(), 1, "only the upper ones are needed");
    for cpu in 0..2 {
        rig.on(cpu, || {
            assert_eq!(rig.load(&space, at(start, edge)), Ok(edge + 1));
            assert_eq!(rig.load(&space, at(start, pages - 1)), Ok(pages));
        });
    }
    rig.memory.unmap(&space, start, Pages::new(pages)).unwrap();
    assert_eq!(rig.platform().tables_freed(), 4, "one leaf and two upper ones");
    finish(&rig, space, &[], free);
}

#[test]
fn discarded_memory_reads_as_zero_everywhere_and_can_be_used_again() {
    let (rig, space) = shared_space(512);
    let start = rig.memory.map_anonymous(&space, Pages::new(600)).unwrap();
    for page in 0..200 {
        rig.store(&space, at(start, page), page + 1).unwrap();
        assert_eq!(rig.on(1, || rig.load(&space, at(start, page))), Ok(page + 1));
    }
    rig.memory.discard(&space, at(start, 10), Pages::new(100)).unwrap();
    for page in 0..200 {
        let expected = if (10..110).contains(&page) { 0 } else { page + 1 };
        assert_eq!(rig.on(1, || rig.load(&space, at(start, page))), Ok(expected));
        assert_eq!(rig.load(&space, at(start, page)), Ok(expected));
    }
    rig.store(&space, at(start, 10), 5).unwrap();
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 10))), Ok(5));
    rig.platform().assert_no_violation();
}

#[test]
fn out_of_memory_is_an_error_and_leaves_memory_usable() {
    let (rig, space) = shared_space(128);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_anonymous(&space, Pages::new(256)).unwrap();
    let private = rig.memory.map_private(&space, file, 0, Pages::new(1)).unwrap();
    let stored = (0..256).find(|&page| rig.store(&space, at(start, page), page + 1).is_err()).unwrap();
    assert!(stored > 100, "only {stored} of 128 frames could be used");
    assert_eq!(rig.store(&space, at(start, stored), 1), Err(FaultError::OutOfMemory));
    assert_eq!(rig.load(&space, private), Err(FaultError::OutOfMemory));
    assert!(matches!(rig.memory.new_space(), Err(OutOfMemory)));
    for page in 0..stored {
        assert_eq!(rig.on(1, || rig.load(&space, at(start, page))), Ok(page + 1));
    }
    // Enough for tables and the copy, but not for the copied page: frames taken so far must come back.
    for pages in 1..6 {
        rig.memory.discard(&space, start, Pages::new(pages)).unwrap();
        let _ = rig.store(&space, private, 1);
        for page in 0..pages {
            let _ = rig.store(&space, at(start, page), page + 1);
        }
    }
    rig.memory.discard(&space, start, Pages::new(20)).unwrap();
    rig.store(&space, private, 3).unwrap();
    assert_eq!(rig.load(&space, private), Ok(3));
    finish(&rig, space, &[file], free);
}

#[test]
fn memory_full_of_used_pages_is_not_out_of_memory() {
    // Every page was used since the last scan, so a whole round over all lists frees none.
    let (rig, space) = shared_space(4096);
    let file = rig.memory.create_file(8192).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(8192), false).unwrap();
    for page in 0..8192 {
        assert_eq!(rig.load(&space, at(start, page)), Ok(0), "page {page}");
    }
    let statistics = rig.memory.statistics();
    assert!(statistics.reclaimed_direct >= 4096, "{statistics:?}");
    rig.platform().assert_no_violation();
}

#[test]
fn frames_reach_up_to_the_last_number_and_no_further() {
    let numbered = |first| Config { first_frame: FrameNumber::new(first), ..config(256) };
    let rig = Rig::by_hand(numbered(u32::MAX - 256));
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let start = rig.memory.map_anonymous(&space, Pages::new(256)).unwrap();
    let stored = (0..256).take_while(|&page| rig.store(&space, at(start, page), page).is_ok()).count();
    assert!(stored > 200, "only {stored} of 256 frames could be used");
    finish(&rig, space, &[], free);
    let first = FrameNumber::new(u32::MAX - 255);
    let error = Rig::refused(numbered(first.get()));
    assert_eq!(error, ConfigError::TooManyFrames { first, frames: 256 });
    assert_eq!(error.to_string(), "256 frames from frame 0xffffff00 on: the last can be frame 0xfffffffe");
    assert_eq!(Rig::refused(Config::new(Vec::new(), 1, Schedule::Batched)), ConfigError::OutOfMemory);
}

#[test]
fn background_reclaim_keeps_memory_free_without_direct_reclaim() {
    // The frames for one access fit between the watermarks.
    let rig = Rig::by_hand(Config { read_ahead: 8, ..config(4096) });
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(16384).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(16384), false).unwrap();
    for page in 0..16384 {
        rig.load(&space, at(start, page)).unwrap();
        for node in [NodeId(0), NodeId(1)] {
            if rig.platform().take_wake(node) {
                let before = rig.memory.free_frames();
                rig.memory.reclaim_node(node);
                assert!(rig.memory.free_frames() > before, "page {page}: {node:?} was low and stays low");
            }
        }
    }
    let statistics = rig.memory.statistics();
    assert_eq!(statistics.reclaimed_direct, 0, "{statistics:?}");
    assert!(statistics.reclaimed_background > 8192, "{statistics:?}");
    rig.platform().assert_no_violation();
}

#[test]
fn a_used_page_stays_for_one_scan_and_goes_on_the_next() {
    let rig = Rig::by_hand(Config { lru_batch: 1, read_ahead: 1, ..config(256) });
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(8).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(8), false).unwrap();
    for page in 0..8 {
        rig.load(&space, at(start, page)).unwrap();
    }
    let spaces = exhaust(&rig);
    let statistics = rig.memory.statistics();
    assert_eq!(rig.memory.cached_pages(file), 0, "all were reclaimed");
    assert_eq!(statistics.reclaimed_direct, 8);
    assert_eq!(statistics.scanned, 16, "each was looked at once in vain");
    assert_eq!(statistics.written, 0, "none was dirty");
    end(&rig, spaces);
}

#[test]
fn a_dirty_page_is_written_before_it_goes() {
    let (rig, space) = shared_space(256);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(8).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(8), true).unwrap();
    rig.store(&space, at(start, 2), 1).unwrap();
    rig.on(1, || rig.store(&space, at(start, 3), 1)).unwrap();
    // The dirty state was carried over from a mapping that is gone.
    rig.memory.unmap(&space, at(start, 3), Pages::new(1)).unwrap();
    let spaces = exhaust(&rig);
    assert_eq!(rig.platform().written(), 2);
    assert_eq!(rig.memory.statistics().written, 2);
    assert_eq!(rig.memory.cached_pages(file), 0);
    end(&rig, spaces);
    finish(&rig, space, &[file], free);
}

/// The address at which both CPUs read a page of a file privately. When reclaim next writes a page out, it has cleared
/// those translations and not flushed them. Behind the page on the list is a dirty one. The first scan finds it in use,
/// and it is unmapped before the second.
fn owed_translation(rig: &Rig, space: &Space) -> u64 {
    let file = rig.memory.create_file(2).unwrap();
    // Two pages: unmapping the first then frees no table, which would need a flush of its own.
    let private = rig.memory.map_private(space, file, 0, Pages::new(2)).unwrap();
    for cpu in 0..2 {
        assert_eq!(rig.on(cpu, || rig.load(space, private)), Ok(0));
    }
    let dirty = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_shared(space, dirty, 0, Pages::new(1), true).unwrap();
    rig.store(space, start, 1).unwrap();
    let (rig, space) = (rig.clone(), space.clone());
    rig.clone()
        .platform()
        .at(Moment::Reschedule, move || rig.memory.unmap(&space, start, Pages::new(1)).unwrap());
    private
}

fn owing_rig() -> (Rig, Space) {
    let nodes = vec![NodeLayout::new(256)];
    let config = Config { lru_batch: 1, read_ahead: 1, ..Config::new(nodes, 2, Schedule::Batched) };
    let (rig, space, _) = running(config);
    (rig, space)
}

/// Performs `act` when reclaim next scans a page while it owes flushes in `space`.
fn while_owing(rig: &Rig, space: &Space, act: Box<dyn FnOnce() + Send>) {
    let (inner, owing) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Work(Work::ReclaimPage), move || {
        if inner.memory.engine().owes(owing.coherence()) {
            act();
        } else {
            while_owing(&inner, &owing, act);
        }
    });
}

/// CPU 0 stores to a page for which reclaim owes a flush, and gets a copy. Returns the value that CPU 1 reads then.
fn read_beside_copy(without: Option<Guard>) -> (Rig, Space, u64, u64) {
    let (rig, space) = owing_rig();
    guards::remove(&rig.memory, without);
    let private = owed_translation(&rig, &space);
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (send, receive) = std::sync::mpsc::channel();
    let store = move || {
        inner.store(&inner_space, private, 9).unwrap();
        send.send(inner.on(1, || inner.load(&inner_space, private)).unwrap()).unwrap();
    };
    while_owing(&rig, &space, Box::new(store));
    drop(exhaust(&rig));
    (rig, space, private, receive.recv().unwrap())
}

#[test]
fn a_store_that_copies_waits_for_reclaims_debt_at_its_address() {
    let (rig, space, private, seen) = read_beside_copy(None);
    assert_eq!(seen, 9, "R7: the old page is still read");
    assert_eq!(rig.platform().written(), 1);
    assert_eq!(rig.on(1, || rig.load(&space, private)), Ok(9));
    rig.platform().assert_no_violation();
    #[cfg(ceasefire_sabotage)]
    assert_eq!(read_beside_copy(Some(guards::Engine::Settle.into())).3, 0, "R7 must be seen to break");
}

/// Unmaps a page for which reclaim owes a flush; returns whether CPU 1 can still read it.
fn unmap_while_owed(without: Option<Guard>) -> bool {
    let (rig, space) = owing_rig();
    guards::remove(&rig.memory, without);
    let private = owed_translation(&rig, &space);
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (result, stale) = std::sync::mpsc::channel();
    let unmap = move || {
        inner.memory.unmap(&inner_space, private, Pages::new(1)).unwrap();
        result.send(inner.on(1, || inner.load(&inner_space, private)).is_ok()).unwrap();
    };
    while_owing(&rig, &space, Box::new(unmap));
    drop(exhaust(&rig));
    stale.recv().unwrap()
}

#[test]
fn munmap_pays_the_debt_of_reclaim() {
    assert!(!unmap_while_owed(None));
    #[cfg(ceasefire_sabotage)]
    assert!(
        unmap_while_owed(Some(guards::Engine::Settle.into())),
        "R3 must be seen to break without its guard"
    );
}

/// Reclaims a page that CPU 1 has read; returns the number of violations when CPU 1 reads it again.
fn read_after_reclaim(without: Option<Guard>) -> u64 {
    let (rig, space) = owing_rig();
    guards::remove(&rig.memory, without);
    let file = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    rig.on(1, || rig.load(&space, start)).unwrap();
    let spaces = exhaust(&rig);
    assert_eq!(rig.memory.cached_pages(file), 0);
    end(&rig, spaces);
    rig.on(1, || rig.load(&space, start)).unwrap();
    rig.platform().violations()
}

#[test]
fn no_cpu_reaches_a_reclaimed_page() {
    assert_eq!(read_after_reclaim(None), 0);
    #[cfg(ceasefire_sabotage)]
    assert!(read_after_reclaim(Some(guards::Engine::BatchFlush.into())) > 0, "R1 breaks without its guard");
}

#[test]
fn a_page_that_is_being_deleted_is_not_reclaimed_as_well() {
    let (rig, space) = owing_rig();
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), false).unwrap();
    rig.load(&space, start).unwrap();
    rig.memory.unmap(&space, start, Pages::new(1)).unwrap();
    // The page is out of the file, but the file's reference is not dropped yet.
    let inner = rig.clone();
    rig.platform().at(Moment::Unlock, move || inner.on(1, || end(&inner, exhaust(&inner))));
    finish(&rig, space, &[file], free);
}

/// One step of a random program.
#[derive(Debug, Clone)]
enum Step {
    Map { space: usize, kind: u8, pages: u64 },
    Store { cpu: usize, space: usize, area: prop::sample::Index, page: prop::sample::Index, value: u64 },
    Load { cpu: usize, space: usize, area: prop::sample::Index, page: prop::sample::Index },
    Read { cpu: usize, space: usize, start: u64, count: u64 },
    Discard { cpu: usize, space: usize, area: prop::sample::Index, from: u64, pages: u64 },
    Unmap { cpu: usize, space: usize, area: prop::sample::Index, from: u64, pages: u64 },
    Lazy { cpu: usize },
    Reclaim { cpu: usize, node: u16 },
    Exit { cpu: usize, space: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (cpu, space, index) = (0..2usize, 0..2usize, any::<prop::sample::Index>);
    prop_oneof![
        3 => (space.clone(), 0..2u8, 1..80u64).prop_map(|(space, kind, pages)| Step::Map { space, kind, pages }),
        12 => (cpu.clone(), space.clone(), index(), index(), 1..u64::MAX)
            .prop_map(|(cpu, space, area, page, value)| Step::Store { cpu, space, area, page, value }),
        8 => (cpu.clone(), space.clone(), index(), index())
            .prop_map(|(cpu, space, area, page)| Step::Load { cpu, space, area, page }),
        6 => (cpu.clone(), space.clone(), 0..900u64, 1..100u64)
            .prop_map(|(cpu, space, start, count)| Step::Read { cpu, space, start, count }),
        2 => (cpu.clone(), space.clone(), index(), 0..80u64, 1..40u64)
            .prop_map(|(cpu, space, area, from, pages)| Step::Discard { cpu, space, area, from, pages }),
        2 => (cpu.clone(), space.clone(), index(), 0..80u64, 1..80u64)
            .prop_map(|(cpu, space, area, from, pages)| Step::Unmap { cpu, space, area, from, pages }),
        2 => cpu.clone().prop_map(|cpu| Step::Lazy { cpu }),
        1 => (cpu.clone(), 0..2u16).prop_map(|(cpu, node)| Step::Reclaim { cpu, node }),
        1 => (cpu, space).prop_map(|(cpu, space)| Step::Exit { cpu, space }),
    ]
}

/// A space, and the values that its programs must see.
struct Program {
    space: Space,
    /// The starts of its own areas. They stay in the list when they are unmapped in part or whole.
    areas: Vec<(u64, u64)>,
    /// Every page that is mapped, with its first word.
    pages: BTreeMap<u64, u64>,
    file: u64,
}

impl Program {
    fn new(rig: &Rig, file: ObjectId) -> Self {
        let space = rig.memory.new_space().unwrap();
        let file = rig.memory.map_shared(&space, file, 0, Pages::new(1000), false).unwrap();
        Self { space, areas: Vec::new(), pages: BTreeMap::new(), file }
    }

    fn range(&self, area: prop::sample::Index, from: u64, pages: u64) -> Option<(u64, u64)> {
        let &(start, len) = (!self.areas.is_empty()).then(|| area.get(&self.areas))?;
        let from = from.min(len - 1);
        Some((at(start, from), at(start, (from + pages).min(len))))
    }
}

fn take(rig: &Rig, programs: &mut [Program; 2], file: ObjectId, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Map { space, kind, pages } => {
            let program = &mut programs[space];
            let start = if kind == 0 {
                rig.memory.map_anonymous(&program.space, Pages::new(pages))
            } else {
                rig.memory.map_private(&program.space, file, 100, Pages::new(pages))
            };
            let Ok(start) = start else { return Ok(()) };
            for page in 0..pages {
                prop_assert_eq!(
                    program.pages.insert(at(start, page), 0),
                    None,
                    "mapped over an existing area"
                );
            }
            program.areas.push((start, pages));
        }
        Step::Store { cpu, space, area, page, value } => {
            let program = &mut programs[space];
            let Some((start, end)) = program.range(area, 0, u64::MAX >> 13) else { return Ok(()) };
            let address = at(start, page.index(((end - start) / PAGE_BYTES) as usize) as u64);
            let stored = rig.on(cpu, || {
                rig.run(&program.space);
                rig.store(&program.space, address, value)
            });
            match program.pages.get_mut(&address) {
                None => prop_assert_eq!(stored, Err(FaultError::NotMapped(address))),
                Some(held) if stored.is_ok() => *held = value,
                Some(_) => prop_assert_eq!(stored, Err(FaultError::OutOfMemory)),
            }
        }
        Step::Load { cpu, space, area, page } => {
            let program = &programs[space];
            let Some((start, end)) = program.range(area, 0, u64::MAX >> 13) else { return Ok(()) };
            let address = at(start, page.index(((end - start) / PAGE_BYTES) as usize) as u64);
            let loaded = rig.on(cpu, || {
                rig.run(&program.space);
                rig.load(&program.space, address)
            });
            if loaded != Err(FaultError::OutOfMemory) {
                let held = program.pages.get(&address).copied();
                prop_assert_eq!(loaded, held.ok_or(FaultError::NotMapped(address)));
            }
        }
        Step::Read { cpu, space, start, count } => {
            let program = &programs[space];
            for page in start..start + count {
                let loaded = rig.on(cpu, || {
                    rig.run(&program.space);
                    rig.load(&program.space, at(program.file, page))
                });
                prop_assert!(matches!(loaded, Ok(0) | Err(FaultError::OutOfMemory)), "{:?}", loaded);
            }
        }
        Step::Discard { cpu, space, area, from, pages } => {
            let program = &mut programs[space];
            let Some((start, end)) = program.range(area, from, pages) else { return Ok(()) };
            rig.on(cpu, || rig.memory.discard(&program.space, start, between(start, end))).unwrap();
            program.pages.range_mut(start..end).for_each(|(_, held)| *held = 0);
        }
        Step::Unmap { cpu, space, area, from, pages } => {
            let program = &mut programs[space];
            let Some((start, end)) = program.range(area, from, pages) else { return Ok(()) };
            rig.on(cpu, || rig.memory.unmap(&program.space, start, between(start, end))).unwrap();
            program.pages.retain(|page, _| !(start..end).contains(page));
        }
        Step::Lazy { cpu } => rig.on(cpu, || rig.rest()),
        Step::Reclaim { cpu, node } => rig.on(cpu, || rig.memory.reclaim_node(NodeId(node))),
        Step::Exit { cpu, space } => {
            // The other CPU may still have it loaded, but runs no thread of it.
            let program = &mut programs[space];
            rig.on(1 - cpu, || rig.rest());
            rig.on(cpu, || rig.memory.exit(program.space.clone()));
            *program = Program::new(rig, file);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ceasefire_testing::cases(64), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_see_what_they_stored(
        batched in any::<bool>(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let schedule = if batched { Schedule::Batched } else { Schedule::PerPage };
        let rig = Rig::by_hand(Config { schedule, ..config(512) });
        let free = rig.memory.free_frames();
        let file = rig.memory.create_file(1000).unwrap();
        let mut programs = [Program::new(&rig, file), Program::new(&rig, file)];
        for step in steps {
            take(&rig, &mut programs, file, step)?;
        }
        for cpu in 0..2 {
            rig.on(cpu, || drop(rig.memory.engine().unload()));
        }
        for program in programs {
            rig.memory.exit(program.space);
        }
        rig.memory.delete_file(file);
        rig.memory.list_collected();
        prop_assert_eq!(rig.memory.free_frames(), free);
        rig.platform().assert_no_violation();
    }
}
