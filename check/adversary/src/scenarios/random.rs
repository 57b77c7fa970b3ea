//! Random programs: every CPU does operations that the seed draws, with all mechanisms at once.

use ceasefire::{Errata, Schedule, Walkers};

use super::memory_random;
use crate::model::schedule::below;
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::Kernel;

/// The operations of each CPU.
const OPERATIONS: u32 = 8;
/// The pages that programs use, from 0. They share one table, and lie beside another.
const PAGES: u32 = 6;

fn sets_up(kernel: &Kernel) {
    for _ in 0..2 {
        let space = kernel.add_space();
        for page in 0..u64::from(PAGES) {
            if below(2) == 0 {
                kernel.map(&space, page, below(2) == 0);
            }
        }
    }
    for page in 0..3 {
        kernel.map_kernel(page);
    }
}

fn acts(kernel: &Kernel) {
    kernel.run(&kernel.space(below(2) as usize));
    for _ in 0..OPERATIONS {
        act(kernel);
    }
    kernel.leave();
}

/// One operation.
fn act(kernel: &Kernel) {
    let space = kernel.space(below(2) as usize);
    let page = u64::from(below(PAGES));
    let schedule = [Schedule::PerPage, Schedule::Batched, Schedule::Lazy][below(3) as usize];
    match below(27) {
        0..=4 => drop(kernel.load(page)),
        5..=8 => drop(kernel.store(page)),
        9 => kernel.run(&space),
        10 => kernel.rest(),
        11 => kernel.tick(),
        12 => kernel.fault_in(&space, page),
        13 => kernel.unmap(&space, page..page + 1 + u64::from(below(3))),
        14 => kernel.discard(&space, page),
        15 => kernel.protect(&space, page..page + 1),
        16 | 17 => kernel.reclaim(&space, &[page, (page + 1) % u64::from(PAGES)], schedule),
        18 => kernel.write_out(&space, page),
        19 => kernel.reclaim_dirty(&space, page),
        20 => kernel.migrate(&space, page, schedule),
        21 => kernel.soften(&space, page),
        22 => kernel.hide(&space, page),
        23 => kernel.unmap_with_table(&space, page),
        24 => {
            kernel.load_kernel(u64::from(below(3)));
            // Each CPU maps a page of its own, and any may use it.
            let own = kernel.hardware().me() as u64;
            kernel.unmap_kernel(own, false);
            kernel.map_kernel(own);
        }
        25 => kernel.walk(&space, page),
        _ => comes_and_goes(kernel),
    }
}

/// Runs a space that nobody else knows, or goes offline for a while.
fn comes_and_goes(kernel: &Kernel) {
    if below(2) == 0 {
        kernel.leave();
        kernel.sleep(4);
    } else {
        let space = kernel.new_space();
        kernel.map(&space, 0, true);
        kernel.run(&space);
        kernel.store(0);
        kernel.leave();
        kernel.end_space(&space);
    }
    kernel.run(&kernel.space(below(2) as usize));
}

const RANDOM: Scenario =
    Scenario { source: "random operations", before: sets_up, programs: &[acts, acts, acts], ..PLAIN };

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario { name: "R1-interrupts", walkers: Walkers::Any, ..RANDOM },
    Scenario { name: "R2-lazy-flushes", lazy: true, walkers: Walkers::Own, ..RANDOM },
    Scenario {
        name: "R3-broadcasts",
        carried: Carried::Broadcasts,
        lazy: true,
        walkers: Walkers::Own,
        ..RANDOM
    },
    Scenario { name: "R4-both", carried: Carried::Both, lazy: true, walkers: Walkers::Any, ..RANDOM },
    Scenario {
        name: "R5-hypervisor-without-asids",
        carried: Carried::NoAsids,
        elsewhere: true,
        walkers: Walkers::Own,
        ..RANDOM
    },
    memory_random::PER_PAGE,
    memory_random::BATCHED,
    memory_random::LAZY,
    memory_random::BROADCAST,
    memory_random::ALL,
    Scenario { name: "R11-hypervisor", elsewhere: true, lazy: true, walkers: Walkers::Awaited, ..RANDOM },
    Scenario {
        name: "R12-broadcasts-with-faults",
        carried: Carried::Broadcasts,
        lazy: true,
        walkers: Walkers::Awaited,
        errata: Errata { repeated: true, everyone: true },
        ..RANDOM
    },
];
