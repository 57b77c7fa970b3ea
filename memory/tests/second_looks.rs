//! Two operations on one page: where the first has found the page and not locked its table, or has unlocked the cache, the
//! second runs as a whole. The first must look again.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ceasefire::Schedule;
use ceasefire_memory::{
    Config, FaultError, Lazy, NodeId, NodeLayout, ObjectId, Pages, Protection, PAGE_BYTES,
};

use crate::common::{at, running, Moment, Rig, Space};

const ONE: Pages = Pages::new(1);
const NEAR: NodeId = NodeId(0);
const FAR: NodeId = NodeId(1);
const SLOTS: u32 = 8;

/// The page, its space and its file.
#[derive(Clone)]
struct Page {
    rig: Rig,
    space: Space,
    file: ObjectId,
    address: u64,
}

/// What each word holds: one is the first operation's, one the second's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Words(u64, u64);

const STORED: Words = Words(5, 6);
const ZEROS: Words = Words(0, 0);
/// What the operations store, each in its own word.
const OURS: u64 = 9;
const THEIRS: u64 = 8;

impl Page {
    fn store(&self, cpu: usize, Words(first, second): Words) {
        self.rig.on(cpu, || {
            self.rig.store(&self.space, self.address, first).unwrap();
            self.rig.store(&self.space, self.address + 8, second).unwrap();
        });
    }

    fn migrate(&self, from: NodeId, to: NodeId) {
        self.rig.memory.migrate_space(&self.space, from, to).unwrap();
    }

    fn page_out(&self) {
        self.rig.memory.list_collected();
        self.rig.memory.advise_page_out(&self.space, self.address, ONE).unwrap();
    }
}

/// The states of the page before the operations, and what it holds then.
type State = (&'static str, fn(&Page) -> Words);

const MEMORY: [State; 8] = [
    ("without a table", |_| ZEROS),
    ("never used", |page| {
        page.rig.store(&page.space, at(page.address, 1), 1).unwrap();
        ZEROS
    }),
    ("loaded", |page| {
        assert_eq!(page.rig.on(1, || page.rig.load(&page.space, page.address)), Ok(0));
        ZEROS
    }),
    ("stored", |page| {
        page.store(1, STORED);
        page.store(0, STORED);
        STORED
    }),
    ("on the swap device", |page| {
        page.store(1, STORED);
        page.page_out();
        STORED
    }),
    ("in memory and on the swap device", |page| {
        page.store(1, STORED);
        page.page_out();
        assert_eq!(page.rig.on(1, || page.rig.load(&page.space, page.address)), Ok(STORED.0));
        page.rig.memory.list_collected();
        STORED
    }),
    ("hidden", |page| {
        page.store(1, STORED);
        page.rig.memory.hint(&page.space, page.address, ONE).unwrap();
        STORED
    }),
    ("moved, and owing", |page| {
        page.store(1, STORED);
        page.rig.memory.protect(&page.space, page.address, ONE, Protection::Read).unwrap();
        assert_eq!(page.rig.load(&page.space, page.address), Ok(STORED.0));
        page.rig.memory.list_collected();
        page.migrate(FAR, NEAR);
        page.rig.memory.protect(&page.space, page.address, ONE, Protection::ReadWrite).unwrap();
        STORED
    }),
];

const HUGE: [State; 2] = [
    ("huge", |page| {
        page.store(1, STORED);
        STORED
    }),
    ("not huge yet", |_| ZEROS),
];

const OF_FILE: [State; 4] = [
    ("a hole", |_| ZEROS),
    ("in memory", |page| {
        write(page, STORED);
        STORED
    }),
    ("on its device", |page| {
        write(page, STORED);
        page.rig.memory.sync(page.file);
        page.rig.memory.invalidate(page.file, 0, 2).unwrap();
        STORED
    }),
    ("loaded", |page| {
        write(page, STORED);
        (0..2).for_each(|cpu| assert!(page.rig.on(cpu, || page.rig.load(&page.space, page.address)).is_ok()));
        STORED
    }),
];

fn write(page: &Page, Words(first, second): Words) {
    let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
    page.rig.memory.write(page.file, 0, &bytes).unwrap();
    page.rig.memory.list_collected();
}

/// What a page holds: a copy of its own, or else what its file holds; that is zeros where there is no file, and `None` beyond
/// the end.
#[derive(Debug, Clone, Copy)]
struct Held {
    own: Option<Words>,
    file: Option<Words>,
    shared: bool,
}

impl Held {
    fn seen(&self) -> Option<Words> {
        self.own.or(self.file)
    }

    fn stored(&mut self, change: impl Fn(Words) -> Words) {
        let words = self.seen().map(change);
        *(if self.shared { &mut self.file } else { &mut self.own }) = words;
    }

    fn truncated(&mut self, file: Option<Words>) {
        (self.own, self.file) = (None, file);
    }
}

/// An operation, and its effect.
type Act = (&'static str, fn(&Page), fn(&mut Held));

const NOTHING: fn(&mut Held) = |_| ();
const DROPPED: fn(&mut Held) = |held| held.own = None;

/// The first, which hold no lock of a page.
const FIRST: [Act; 5] = [
    ("load", |page| _ = page.rig.load(&page.space, page.address), NOTHING),
    (
        "store",
        |page| _ = page.rig.store(&page.space, page.address, OURS),
        |held| held.stored(|words| Words(OURS, words.1)),
    ),
    ("hide", |page| _ = page.rig.memory.hint(&page.space, page.address, ONE).unwrap(), NOTHING),
    ("discard", |page| page.rig.memory.discard(&page.space, page.address, ONE).unwrap(), DROPPED),
    ("cold", |page| page.rig.memory.advise_cold(&page.space, page.address, ONE).unwrap(), NOTHING),
];

/// The same for a page of a file.
const FIRST_ON_FILE: [Act; 3] = [
    ("read", |page| _ = page.rig.memory.read(page.file, 0, &mut [0; 8]).unwrap(), NOTHING),
    ("sync", |page| _ = page.rig.memory.sync(page.file), NOTHING),
    ("invalidate", |page| _ = page.rig.memory.invalidate(page.file, 0, 1), NOTHING),
];

/// The second, which are in the way of no lock of the first.
const SECOND: [Act; 7] = [
    ("load", |page| _ = page.rig.load(&page.space, page.address + 8), NOTHING),
    (
        "store",
        |page| _ = page.rig.store(&page.space, page.address + 8, THEIRS),
        |held| held.stored(|words| Words(words.0, THEIRS)),
    ),
    ("discard", |page| page.rig.memory.discard(&page.space, page.address, ONE).unwrap(), DROPPED),
    ("page out", Page::page_out, NOTHING),
    ("reclaim", |page| _ = page.rig.memory.reclaim_range(&page.space, page.address, ONE).unwrap(), NOTHING),
    ("migrate there", |page| page.migrate(FAR, NEAR), NOTHING),
    ("migrate back", |page| page.migrate(NEAR, FAR), NOTHING),
];

/// The same for a page of a file. A truncation drops private copies too.
const SECOND_ON_FILE: [Act; 3] = [
    ("truncate", |page| page.rig.memory.truncate(page.file, 0).unwrap(), |held| held.truncated(None)),
    (
        "truncate and write",
        |page| {
            page.rig.memory.truncate(page.file, 0).unwrap();
            write(page, Words(3, THEIRS));
        },
        |held| held.truncated(Some(Words(3, THEIRS))),
    ),
    ("invalidate", |page| _ = page.rig.memory.invalidate(page.file, 0, 1), NOTHING),
];

/// The mapping that the page is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mapping {
    Memory,
    Huge,
    Shared,
    Private,
}

fn machine(mapping: Mapping, schedule: Schedule) -> (Page, u64) {
    let frames = if mapping == Mapping::Huge { 1200 } else { 100 };
    let nodes = vec![NodeLayout::new(frames); 2];
    let lazy = Lazy { max_age: 1_000_000, tick: 250_000, ..Lazy::default() };
    let config =
        Config { swap_pages: SLOTS, lru_batch: 1, objects: 4, lazy, ..Config::new(nodes, 2, schedule) };
    let (rig, space, free) = running(config);
    let file = rig.memory.create_file(2).unwrap();
    let two = Pages::new(2);
    let address = match mapping {
        Mapping::Memory => rig.memory.map_anonymous(&space, two),
        Mapping::Huge => rig.memory.map_anonymous(&space, Pages::HUGE),
        Mapping::Shared => rig.memory.map_shared(&space, file, 0, two, true),
        Mapping::Private => rig.memory.map_private(&space, file, 0, two),
    }
    .unwrap();
    if mapping == Mapping::Huge {
        rig.memory.advise_huge(&space, address, Pages::HUGE, true).unwrap();
    }
    (Page { rig, space, file, address }, free)
}

/// An operation waits for a page.
struct Waits;

/// Plays the second operation at an occurrence of a moment of the first, after the next `times`. False if there is none.
fn play(
    (mapping, schedule): (Mapping, Schedule),
    (state, prepare): State,
    (first, act, after): Act,
    (second, meanwhile, after_second): Act,
    (times, moment): (u32, Moment),
) -> bool {
    let name = format!("{mapping:?} that is {state}, {schedule:?}: {second} in {first}, {moment:?} {times}");
    let (page, free) = machine(mapping, schedule);
    let before = prepare(&page);
    let (inner, played) = (page.clone(), Arc::new(AtomicBool::new(false)));
    let plays = played.clone();
    page.rig.platform().after(times, moment, move || {
        if !inner.rig.platform().holds_spinning() {
            inner.rig.on(1, || meanwhile(&inner));
            plays.store(true, Ordering::Relaxed);
        }
    });
    page.rig.platform().at(Moment::Wait, || resume_unwind(Box::new(Waits)));
    if let Err(end) = catch_unwind(AssertUnwindSafe(|| act(&page))) {
        // The second operation would wait for the first: they cannot meet here.
        assert!(end.is::<Waits>(), "{name} fails");
        return true;
    }
    let met = page.rig.platform().waiting_acts() == 1;
    page.rig.platform().forget_hooks();
    let Page { rig, space, file, address } = page;
    let held = |acts: &[fn(&mut Held)]| {
        let shared = mapping == Mapping::Shared;
        let memory = matches!(mapping, Mapping::Memory | Mapping::Huge);
        let mut held = if memory {
            Held { own: Some(before), file: Some(ZEROS), shared }
        } else {
            Held { own: None, file: Some(before), shared }
        };
        for act in acts {
            act(&mut held);
        }
        held.seen()
    };
    let allowed = match (played.load(Ordering::Relaxed), first) {
        (false, _) => vec![held(&[after])],
        // The access comes after its fault.
        (true, "load" | "store") => vec![held(&[after_second, after])],
        _ => vec![held(&[after, after_second]), held(&[after_second, after])],
    };
    for cpu in 0..2 {
        let seen = rig.on(cpu, || match rig.load(&space, address) {
            Err(FaultError::BeyondEnd(_)) => None,
            word => Some(Words(word.unwrap(), rig.load(&space, address + 8).unwrap())),
        });
        assert!(allowed.contains(&seen), "{name}: {seen:?}, not one of {allowed:?}");
    }
    if rig.memory.file_bytes(file) == 0 {
        // What a truncation took does not come back.
        rig.memory.truncate(file, PAGE_BYTES).unwrap();
        _ = rig.memory.invalidate(file, 0, 1);
        let mut word = [1; 8];
        assert_eq!(rig.memory.read(file, 0, &mut word), Ok(8), "{name}");
        assert_eq!(word, [0; 8], "{name}: the file grows by zeros");
    }
    drop(rig.on(1, || rig.memory.engine().unload()));
    rig.memory.exit(space);
    rig.memory.delete_file(file);
    rig.memory.list_collected();
    rig.memory.engine().pay_all();
    assert_eq!((rig.memory.free_frames(), rig.memory.free_slots()), (free, SLOTS), "{name}: frames or slots");
    assert_eq!((rig.platform().violations(), rig.platform().first_violation()), (0, None), "{name}");
    met
}

/// Plays the second operation at each moment of the first; returns how often it did.
fn play_each(mapping: Mapping, states: &[State], first: &[Act], second: &[Act]) -> u32 {
    let mut met = 0;
    for &state in states {
        for schedule in [Schedule::Batched, Schedule::Lazy] {
            for (first, second) in
                first.iter().flat_map(|first| second.iter().map(move |second| (*first, *second)))
            {
                for moment in [Moment::LockTable, Moment::Unlock] {
                    let mut times = 0;
                    while play((mapping, schedule), state, first, second, (times, moment)) {
                        times += 1;
                    }
                    met += times;
                }
            }
        }
    }
    met
}

#[test]
fn an_operation_on_memory_looks_again_after_another() {
    assert!(play_each(Mapping::Memory, &MEMORY, &FIRST, &SECOND) > 500);
}

#[test]
fn an_operation_on_a_huge_page_looks_again_after_another() {
    assert!(play_each(Mapping::Huge, &HUGE, &FIRST, &SECOND) > 50);
}

#[test]
fn an_operation_on_a_file_looks_again_after_another() {
    for mapping in [Mapping::Shared, Mapping::Private] {
        for first in [&FIRST[..], &FIRST_ON_FILE] {
            assert!(play_each(mapping, &OF_FILE, first, &SECOND) > 50);
            assert!(play_each(mapping, &OF_FILE, first, &SECOND_ON_FILE) > 50);
        }
    }
}
