//! Handles that outlive their space. The next space gets the frame of its root, and no call with such a handle may reach
//! the tables that begin there.

use std::fmt::Debug;

use ceasefire_memory::{
    Access, Config, FrameNumber, Machine, NodeId, Pages, Placement, Protection, ENTRIES, PAGE_BYTES,
};

use crate::common::{at, config, shared_space, Moment, Rig, Space};

/// Where a space maps memory first.
const START: u64 = 1 << 21;
/// The pages of one table.
const TABLE: u64 = 512;
const NEAR: NodeId = NodeId(0);
const FAR: NodeId = NodeId(1);

/// The name of a call with the handle of an ended space, the call, and its result.
type Call = (&'static str, fn(&Rig, &Space) -> String, &'static str);

fn said<T: Debug, E: Debug>(result: Result<T, E>) -> String {
    format!("{result:?}")
}

const ENDED: &str = "Err(Ended)";

/// Every call that takes a space. Ranges cut a huge page, and cover one.
const CALLS: &[Call] = &[
    ("mmap", |rig, space| said(rig.memory.map_anonymous(space, Pages::new(4))), ENDED),
    (
        "mmap shared",
        |rig, space| said(with_file(rig, |file| rig.memory.map_shared(space, file, 0, ONE, true))),
        ENDED,
    ),
    (
        "mmap private",
        |rig, space| said(with_file(rig, |file| rig.memory.map_private(space, file, 0, ONE))),
        ENDED,
    ),
    ("load", |rig, space| said(rig.memory.fault(space, START, Access::Read)), ENDED),
    ("store", |rig, space| said(rig.memory.fault(space, START, Access::Write)), ENDED),
    ("store beyond", |rig, space| said(rig.memory.fault(space, 1 << 40, Access::Write)), ENDED),
    ("munmap", |rig, space| said(rig.memory.unmap(space, START, Pages::new(3 * TABLE))), ENDED),
    ("munmap a part", |rig, space| said(rig.memory.unmap(space, PART, ONE)), ENDED),
    ("mprotect", |rig, space| said(rig.memory.protect(space, START, Pages::new(4), Protection::Read)), ENDED),
    ("mprotect a part", |rig, space| said(rig.memory.protect(space, PART, ONE, Protection::None)), ENDED),
    ("mremap", |rig, space| said(rig.memory.remap(space, PART, ONE, ONE, Placement::At(1 << 40))), ENDED),
    (
        "mremap tables",
        |rig, space| said(rig.memory.remap(space, START, Pages::HUGE, ONE, Placement::Anywhere)),
        ENDED,
    ),
    ("fork", |rig, space| said(rig.memory.fork(space)), ENDED),
    ("mlock", |rig, space| said(rig.memory.lock(space, START, ONE)), ENDED),
    ("munlock", |rig, space| said(rig.memory.unlock(space, START, ONE)), ENDED),
    ("discard", |rig, space| said(rig.memory.discard(space, START, Pages::new(3 * TABLE))), ENDED),
    ("discard a part", |rig, space| said(rig.memory.discard(space, PART, ONE)), ENDED),
    (
        "discard ranges",
        |rig, space| said(rig.memory.discard_ranges(space, &[(START, ONE), (PART, ONE)])),
        ENDED,
    ),
    ("free", |rig, space| said(rig.memory.advise_free(space, START, ONE)), ENDED),
    (
        "free ranges",
        |rig, space| said(rig.memory.advise_free_ranges(space, &[(START, ONE), (PART, ONE)])),
        ENDED,
    ),
    ("cold", |rig, space| said(rig.memory.advise_cold(space, START, ONE)), ENDED),
    ("page out", |rig, space| said(rig.memory.advise_page_out(space, PART, ONE)), ENDED),
    ("reclaim", |rig, space| said(rig.memory.reclaim_range(space, START, ONE)), ENDED),
    ("huge", |rig, space| said(rig.memory.advise_huge(space, PART, ONE, true)), ENDED),
    ("collapse", |rig, space| said(rig.memory.collapse(space, START)), ENDED),
    ("hide", |rig, space| said(rig.memory.hint(space, START, ONE)), "Ok(0)"),
    ("migrate", |rig, space| said(rig.memory.migrate_space(space, NEAR, FAR)), ENDED),
    (
        "move pages",
        |rig, space| format!("{:?}", rig.memory.move_pages(space, &[(START, FAR)])),
        "[NotMapped]",
    ),
    ("exit", |rig, space| format!("{:?}", rig.on(2, || rig.memory.exit(space.clone()))), "()"),
];

const ONE: Pages = Pages::new(1);
/// A page within the huge page of a space.
const PART: u64 = START + 2 * TABLE * PAGE_BYTES + 7 * PAGE_BYTES;

fn with_file<R>(rig: &Rig, body: impl FnOnce(ceasefire_memory::ObjectId) -> R) -> R {
    let file = rig.memory.create_file(1).unwrap();
    let result = body(file);
    rig.memory.delete_file(file);
    result
}

fn machine() -> Rig {
    Rig::by_hand(Config { cpus: 3, swap_pages: 64, lru_batch: 1, ..config(8192) })
}

/// A space with two tables of small pages and a huge page, in all of which CPU 1 has stored.
fn space_with_pages(rig: &Rig) -> Space {
    rig.on(1, || {
        let space = rig.memory.new_space().unwrap();
        rig.run(&space);
        assert_eq!(rig.memory.map_anonymous(&space, Pages::new(3 * TABLE)), Ok(START));
        rig.memory.advise_huge(&space, at(START, 2 * TABLE), Pages::HUGE, true).unwrap();
        (0..=2 * TABLE).for_each(|page| rig.store(&space, at(START, page), page + 1).unwrap());
        rig.memory.list_collected();
        space
    })
}

/// Every entry of the tables of a program, as the table's frame, the index, and the bits.
fn entries(rig: &Rig, table: FrameNumber, level: u32) -> Vec<(FrameNumber, usize, u64)> {
    let used = if level == 3 { ENTRIES / 2 } else { ENTRIES };
    let mut all = Vec::new();
    for index in 0..used {
        let entry = rig.platform().table(table).get(index);
        if !entry.is_none() {
            all.push((table, index, entry.bits()));
        }
        if level > 0 && entry.present() && !entry.is_huge() {
            all.extend(entries(rig, entry.frame(), level - 1));
        }
    }
    all
}

#[test]
fn no_call_with_the_handle_of_an_ended_space_reaches_the_next_space() {
    let rig = machine();
    let free = rig.memory.free_frames();
    let ended = space_with_pages(&rig);
    rig.on(1, || rig.memory.exit(ended.clone()));
    let space = space_with_pages(&rig);
    assert_eq!(space.root(), ended.root(), "the frame of the root is used again");
    let before = (entries(&rig, space.root(), 3), rig.memory.free_frames());
    for (name, call, result) in CALLS {
        assert_eq!(&call(&rig, &ended), result, "{name}");
        assert_eq!((entries(&rig, space.root(), 3), rig.memory.free_frames()), before, "{name}");
    }
    rig.on(1, || rig.memory.exit(space));
    assert_eq!(rig.memory.free_frames(), free, "frames were lost or found");
    rig.platform().assert_no_violation();
}

/// A space ends, and the next one begins, where a call with another handle has unlocked its areas.
#[test]
fn a_call_during_which_the_space_ends_does_not_reach_the_next_space() {
    let calls: [Call; 4] = [
        ("cold", |rig, space| said(rig.memory.advise_cold(space, START, Pages::new(2 * TABLE))), ENDED),
        (
            "page out",
            |rig, space| said(rig.memory.advise_page_out(space, START, Pages::new(2 * TABLE))),
            ENDED,
        ),
        ("reclaim", |rig, space| said(rig.memory.reclaim_range(space, START, Pages::new(2 * TABLE))), ENDED),
        ("migrate", |rig, space| said(rig.memory.migrate_space(space, FAR, NEAR)), ENDED),
    ];
    for (name, call, result) in calls {
        let rig = machine();
        let free = rig.memory.free_frames();
        let space = space_with_pages(&rig);
        let (inner, handle) = (rig.clone(), space.clone());
        let (send, receive) = std::sync::mpsc::channel();
        rig.platform().at(Moment::Reschedule, move || {
            inner.on(1, || inner.memory.exit(handle.clone()));
            let next = space_with_pages(&inner);
            assert_eq!(next.root(), handle.root(), "the frame of the root is used again");
            send.send((entries(&inner, next.root(), 3), next)).unwrap();
        });
        assert_eq!(call(&rig, &space), result, "{name}");
        let (before, next) = receive.recv().unwrap();
        assert_eq!(entries(&rig, next.root(), 3), before, "{name}");
        rig.on(1, || rig.memory.exit(next));
        rig.memory.list_collected();
        assert_eq!(rig.memory.free_frames(), free, "{name}: frames were lost or found");
        rig.platform().assert_no_violation();
    }
}

#[test]
fn a_mapping_that_is_refused_leaves_no_object_behind() {
    let (rig, space) = shared_space(256);
    (0..2).for_each(|cpu| rig.on(cpu, || drop(rig.memory.engine().unload())));
    rig.memory.exit(space.clone());
    let limit = rig.memory.config().objects;
    for _ in 0..=limit {
        assert_eq!(said(rig.memory.map_anonymous(&space, ONE)), ENDED);
    }
}
