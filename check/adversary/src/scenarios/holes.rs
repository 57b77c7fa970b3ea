//! The holes that reviewers found in lazy unmap flush, and those of global ASIDs.

use ceasefire::sabotage::Guard;
use ceasefire::Schedule;

use super::programs::{loads, one_page, pause, read_only_page, stores, unmaps, without};
use crate::model::rule::Rule::{R1, R3, R5, R7};
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::Kernel;

/// Reclaims page 1 lazily, and uses its frame again as soon as it may.
fn reclaims_lazily(kernel: &Kernel) {
    kernel.reclaim(&kernel.space(0), &[1], Schedule::Lazy);
    for _ in 0..3 {
        kernel.tick();
        kernel.allocate_and_free();
    }
}

/// Loads page 1, with ticks now and then.
fn loads_and_ticks(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    for _ in 0..4 {
        kernel.load(1);
        kernel.load(1);
        kernel.tick();
    }
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "L1-frame-used-again-while-owed",
        source: "LUF, reuse before the flush",
        guards: &[(&[without(Guard::Stamp)], &[R1]), (&[without(Guard::Sweep)], &[R1])],
        lazy: true,
        before: read_only_page,
        programs: &[reclaims_lazily, loads_and_ticks],
        ..PLAIN
    },
    Scenario {
        name: "L2-new-page-where-the-old-is-owed",
        source: "LUF, a new translation of the address",
        guards: &[(&[without(Guard::Settle)], &[R7, R3])],
        lazy: true,
        before: read_only_page,
        programs: &[
            |kernel| kernel.reclaim(&kernel.space(0), &[1], Schedule::Lazy),
            loads,
            |kernel| {
                pause(kernel, 4);
                kernel.fault(&kernel.space(0), 1);
                kernel.unmap(&kernel.space(0), 1..2);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "L3-second-cpu-under-a-global-asid",
        source: "engine, space::used_on",
        guards: &[(&[without(Guard::SecondCpu)], &[R1, R3])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.store(1);
                unmaps(kernel);
            },
            stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "L4-owing-while-rights-are-taken",
        source: "LUF, dirty pages; engine, Guard::Downgrade",
        guards: &[(&[without(Guard::Downgrade)], &[R5]), (&[without(Guard::Narrowing)], &[R5])],
        lazy: true,
        before: one_page,
        programs: &[
            |kernel| kernel.soften(&kernel.space(0), 1),
            stores,
            |kernel| {
                pause(kernel, 2);
                kernel.reclaim(&kernel.space(0), &[1], Schedule::Lazy);
            },
        ],
        ..PLAIN
    },
];
