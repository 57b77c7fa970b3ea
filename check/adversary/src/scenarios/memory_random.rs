//! Random programs on the memory manager: every CPU makes calls and accesses that the seed draws. Each load is judged by
//! the words that it may see, and in the end no frame is lost.

use ceasefire::Schedule;
use ceasefire_memory::{Config, NodeLayout, Protection};

use crate::model::schedule::below;
use crate::search::scenario::{Carried, ManagedProgram, Managing, Scenario, PLAIN};
use crate::subject::manager::{Manager, Space};

/// The operations of each CPU.
const OPERATIONS: u32 = 8;
/// The pages of the file, and of a mapping of memory.
const PAGES: u32 = 3;

/// Two nodes, so small that memory runs out now and then, and a swap device with a few slots.
fn config() -> Config {
    Config {
        fault_around: 4,
        lru_batch: 2,
        read_ahead: 2,
        objects: 16,
        swap_pages: 4,
        ..Config::new(vec![NodeLayout::new(32), NodeLayout::new(32)], 3, Schedule::Batched)
    }
}

fn page_by_page() -> Config {
    Config { schedule: Schedule::PerPage, ..config() }
}

fn sets_up(manager: &Manager) {
    manager.add_file(PAGES);
    for _ in 0..2 {
        let space = manager.add_space();
        manager.map_memory(&space, PAGES.into());
        manager.map_file(&space, 0, 2, true);
    }
}

fn acts(manager: &Manager) {
    manager.run(&manager.space(below(2) as usize));
    for _ in 0..OPERATIONS {
        act(manager);
    }
    manager.leave();
}

/// The first CPU ends the spaces when all others are done.
fn acts_and_ends(manager: &Manager) {
    acts(manager);
    manager.end_all();
}

fn acts_and_is_done(manager: &Manager) {
    acts(manager);
    manager.is_done();
}

/// A random page of a random mapping of a space, with the mapping's first address and length.
fn somewhere(manager: &Manager, space: &Space) -> Option<(u64, u64, u64)> {
    let mappings = manager.mappings(space);
    if mappings.is_empty() {
        return None;
    }
    let (start, pages) = mappings[below(mappings.len() as u32) as usize];
    Some((start + (u64::from(below(pages as u32)) << 12), start, pages))
}

/// One operation.
fn act(manager: &Manager) {
    let space = manager.space(below(2) as usize);
    let Some((address, start, pages)) = somewhere(manager, &space) else { return maps(manager, &space) };
    match below(32) {
        0..=5 => access(manager, false),
        6..=11 => access(manager, true),
        12 => manager.run(&space),
        13 => manager.tick(),
        14 => manager.discard(&space, address, 1),
        15 => manager.give_up(&space, &[(address, 1)]),
        16 => manager.page_out(&space, start, pages),
        17 | 18 => manager.reclaim_range(&space, start, pages),
        19 => manager.protect(&space, address, 1, Protection::Read),
        20 => manager.protect(&space, start, pages, Protection::ReadWrite),
        21 => manager.hint(&space, start, pages),
        22 | 23 => manager.migrate(&space, 0, 1),
        24 => manager.migrate(&space, 1, 0),
        25 => manager.sync(),
        26 => manager.write(below(PAGES)),
        27 => manager.read(below(PAGES)),
        28 => match below(2) {
            0 => manager.invalidate(below(PAGES)),
            _ => manager.truncate(below(PAGES + 1).into()),
        },
        29 if below(2) == 0 => manager.remap(&space, start, pages),
        29 => {
            manager.unmap(&space, start, pages);
            maps(manager, &space);
        }
        30 => forks(manager, &space),
        _ => {
            manager.exhaust();
            access(manager, true);
            manager.reclaim();
            manager.relent();
        }
    }
}

fn maps(manager: &Manager, space: &Space) {
    match below(2) {
        0 => manager.map_memory(space, PAGES.into()),
        _ => manager.map_file(space, 0, 2, true),
    };
}

/// The program of this CPU uses a page.
fn access(manager: &Manager, store: bool) {
    let Some((address, ..)) = somewhere(manager, &manager.runs()) else { return };
    if store {
        manager.store(address);
    } else {
        manager.load(address);
    }
}

/// A child runs here for a while.
fn forks(manager: &Manager, parent: &Space) {
    let Some(child) = manager.fork(parent) else { return };
    let before = manager.runs();
    manager.run(&child);
    (0..3).for_each(|_| access(manager, below(2) == 0));
    manager.exit(child);
    manager.run(&before);
}

const PROGRAMS: &[ManagedProgram] = &[acts_and_ends, acts_and_is_done, acts_and_is_done];
const PLAYED: Managing = Managing { config, before: sets_up, programs: PROGRAMS };
const RANDOM: Scenario = Scenario { source: "random operations", manager: Some(PLAYED), ..PLAIN };

/// The memory manager with each mechanism.
pub(super) const PER_PAGE: Scenario = Scenario {
    name: "R6-memory-per-page",
    manager: Some(Managing { config: page_by_page, ..PLAYED }),
    ..RANDOM
};
pub(super) const BATCHED: Scenario = Scenario { name: "R7-memory-batched", ..RANDOM };
pub(super) const LAZY: Scenario = Scenario { name: "R8-memory-lazy", lazy: true, ..RANDOM };
pub(super) const BROADCAST: Scenario =
    Scenario { name: "R9-memory-broadcast", carried: Carried::Broadcasts, ..RANDOM };
pub(super) const ALL: Scenario =
    Scenario { name: "R10-memory-all", carried: Carried::Both, lazy: true, ..RANDOM };
