//! Areas with locks of their own: operations in different areas do not wait for each other, and none uses an area that
//! another is changing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use ceasefire_memory::{Access, AreaLocks, Config, Pages, Protection, Work};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, shared_space, Moment, Rig, Space};

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
        let (arrives, waiting, gone) = (set(&arrived), is_set(&waits), is_set(&ended));
        let (inner, end) = (rig.clone(), is_set(&ended));
        let early = Arc::new(AtomicBool::new(false));
        let tells = early.clone();
        rig.platform().at(Moment::LockTable, move || {
            arrives();
            inner.platform().idle_until(|| waiting() || gone());
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
    let run = |area_locks| {
        let rig = Rig::by_hand(Config { area_locks, ..config(512) });
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
            let rights = |page| (rig.load(space, at(start, page)), rig.store(space, at(start, page), 90 + page));
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
    let plain = run(AreaLocks::None);
    assert_eq!(plain, run(AreaLocks::Faults));
    assert_eq!(plain, run(AreaLocks::Advice));
}
