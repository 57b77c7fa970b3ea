//! Areas with locks of their own: operations in different areas do not wait for each other, and none uses an area that
//! another is changing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use ceasefire_memory::{Access, AreaLocks, Config, FaultError, Pages, Placement, Protection, Work};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, finish, shared_space, Moment, Rig, Space};

/// Two CPUs that run a space with an area of a page, without a guard.
fn one_page(without: Option<Guard>) -> (Rig, Space, u64) {
    let (rig, space) = shared_space(512);
    guards::remove(&rig.memory, without);
    let start = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    (rig, space, start)
}

/// CPU 0 stores to a page. When it has found the area and not locked it, CPU 1 unmaps the area. Returns whether CPU 0
/// has stored.
fn store_beside_unmap(without: Option<Guard>) -> bool {
    let (rig, space, start) = one_page(without);
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::ShareArea, move || {
        inner.on(1, || inner.memory.unmap(&inner_space, start, Pages::new(1))).unwrap();
    });
    let stored = rig.store(&space, start, 1).is_ok();
    assert!(rig.platform().all_done());
    stored
}

#[test]
fn an_area_that_is_closed_before_a_fault_has_its_lock_is_not_used() {
    assert!(!store_beside_unmap(None));
    #[cfg(ceasefire_sabotage)]
    assert!(store_beside_unmap(Some(guards::Own::StillOpen.into())), "R7: a page in no area");
}

/// CPU 0 stores to a page. When its fault is about to map the page, CPU 1 unmaps the area, and the fault goes on once CPU 1
/// waits or has ended. Returns whether it had ended.
fn unmap_beside_fault(without: Option<Guard>) -> bool {
    let rig = Rig::threaded(config(512));
    guards::remove(&rig.memory, without);
    let space = rig.memory.new_space().unwrap();
    let start = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    let [arrived, waits, ended] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let set = |flag: &Arc<AtomicBool>| {
        let flag = flag.clone();
        move || flag.store(true, Ordering::SeqCst)
    };
    let is_set = |flag: &Arc<AtomicBool>| {
        let flag = flag.clone();
        move || flag.load(Ordering::SeqCst)
    };
    thread::scope(|scope| {
        let (other, theirs, begins) = (rig.clone(), space.clone(), is_set(&arrived));
        let (waiting, ends) = (set(&waits), set(&ended));
        scope.spawn(move || {
            let _fails = other.start(1);
            other.platform().idle_until(begins);
            other.platform().at(Moment::CloseArea, waiting);
            other.memory.unmap(&theirs, start, Pages::new(1)).unwrap();
            ends();
        });
        let _fails = rig.start(0);
        rig.run(&space);
        let (at_table, may_go_on, gone) = (set(&arrived), is_set(&waits), is_set(&ended));
        let (inner, end) = (rig.clone(), is_set(&ended));
        let early = Arc::new(AtomicBool::new(false));
        let tells = early.clone();
        rig.platform().at(Moment::LockTable, move || {
            at_table();
            inner.platform().idle_until(|| may_go_on() || gone());
            tells.store(gone(), Ordering::SeqCst);
        });
        rig.memory.fault(&space, start, Access::Write).unwrap();
        rig.platform().idle_until(end);
        early.load(Ordering::SeqCst)
    })
}

#[test]
fn an_unmap_waits_for_a_fault_that_holds_the_area() {
    assert!(!unmap_beside_fault(None));
    #[cfg(ceasefire_sabotage)]
    assert!(unmap_beside_fault(Some(guards::Own::Close.into())), "R7: a page in no area");
}

/// CPU 0 unmaps one area. Before its flush, CPU 1 stores to a page of another.
#[test]
fn a_fault_in_one_area_does_not_wait_for_the_unmap_of_another() {
    let (rig, space, start) = one_page(None);
    let other = rig.memory.map_anonymous(&space, Pages::new(1)).unwrap();
    rig.store(&space, start, 1).unwrap();
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Work(Work::Unmap), move || {
        inner.on(1, || inner.memory.fault(&inner_space, other, Access::Write)).unwrap();
    });
    rig.memory.unmap(&space, start, Pages::new(1)).unwrap();
    assert!(rig.platform().all_done());
    assert_eq!(rig.load(&space, other), Ok(0));
}

/// Operations that cut, join, move and copy areas leave each address with the rights and the pages that it has where the
/// space alone has a lock.
#[test]
fn areas_are_opened_as_they_were_left() {
    let run = |area_locks, joins_areas| {
        let rig = Rig::by_hand(Config { area_locks, joins_areas, ..config(512) });
        let space = rig.memory.new_space().unwrap();
        rig.run(&space);
        let start = rig.memory.map_anonymous(&space, Pages::new(12)).unwrap();
        for page in 0..12 {
            rig.store(&space, at(start, page), page + 1).unwrap();
        }
        let protect = |page, pages, protection| {
            rig.memory.protect(&space, at(start, page), Pages::new(pages), protection).unwrap();
        };
        protect(2, 3, Protection::Read);
        protect(3, 4, Protection::None);
        protect(3, 2, Protection::ReadWrite);
        rig.memory.unmap(&space, at(start, 8), Pages::new(1)).unwrap();
        rig.memory.discard(&space, at(start, 9), Pages::new(1)).unwrap();
        rig.memory.lock(&space, at(start, 10), Pages::new(1)).unwrap();
        let seen = |space: &Space| {
            let rights =
                |page| (rig.load(space, at(start, page)), rig.store(space, at(start, page), 90 + page));
            (0..12).map(rights).collect::<Vec<_>>()
        };
        let before = seen(&space);
        let child = rig.memory.fork(&space).unwrap();
        rig.run(&child);
        let of_child = seen(&child);
        rig.run(&space);
        rig.memory.exit(child);
        rig.run(&space);
        (before, of_child, seen(&space))
    };
    let plain = run(AreaLocks::None, false);
    for area_locks in [AreaLocks::None, AreaLocks::Faults, AreaLocks::Advice] {
        for joins_areas in [false, true] {
            assert_eq!(plain, run(area_locks, joins_areas), "{area_locks:?}, {joins_areas}");
        }
    }
}

/// Mappings lie side by side and become one area: no call that concerns several of them meets a hole or a seam.
#[test]
fn fresh_memory_becomes_a_part_of_its_neighbour() {
    let rig = Rig::by_hand(Config { joins_areas: true, ..config(512) });
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let map = |pages| rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    let start = map(3);
    assert_eq!((map(2), map(4)), (at(start, 3), at(start, 5)));
    for page in 0..9 {
        rig.store(&space, at(start, page), page + 1).unwrap();
    }
    // A hole in the middle is filled again, and joins both sides.
    rig.memory.unmap(&space, at(start, 4), Pages::new(2)).unwrap();
    assert_eq!(rig.load(&space, at(start, 4)), Err(FaultError::NotMapped(at(start, 4))));
    assert_eq!(map(2), at(start, 4));
    let expected = |page: u64| if page == 4 || page == 5 { 0 } else { page + 1 };
    for page in 0..9 {
        assert_eq!(rig.load(&space, at(start, page)), Ok(expected(page)), "page {page}");
    }
    // One mapping can move as a whole.
    let moved = rig.memory.remap(&space, start, Pages::new(9), Pages::new(700), Placement::Anywhere).unwrap();
    assert_eq!(rig.load(&space, at(moved, 8)), Ok(9));
    // What may not be stored to, or is of a file, is not joined.
    let (one, two) = (map(1), map(1));
    rig.memory.protect(&space, two, Pages::new(1), Protection::Read).unwrap();
    let three = map(1);
    assert_eq!((two, three), (at(one, 1), at(one, 2)));
    assert_eq!(rig.store(&space, two, 1), Err(FaultError::ReadOnly(two)));
    rig.store(&space, three, 1).unwrap();
    finish(&rig, space, &[], free);
}

/// Fork leaves parent and child one object each may continue: neither sees the other's pages.
#[test]
fn parent_and_child_continue_their_memory_apart() {
    let rig = Rig::by_hand(Config { joins_areas: true, swap_pages: 64, lru_batch: 1, ..config(512) });
    let free = rig.memory.free_frames();
    let parent = rig.memory.new_space().unwrap();
    rig.run(&parent);
    let start = rig.memory.map_anonymous(&parent, Pages::new(1)).unwrap();
    rig.store(&parent, start, 1).unwrap();
    let child = rig.memory.fork(&parent).unwrap();
    for (space, word) in [(&parent, 5), (&child, 6)] {
        rig.run(space);
        assert_eq!(rig.memory.map_anonymous(space, Pages::new(1)), Ok(at(start, 1)));
        rig.store(space, at(start, 1), word).unwrap();
    }
    rig.memory.list_collected();
    for (space, word) in [(&parent, 5), (&child, 6)] {
        rig.run(space);
        rig.memory.advise_page_out(space, start, Pages::new(2)).unwrap();
        assert!(rig.platform().written() > 0);
        assert_eq!((rig.load(space, start), rig.load(space, at(start, 1))), (Ok(1), Ok(word)));
    }
    rig.run(&parent);
    rig.memory.exit(child);
    finish(&rig, parent, &[], free);
}
