//! The state of a page that every way through the memory manager must carry: its bytes, the bits of its entries, and the
//! rights of its program.

use std::collections::{BTreeMap, BTreeSet};

use ceasefire::Schedule;
use ceasefire_memory::{
    Config, Lazy, Moved, NodeId, NodeLayout, ObjectId, Pages, Placement, Protection, PAGE_BYTES,
};
use proptest::prelude::*;

use crate::common::{at, finish, running, Rig, Space};

const NEAR: NodeId = NodeId(0);
const FAR: NodeId = NodeId(1);
const ONE: Pages = Pages::new(1);
/// The pages of a table.
const TABLE: u64 = 512;

fn machine(schedule: Schedule) -> (Rig, Space, u64) {
    let lazy = Lazy { max_age: 1_000_000, tick: 250_000, ..Lazy::default() };
    let nodes = vec![NodeLayout::new(4096), NodeLayout::new(4096)];
    running(Config { swap_pages: 2048, lru_batch: 1, lazy, ..Config::new(nodes, 2, schedule) })
}

/// The rights and the bits of the entry for a page: present, writable, accessed, dirty.
fn bits(rig: &Rig, space: &Space, address: u64) -> [bool; 4] {
    let entry = rig.platform().entry(space, address).expect("there is a table");
    [entry.present(), entry.writable(), entry.accessed(), entry.dirty()]
}

/// Brings entries of the pages into every state: stored to or only loaded, and used since the last look or not.
fn use_pages(rig: &Rig, space: &Space, start: u64, pages: std::ops::Range<u64>) {
    for page in pages.clone() {
        if page % 2 == 0 {
            rig.store(space, at(start, page), page).unwrap();
        } else {
            rig.load(space, at(start, page)).unwrap();
        }
    }
    for page in pages.filter(|page| page / 2 % 2 == 0) {
        rig.memory.advise_cold(space, at(start, page), ONE).unwrap();
    }
}

/// The pages around the ends of two tables.
fn ends() -> impl Iterator<Item = u64> + Clone {
    (0..4).chain(TABLE - 4..TABLE + 4).chain(2 * TABLE - 4..2 * TABLE)
}

/// A way for the two tables of memory at `start`; returns their new address.
type Way = fn(&Rig, &Space, u64) -> u64;

const PAGES: Pages = Pages::new(2 * TABLE);

/// The ways on which entries keep all their bits.
const WAYS: [(&str, Way); 4] = [
    ("mremap of tables", |rig, space, start| {
        rig.memory.remap(space, start, PAGES, PAGES, Placement::At(1 << 40)).unwrap()
    }),
    ("mremap of pages", |rig, space, start| {
        rig.memory.remap(space, start, PAGES, PAGES, Placement::At((1 << 40) + 5 * PAGE_BYTES)).unwrap()
    }),
    ("mremap of pages to the end of a table", |rig, space, start| {
        let to = (1 << 40) + (TABLE - 2) * PAGE_BYTES;
        rig.memory.remap(space, start, PAGES, PAGES, Placement::At(to)).unwrap()
    }),
    ("migration", |rig, space, start| {
        assert!(rig.memory.migrate_space(space, NEAR, FAR).unwrap().moved > 0);
        start
    }),
];

#[test]
fn entries_keep_their_rights_and_bits_wherever_they_go() {
    for (name, way) in WAYS {
        for (schedule, allowed) in [
            (Schedule::PerPage, Protection::ReadWrite),
            (Schedule::Batched, Protection::ReadWrite),
            (Schedule::Batched, Protection::Read),
            (Schedule::Batched, Protection::None),
        ] {
            let (rig, space, free) = machine(schedule);
            let start = rig.memory.map_anonymous(&space, PAGES).unwrap();
            for page in ends() {
                use_pages(&rig, &space, start, page..page + 1);
            }
            rig.memory.protect(&space, start, PAGES, allowed).unwrap();
            if allowed != Protection::None {
                rig.memory.hint(&space, at(start, TABLE - 2), Pages::new(4)).unwrap();
            }
            let before: Vec<_> = ends().map(|page| bits(&rig, &space, at(start, page))).collect();
            let to = way(&rig, &space, start);
            let after: Vec<_> = ends().map(|page| bits(&rig, &space, at(to, page))).collect();
            assert_eq!(
                after, before,
                "{name}, {schedule:?}, {allowed:?}: present, writable, accessed, dirty"
            );
            finish(&rig, space, &[], free);
        }
    }
}

#[test]
fn the_parts_of_a_huge_page_have_its_rights_and_bits() {
    for (unused, read_only) in [(false, false), (true, false), (false, true), (true, true)] {
        let (rig, space, free) = machine(Schedule::Batched);
        let start = rig.memory.map_anonymous(&space, Pages::HUGE).unwrap();
        rig.memory.advise_huge(&space, start, Pages::HUGE, true).unwrap();
        rig.store(&space, start, 1).unwrap();
        if unused {
            rig.memory.advise_cold(&space, start, Pages::HUGE).unwrap();
        }
        if read_only {
            rig.memory.protect(&space, start, Pages::HUGE, Protection::Read).unwrap();
        }
        let before = bits(&rig, &space, start);
        assert_eq!(before, [true, !read_only, !unused, true]);
        let whole = rig.memory.move_pages(&space, &[(start, FAR)]);
        assert_eq!(
            (whole, bits(&rig, &space, start)),
            (vec![Moved::There], before),
            "a huge page that moves"
        );
        rig.memory.discard(&space, at(start, 3), ONE).unwrap();
        assert_eq!(rig.memory.statistics().splits, 1);
        for page in (0..TABLE).filter(|page| *page != 3) {
            assert_eq!(bits(&rig, &space, at(start, page)), before, "page {page}");
        }
        // Each part is on a list, so each can be taken off it.
        rig.memory.list_collected();
        let moved = rig.memory.migrate_space(&space, FAR, NEAR).unwrap();
        assert_eq!((moved.moved, moved.busy), (TABLE - 1, 0));
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_fork_keeps_the_bits_of_the_parent_and_takes_the_right_to_store_from_both() {
    let (rig, space, free) = machine(Schedule::Batched);
    let start = rig.memory.map_anonymous(&space, Pages::new(8)).unwrap();
    use_pages(&rig, &space, start, 0..8);
    rig.memory.hint(&space, start, Pages::new(2)).unwrap();
    let state = |space: &Space| (0..8).map(|page| bits(&rig, space, at(start, page))).collect::<Vec<_>>();
    let before = state(&space);
    let child = rig.memory.fork(&space).unwrap();
    let shared: Vec<_> =
        before.iter().map(|&[present, _, used, dirty]| [present, false, used, dirty]).collect();
    assert_eq!(state(&space), shared);
    for page in (0..8).filter(|page| page % 2 == 0) {
        assert_eq!(bits(&rig, &child, at(start, page)), shared[page as usize], "page {page}");
    }
    rig.memory.exit(child);
    rig.run(&space);
    finish(&rig, space, &[], free);
}

/// A strict call on the first page of a mapping.
type Call = fn(&Rig, &Space, u64);

#[test]
fn a_call_settles_a_place_that_reclaim_has_emptied() {
    let calls: [(&str, Call); 6] = [
        ("munmap", |rig, space, start| rig.memory.unmap(space, start, ONE).unwrap()),
        ("mprotect", |rig, space, start| rig.memory.protect(space, start, ONE, Protection::None).unwrap()),
        ("discard", |rig, space, start| rig.memory.discard(space, start, ONE).unwrap()),
        ("discard of ranges", |rig, space, start| {
            rig.memory.discard_ranges(space, &[(start, ONE), (at(start, 5), ONE)]).unwrap();
        }),
        ("mremap", |rig, space, start| {
            rig.memory.remap(space, start, ONE, ONE, Placement::At(at(1 << 40, 3))).unwrap();
        }),
        ("mremap over it", |rig, space, start| {
            let other = rig.memory.map_anonymous(space, ONE).unwrap();
            rig.memory.remap(space, other, ONE, ONE, Placement::At(start)).unwrap();
        }),
    ];
    for (name, call) in calls {
        let (rig, space, free) = machine(Schedule::Lazy);
        let file = rig.memory.create_file(8).unwrap();
        let start = rig.memory.map_shared(&space, file, 0, Pages::new(8), false).unwrap();
        (0..2).for_each(|cpu| assert_eq!(rig.on(cpu, || rig.load(&space, start)), Ok(0)));
        rig.memory.list_collected();
        // The other pages keep the table, so no table is freed with a flush of its own.
        assert_eq!(rig.memory.reclaim_range(&space, start, ONE), Ok(1));
        assert!(rig.platform().caches(1, start), "the flush is owed");
        call(&rig, &space, start);
        assert!(!rig.platform().caches(1, start), "R3, {name}");
        finish(&rig, space, &[file], free);
    }
}

/// An operation on one of the mappings, or on the machine.
#[derive(Debug, Clone, Copy)]
enum Step {
    Store {
        cpu: usize,
        which: usize,
        page: u64,
    },
    Load {
        cpu: usize,
        which: usize,
        page: u64,
    },
    /// Takes rights from a page, or from all, and gives them back.
    Protect {
        which: usize,
        page: Option<u64>,
        protection: Protection,
    },
    /// Moves a mapping to a new place, so many pages behind the start of a table.
    Move {
        which: usize,
        behind: u64,
    },
    Discard {
        page: u64,
    },
    Free {
        page: u64,
    },
    Hide {
        which: usize,
    },
    Migrate {
        to: u16,
    },
    PageOut {
        which: usize,
        page: Option<u64>,
    },
    Reclaim {
        which: usize,
    },
    Sync,
    Invalidate,
    Collapse,
    Huge,
    /// A child stores to a page, and ends.
    Fork {
        which: usize,
        page: u64,
    },
}

/// Memory, a file that is mapped shared, and one that is mapped privately.
const MAPPINGS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let pages: Vec<u64> = ends().collect();
    let page = move || prop::sample::select(pages.clone());
    let which = || 0..MAPPINGS;
    let some = || prop::option::of(page());
    let protection = prop_oneof![Just(Protection::None), Just(Protection::Read)];
    prop_oneof![
        8 => (0..2usize, which(), page()).prop_map(|(cpu, which, page)| Step::Store { cpu, which, page }),
        6 => (0..2usize, which(), page()).prop_map(|(cpu, which, page)| Step::Load { cpu, which, page }),
        2 => (which(), some(), protection)
            .prop_map(|(which, page, protection)| Step::Protect { which, page, protection }),
        2 => (which(), prop_oneof![Just(0), Just(5), Just(TABLE - 2)])
            .prop_map(|(which, behind)| Step::Move { which, behind }),
        1 => page().prop_map(|page| Step::Discard { page }),
        1 => page().prop_map(|page| Step::Free { page }),
        1 => which().prop_map(|which| Step::Hide { which }),
        2 => (0..2u16).prop_map(|to| Step::Migrate { to }),
        2 => (which(), some()).prop_map(|(which, page)| Step::PageOut { which, page }),
        2 => which().prop_map(|which| Step::Reclaim { which }),
        1 => Just(Step::Sync),
        1 => Just(Step::Invalidate),
        1 => Just(Step::Collapse),
        1 => Just(Step::Huge),
        1 => (which(), page()).prop_map(|(which, page)| Step::Fork { which, page }),
    ]
}

/// The mappings, and the word that each of their pages must hold.
struct World {
    rig: Rig,
    space: Space,
    files: [ObjectId; 2],
    starts: [u64; MAPPINGS],
    words: [BTreeMap<u64, u64>; MAPPINGS],
    /// Pages of memory that may also read as zeros.
    free: BTreeSet<u64>,
    last: u64,
}

impl World {
    fn new(schedule: Schedule) -> (Self, u64) {
        let (rig, space, frames) = machine(schedule);
        let files = [(); 2].map(|()| rig.memory.create_file(2 * TABLE as u32).unwrap());
        let starts = [
            rig.memory.map_anonymous(&space, PAGES).unwrap(),
            rig.memory.map_shared(&space, files[0], 0, PAGES, true).unwrap(),
            rig.memory.map_private(&space, files[1], 0, PAGES).unwrap(),
        ];
        let words = [(); MAPPINGS].map(|()| BTreeMap::new());
        (Self { rig, space, files, starts, words, free: BTreeSet::new(), last: 0 }, frames)
    }

    fn at(&self, which: usize, page: u64) -> u64 {
        at(self.starts[which], page)
    }

    /// A page of a mapping, or all.
    fn part(&self, which: usize, page: Option<u64>) -> (u64, Pages) {
        page.map_or((self.starts[which], PAGES), |page| (self.at(which, page), ONE))
    }

    fn see(&mut self, which: usize, page: u64) -> Result<(), TestCaseError> {
        let held = self.words[which].get(&page).copied().unwrap_or(0);
        let loaded = self.rig.load(&self.space, self.at(which, page));
        if which == 0 && self.free.contains(&page) && loaded == Ok(0) {
            self.words[0].remove(&page);
            return Ok(());
        }
        prop_assert_eq!(loaded, Ok(held), "page {} of mapping {}", page, which);
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (rig, space) = (self.rig.clone(), self.space.clone());
        let memory = &rig.memory;
        match step {
            Step::Store { cpu, which, page } => {
                self.last += 1;
                let address = self.at(which, page);
                prop_assert_eq!(rig.on(cpu, || rig.store(&space, address, self.last)), Ok(()));
                self.words[which].insert(page, self.last);
                if which == 0 {
                    self.free.remove(&page);
                }
            }
            Step::Load { cpu, which, page } => return rig.on(cpu, || self.see(which, page)),
            Step::Protect { which, page, protection } => {
                let (start, pages) = self.part(which, page);
                memory.protect(&space, start, pages, protection).unwrap();
                for cpu in 0..2 {
                    prop_assert!(rig.on(cpu, || rig.store(&space, start, 1)).is_err());
                    let loaded = rig.on(cpu, || rig.load(&space, start)).is_ok();
                    prop_assert_eq!(loaded, protection == Protection::Read);
                }
                memory.protect(&space, start, pages, Protection::ReadWrite).unwrap();
            }
            Step::Move { which, behind } => {
                self.last += 1;
                let to = at((1 << 40) + (self.last << 23), behind);
                let moved = memory.remap(&space, self.starts[which], PAGES, PAGES, Placement::At(to));
                prop_assert_eq!(moved, Ok(to));
                for page in ends() {
                    let old = self.at(which, page);
                    let reads = (0..2).any(|cpu| rig.on(cpu, || rig.load(&space, old)).is_ok());
                    prop_assert!(!reads, "page {} is at its old place", page);
                }
                self.starts[which] = to;
            }
            Step::Discard { page } => {
                memory.discard(&space, self.at(0, page), ONE).unwrap();
                self.words[0].remove(&page);
            }
            Step::Free { page } => {
                memory.advise_free(&space, self.at(0, page), ONE).unwrap();
                self.free.insert(page);
            }
            Step::Hide { which } => _ = memory.hint(&space, self.starts[which], PAGES).unwrap(),
            Step::Migrate { to } => {
                let to = NodeId(to);
                memory.migrate_space(&space, if to == NEAR { FAR } else { NEAR }, to).unwrap();
            }
            Step::PageOut { which, page } => {
                let (start, pages) = self.part(which, page);
                memory.advise_page_out(&space, start, pages).unwrap();
            }
            Step::Reclaim { which } => _ = memory.reclaim_range(&space, self.starts[which], PAGES).unwrap(),
            Step::Sync => self.files.iter().for_each(|file| _ = memory.sync(*file)),
            Step::Invalidate => self.files.iter().for_each(|file| _ = memory.invalidate(*file, 0, u32::MAX)),
            Step::Collapse => {
                for page in [0, TABLE] {
                    _ = memory.collapse(&space, self.at(0, page));
                }
            }
            Step::Huge => memory.advise_huge(&space, self.starts[0], PAGES, true).unwrap(),
            Step::Fork { which, page } => {
                let child = memory.fork(&space).unwrap();
                rig.run(&child);
                let address = self.at(which, page);
                let loaded = rig.load(&child, address);
                let freed = which == 0 && self.free.contains(&page) && loaded == Ok(0);
                prop_assert!(freed || loaded == Ok(self.words[which].get(&page).copied().unwrap_or(0)));
                if which != 1 {
                    rig.store(&child, address, u64::MAX).unwrap();
                }
                memory.exit(child);
                rig.run(&space);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ceasefire_testing::cases(200), failure_persistence: None, ..ProptestConfig::default() })]

    /// The pages are those around the ends of tables.
    #[test]
    fn no_way_loses_a_store_or_leaves_a_translation_behind(
        schedule in prop_oneof![Just(Schedule::PerPage), Just(Schedule::Batched), Just(Schedule::Lazy)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let (mut world, frames) = World::new(schedule);
        for step in steps {
            world.take(step)?;
            prop_assert_eq!(world.rig.platform().first_violation(), None, "after {:?}", step);
        }
        // Everything leaves memory, and comes back from the devices.
        for which in 0..MAPPINGS {
            world.take(Step::PageOut { which, page: None })?;
        }
        for cpu in 0..2 {
            world.rig.clone().on(cpu, || {
                (0..MAPPINGS).try_for_each(|which| ends().try_for_each(|page| world.see(which, page)))
            })?;
        }
        let World { rig, space, files, .. } = world;
        finish(&rig, space, &files, frames);
        prop_assert_eq!(rig.memory.free_slots(), 2048, "slots were lost or found");
    }
}
