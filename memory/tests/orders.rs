//! The order of changes, flushes and releases. Each scenario steps in where the order matters. It passes with the
//! guard that keeps the order, and breaks a rule without it.

use std::sync::mpsc::channel;

use ceasefire_memory::{Busy, Config, ObjectId, Pages, Work, PAGE_BYTES};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, shared_space, Moment, Rig, Space};

/// A file that both CPUs map, shared and writable, without a guard. CPU 1 has stored 5 to its first page.
fn stored(without: Option<Guard>) -> (Rig, Space, ObjectId, u64) {
    let (rig, space) = shared_space(512);
    guards::remove(&rig.memory, without);
    let file = rig.memory.create_file(2).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    rig.on(1, || {
        rig.store(&space, start, 5).unwrap();
        assert_eq!(rig.load(&space, at(start, 1)), Ok(0));
    });
    rig.memory.list_collected();
    (rig, space, file, start)
}

/// Stores through the entry of CPU 1, if it has one.
fn store_through_entry(rig: &Rig, space: &Space, address: u64) {
    if rig.platform().caches(1, address) {
        rig.on(1, || rig.store(space, address, 6)).unwrap();
    }
}

/// Checks that the machine saw a store to a page after its write-out began.
#[cfg(ceasefire_sabotage)]
fn assert_stored_unseen(rig: &Rig) {
    let first = rig.platform().first_violation();
    assert!(first.is_some_and(|first| first.starts_with("R5")), "{first:?}");
}

/// CPU 0 discards a page that CPU 1 has read, and one of the next table. As soon as the first table is unlocked, CPU 2
/// stores to a new page there. Returns the value that CPU 1 reads then.
fn read_beside_discard(without: Option<Guard>) -> u64 {
    let rig = Rig::by_hand(Config { cpus: 3, ..config(512) });
    guards::remove(&rig.memory, without);
    let space = rig.memory.new_space().unwrap();
    (0..3).for_each(|cpu| rig.on(cpu, || rig.run(&space)));
    let start = rig.memory.map_anonymous(&space, Pages::new(513)).unwrap();
    rig.store(&space, start, 1).unwrap();
    rig.store(&space, at(start, 512), 1).unwrap();
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(1));
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (send, receive) = channel();
    rig.platform().at(Moment::Reschedule, move || {
        inner.on(2, || inner.store(&inner_space, start, 7)).unwrap();
        send.send(inner.on(1, || inner.load(&inner_space, start)).unwrap()).unwrap();
    });
    rig.memory.discard(&space, start, Pages::new(513)).unwrap();
    receive.recv().unwrap()
}

#[test]
fn a_page_is_flushed_before_another_takes_its_place() {
    assert_eq!(read_beside_discard(None), 7);
    #[cfg(ceasefire_sabotage)]
    assert_eq!(read_beside_discard(Some(guards::Own::Mark.into())), 1, "R7");
}

/// CPU 0 unmaps a page of a file. As soon as the table is unlocked, CPU 1 syncs the file, and stores through its old
/// entry if it has one.
fn sync_beside_unmap(without: Option<Guard>) -> Rig {
    let (rig, space, file, start) = stored(without);
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().at(Moment::Reschedule, move || {
        assert_eq!(inner.on(1, || inner.memory.sync(file)), 1);
        store_through_entry(&inner, &inner_space, start);
    });
    rig.memory.unmap(&space, start, Pages::new(2)).unwrap();
    assert!(rig.platform().all_done());
    rig
}

#[test]
fn a_table_with_stored_pages_of_a_file_is_flushed_before_it_is_unlocked() {
    sync_beside_unmap(None).platform().assert_no_violation();
    #[cfg(ceasefire_sabotage)]
    assert_stored_unseen(&sync_beside_unmap(Some(guards::Own::DirtyTable.into())));
}

/// CPU 0 unmaps a page of a file that CPU 1 has read. As soon as the file has forgotten the mapping, CPU 1 truncates the
/// file and writes it anew. Returns the value that CPU 1 still reads through its old entry, if it has one.
fn truncate_beside_unmap(without: Option<Guard>) -> Option<u64> {
    let (rig, space) = shared_space(512);
    guards::remove(&rig.memory, without);
    let file = rig.memory.create_file(1).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(1), true).unwrap();
    rig.memory.write(file, 0, &5_u64.to_le_bytes()).unwrap();
    assert_eq!(rig.on(1, || rig.load(&space, start)), Ok(5));
    let (inner, inner_space) = (rig.clone(), space.clone());
    let (send, receive) = channel();
    rig.platform().at(Moment::UnlockMappers, move || {
        let seen = inner.on(1, || {
            inner.memory.truncate(file, 0).unwrap();
            inner.memory.write(file, 0, &9_u64.to_le_bytes()).unwrap();
            inner.platform().caches(1, start).then(|| inner.load(&inner_space, start).unwrap())
        });
        send.send(seen).unwrap();
    });
    rig.memory.unmap(&space, start, Pages::new(1)).unwrap();
    receive.recv().unwrap()
}

#[test]
fn a_mapping_of_a_file_is_flushed_before_the_file_forgets_it() {
    assert_eq!(truncate_beside_unmap(None), None);
    #[cfg(ceasefire_sabotage)]
    assert_eq!(truncate_beside_unmap(Some(guards::Own::Unhook.into())), Some(5), "R6: the file holds 9");
}

/// CPU 0 unmaps two pages of a file. When it has cleared the first translation and not flushed it, CPU 1 reclaims that
/// page, and stores through its old entry. Returns the value that the device holds in the end.
fn reclaim_beside_unmap(without: Option<Guard>) -> (Rig, u64) {
    let (rig, space, file, start) = stored(without);
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().after(1, Moment::Work(Work::Unmap), move || {
        let kept = inner.on(1, || inner.memory.invalidate(file, 0, 1));
        assert_eq!(kept, Err(Busy { pages: 1 }), "CPU 0 holds it");
        assert!(inner.platform().caches(1, start));
        store_through_entry(&inner, &inner_space, start);
    });
    rig.memory.unmap(&space, start, Pages::new(2)).unwrap();
    assert!(rig.platform().all_done());
    rig.memory.invalidate(file, 0, 2).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(rig.memory.read(file, 0, &mut bytes), Ok(8));
    (rig, u64::from_le_bytes(bytes))
}

/// CPU 0 reclaims two dirty pages of a file. When the first is unmapped and waits for its write-out, CPU 1 maps it again.
/// Returns how many pages were written.
fn load_beside_reclaim(without: Option<Guard>) -> u64 {
    let (rig, space) = shared_space(512);
    guards::remove(&rig.memory, without);
    let file = rig.memory.create_file(2).unwrap();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    for page in 0..2 {
        rig.memory.write(file, page * PAGE_BYTES, &5_u64.to_le_bytes()).unwrap();
    }
    // This maps the first page too, but CPU 1 does not use that translation.
    assert_eq!(rig.on(1, || rig.load(&space, at(start, 1))), Ok(5));
    let (inner, inner_space) = (rig.clone(), space.clone());
    rig.platform().after(1, Moment::Work(Work::ReclaimPage), move || {
        assert_eq!(inner.on(1, || inner.load(&inner_space, start)), Ok(5));
    });
    assert_eq!(rig.memory.invalidate(file, 0, 2), Err(Busy { pages: 1 }));
    assert!(rig.platform().all_done());
    rig.platform().assert_no_violation();
    rig.platform().written()
}

#[test]
fn reclaim_writes_out_no_page_that_was_mapped_again() {
    assert_eq!(load_beside_reclaim(None), 1);
    #[cfg(ceasefire_sabotage)]
    assert_eq!(load_beside_reclaim(Some(guards::Own::Holders.into())), 2, "one write is wasted");
}

#[test]
fn reclaim_writes_out_no_page_that_an_unmap_still_holds() {
    let (rig, device) = reclaim_beside_unmap(None);
    assert_eq!(device, 6);
    rig.platform().assert_no_violation();
    #[cfg(ceasefire_sabotage)]
    {
        let (rig, device) = reclaim_beside_unmap(Some(guards::Own::Holders.into()));
        assert_eq!(device, 5, "the store is lost");
        assert_stored_unseen(&rig);
    }
}
