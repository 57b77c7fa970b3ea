//! Tables that DONTNEED empties are freed, while other threads may use them.

use ceasefire_memory::{Access, Config, Pages};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, finish, Moment, Rig, Space};

/// Pages that one table translates.
const TABLE: u64 = 512;

/// Three CPUs that run a space with two tables of memory, on a machine without a guard that frees tables. CPU 0 has stored
/// to the first and the last page of each.
fn stored(frees_tables: bool, without: Option<Guard>) -> (Rig, Space, u64, u64) {
    let rig = Rig::by_hand(Config { cpus: 3, frees_tables, ..config(2048) });
    guards::remove(&rig.memory, without);
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    (0..3).for_each(|cpu| rig.on(cpu, || rig.run(&space)));
    let start = rig.memory.map_anonymous(&space, Pages::new(2 * TABLE)).unwrap();
    for page in [0, TABLE - 1, TABLE, 2 * TABLE - 1] {
        rig.store(&space, at(start, page), page + 1).unwrap();
    }
    rig.memory.list_collected();
    (rig, space, start, free)
}

/// Discards pages; returns the frames that this frees, and the flushes.
fn discard(rig: &Rig, space: &Space, start: u64, pages: u64) -> (u64, u64) {
    let (free, before) = (rig.memory.free_frames(), rig.memory.counters());
    rig.memory.discard(space, start, Pages::new(pages)).unwrap();
    (rig.memory.free_frames() - free, rig.memory.counters().since(&before).shootdowns)
}

#[test]
fn a_table_that_one_range_empties_as_a_whole_is_freed_by_the_same_flush() {
    let (rig, space, start, free) = stored(true, None);
    assert_eq!(discard(&rig, &space, start, TABLE - 1), (1, 1), "not all of its range");
    assert_eq!(discard(&rig, &space, at(start, 1), TABLE - 1), (1, 1), "empty, but not all of its range");
    assert_eq!(discard(&rig, &space, start, TABLE), (1, 1), "the table");
    assert_eq!(discard(&rig, &space, start, 2 * TABLE), (3, 1), "the other, and its pages");
    for page in [0, TABLE - 1, TABLE, 2 * TABLE - 1] {
        assert_eq!(rig.load(&space, at(start, page)), Ok(0));
        rig.store(&space, at(start, page), 5).unwrap();
        assert_eq!(rig.on(1, || rig.load(&space, at(start, page))), Ok(5));
    }
    rig.platform().assert_no_violation();
    finish(&rig, space, &[], free);
}

#[test]
fn tables_stay_where_the_configuration_says_so() {
    let (rig, space, start, free) = stored(false, None);
    assert_eq!(discard(&rig, &space, start, 2 * TABLE), (4, 1));
    finish(&rig, space, &[], free);
}

/// CPU 0 discards a table that CPU 1 has read, and the next. As soon as the first is unlocked, CPU 2 makes another in
/// its place. Returns what CPU 1 reads then.
fn read_beside_discard(without: Option<Guard>) -> u64 {
    let (rig, space, start, _) = stored(true, without);
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(1));
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (send, receive) = std::sync::mpsc::channel();
    rig.platform().at(Moment::Reschedule, move || {
        inner.on(2, || inner.memory.fault(&inner_space, start, Access::Write)).unwrap();
        send.send(inner.on(1, || inner.load(&inner_space, start)).unwrap()).unwrap();
    });
    rig.memory.discard(&space, start, Pages::new(2 * TABLE)).unwrap();
    receive.recv().unwrap()
}

#[test]
fn the_place_of_a_freed_table_keeps_the_mark_of_its_pages() {
    assert_eq!(read_beside_discard(None), 0);
    #[cfg(ceasefire_sabotage)]
    assert_eq!(read_beside_discard(Some(guards::Own::Mark.into())), 1, "R7");
}

/// CPU 0 faults. When it has found the table and not locked it, CPU 1 discards all of the table's range. Returns whether
/// the fault kept away from the freed table.
fn fault_beside_discard(without: Option<Guard>) -> bool {
    let (rig, space, start, _) = stored(true, without);
    let (inner, inner_space) = (rig.clone(), space.clone());
    // The fault has looked once, and has a page.
    rig.platform().after(1, Moment::LockTable, move || {
        inner.on(1, || inner.memory.discard(&inner_space, start, Pages::new(TABLE)).unwrap());
    });
    rig.memory.fault(&space, at(start, 1), Access::Write).unwrap();
    assert!(rig.platform().all_done());
    rig.platform().violations() == 0
}

#[test]
fn a_table_that_is_freed_before_a_fault_has_its_lock_is_not_used() {
    assert!(fault_beside_discard(None));
    #[cfg(ceasefire_sabotage)]
    assert!(!fault_beside_discard(Some(guards::Own::InPlace.into())), "R2");
}
