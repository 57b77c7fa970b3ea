//! B. Deferred flushes: "the entry is gone, so there is nothing to flush".

use ceasefire::sabotage::Guard;
use ceasefire::Schedule;

use super::programs::{breaking, loads, one_page, stores, stores_to, two_pages, unmaps, without};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{R1, R3, R7};
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::Kernel;

fn reclaims(kernel: &Kernel) {
    kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched);
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "B1-batch-and-mprotect",
        source: "Linux, 3ea277194daa",
        guards: &[(&[without(Guard::Settle)], &[R3])],
        before: one_page,
        programs: &[reclaims, stores, |kernel| kernel.protect(&kernel.space(0), 1..2)],
        ..PLAIN
    },
    Scenario {
        name: "B2-lost-pending-flag",
        source: "Linux, 5ee2fa2f0636",
        guards: &[(&[without(Guard::Reached)], &[R3])],
        carried: Carried::Broadcasts,
        before: two_pages,
        // What one batch has reached says nothing of another's broadcasts.
        programs: &[
            |kernel| {
                kernel.wait_for(0);
                reclaims(kernel);
            },
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.store(1);
                kernel.raise(0);
                stores(kernel);
            },
            |kernel| {
                kernel.wait_for(0);
                kernel.reclaim(&kernel.space(0), &[2], Schedule::Batched);
                kernel.raise(1);
            },
            |kernel| {
                kernel.wait_for(1);
                unmaps(kernel);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "B3-wait-by-the-wrong-cpu",
        source: "Linux, 4b634918384c (Arm)",
        guards: &[(&[without(Guard::Settle)], &[R3]), (&[breaking(Promise::WaitIsForOwn)], &[R1, R3])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[reclaims, stores, unmaps],
        ..PLAIN
    },
    Scenario {
        name: "B4-lock-taken-again",
        source: "Linux, 383c4613c67c",
        guards: &[(&[without(Guard::Settle)], &[R3])],
        before: |kernel| {
            let p = kernel.add_space();
            kernel.map(&p, 2, true);
        },
        programs: &[
            |kernel| kernel.unmap(&kernel.space(0), 1..3),
            |kernel| stores_to(kernel, 2),
            |kernel| kernel.reclaim(&kernel.space(0), &[2], Schedule::Batched),
        ],
        ..PLAIN
    },
    Scenario {
        name: "B5-madvise-twice",
        source: "Linux, 99baac21e458",
        guards: &[(&[without(Guard::Nested)], &[R1, R3])],
        before: one_page,
        programs: &[unmaps, loads, |kernel| kernel.discard(&kernel.space(0), 1)],
        ..PLAIN
    },
    Scenario {
        name: "B6-hidden-and-migrated",
        source: "Linux, 20841405940e",
        guards: &[(&[without(Guard::Hidden)], &[R1])],
        before: one_page,
        programs: &[|kernel| kernel.hide(&kernel.space(0), 1), stores, reclaims],
        ..PLAIN
    },
    Scenario {
        name: "B7-two-hide",
        source: "Linux, 16af97dc5a89, 0a2c40487f3e",
        guards: &[(&[without(Guard::Hidden)], &[R1])],
        before: two_pages,
        programs: &[
            |kernel| kernel.hide(&kernel.space(0), 1),
            |kernel| stores_to(kernel, 2),
            |kernel| kernel.hide(&kernel.space(0), 2),
            |kernel| kernel.reclaim(&kernel.space(0), &[2], Schedule::Batched),
        ],
        ..PLAIN
    },
    Scenario {
        name: "B8-migration-and-madvise",
        source: "Linux, 60bae7370896",
        guards: &[(&[without(Guard::Settle)], &[R3, R7])],
        before: one_page,
        programs: &[
            |kernel| kernel.migrate(&kernel.space(0), 1, Schedule::Batched),
            loads,
            |kernel| kernel.discard(&kernel.space(0), 1),
        ],
        ..PLAIN
    },
    Scenario {
        name: "B9-batch-of-both-kinds",
        source: "Linux, series of van Riel, v2",
        guards: &[(&[without(Guard::BroadcastWait)], &[R1])],
        carried: Carried::Broadcasts,
        before: |kernel| {
            one_page(kernel);
            let frame = kernel.peek(&kernel.space(0), 1).frame();
            let q = kernel.add_space();
            kernel.map_frame(&q, 1, frame, true);
        },
        programs: &[
            |kernel| kernel.reclaim_shared(&[kernel.space(0), kernel.space(1)], 1, Schedule::Batched),
            stores,
            |kernel| {
                kernel.run(&kernel.space(1));
                kernel.store(1);
                kernel.store(1);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "B9b-flush-and-adoption",
        source: "Linux, series of van Riel, v5",
        guards: &[(&[without(Guard::Transition)], &[R1, R3])],
        carried: Carried::Both,
        before: |kernel| {
            one_page(kernel);
            (2..6).for_each(|page| {
                kernel.map(&kernel.space(0), page, true);
            });
        },
        programs: &[
            |kernel| (1..6).for_each(|page| kernel.unmap(&kernel.space(0), page..page + 1)),
            |kernel| {
                kernel.run(&kernel.space(0));
                (0..12).for_each(|number| {
                    kernel.store(1 + number % 5);
                });
            },
            |kernel| {
                kernel.run(&kernel.space(0));
                (0..12).for_each(|number| {
                    kernel.store(5 - number % 5);
                });
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "B10-request-without-a-generation",
        source: "Linux, 8f1d56f64f8d",
        guards: &[(&[without(Guard::NoGeneration)], &[R1])],
        before: one_page,
        programs: &[reclaims, stores],
        ..PLAIN
    },
];
