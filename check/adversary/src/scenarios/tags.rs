//! E. Tags and generations.

use ceasefire::sabotage::Guard;
use ceasefire::Schedule;

use super::programs::{
    breaking, one_page, pause, read_only_page, rests, stores, stores_to, two_pages, unmaps, without,
};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{R1, R3, R4};
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::Kernel;

/// More spaces than a CPU has slots, each with page 1 mapped.
fn many_spaces(kernel: &Kernel) {
    (0..8).for_each(|_| {
        let space = kernel.add_space();
        kernel.map(&space, 1, true);
    });
}

fn visits_all(kernel: &Kernel) {
    (0..8).chain([0, 1]).for_each(|number| {
        kernel.run(&kernel.space(number));
        kernel.store(1);
    });
}

/// Makes spaces, runs them and ends them, so that ASIDs run out and are given out again.
fn makes_spaces(kernel: &Kernel) {
    for _ in 0..12 {
        let space = kernel.add_space();
        kernel.map(&space, 1, true);
        kernel.run(&space);
        kernel.store(1);
        kernel.leave();
        kernel.end_space(&space);
    }
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "E1-lazy-over-a-change-of-tag",
        source: "Linux on Arm, 8678c1f04277",
        guards: &[(&[without(Guard::Transition)], &[R1, R3])],
        carried: Carried::Both,
        before: two_pages,
        programs: &[
            |kernel| (1..3).for_each(|page| kernel.unmap(&kernel.space(0), page..page + 1)),
            |kernel| {
                rests(kernel);
                stores_to(kernel, 2);
            },
            |kernel| stores_to(kernel, 2),
        ],
        ..PLAIN
    },
    Scenario {
        name: "E2-two-rollovers",
        source: "Linux on Arm, 0ebea8088095",
        guards: &[(&[without(Guard::Rollover)], &[R4])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[makes_spaces, stores, makes_spaces],
        ..PLAIN
    },
    Scenario {
        name: "E3-wrap-that-flushes-one-tag",
        source: "Xen on SVM, eda0f21363c1",
        guards: &[(&[without(Guard::Rollover)], &[R4])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[makes_spaces, |kernel| pause(kernel, 20)],
        ..PLAIN
    },
    Scenario {
        name: "E4-flush-and-then-the-switch",
        source: "Xen, XSA-292, 0bdd0db31d49",
        guards: &[(&[without(Guard::Behind)], &[R1, R3])],
        before: |kernel| {
            one_page(kernel);
            kernel.add_space();
        },
        programs: &[
            |kernel| {
                kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched);
                kernel.map(&kernel.space(0), 1, true);
                unmaps(kernel);
            },
            |kernel| {
                for _ in 0..3 {
                    kernel.run(&kernel.space(0));
                    kernel.store(1);
                    kernel.run(&kernel.space(1));
                }
                kernel.run(&kernel.space(0));
                kernel.store(1);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "E5-new-owner-of-a-slot",
        source: "Xen, XSA-294, 88f936d44d2e",
        guards: &[(&[without(Guard::Recycled)], &[R4]), (&[breaking(Promise::RootFlushes)], &[R4])],
        before: many_spaces,
        programs: &[visits_all, |kernel| pause(kernel, 4)],
        ..PLAIN
    },
    Scenario {
        name: "E6-stamp-and-clock",
        source: "Xen, XSA-241, da4f24dcdf0d",
        guards: &[(&[without(Guard::Leaving)], &[R1])],
        lazy: true,
        before: |kernel| {
            read_only_page(kernel);
            kernel.map(&kernel.space(0), 2, false);
        },
        // A debt that is entered after the flush of a tick must outlive that tick.
        programs: &[
            |kernel| {
                kernel.wait_for(0);
                kernel.reclaim(&kernel.space(0), &[1], Schedule::Lazy);
                kernel.raise(1);
                kernel.reclaim(&kernel.space(0), &[2], Schedule::Lazy);
                kernel.tick();
                kernel.allocate_and_free();
                kernel.allocate_and_free();
            },
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.load(2);
                kernel.raise(0);
                kernel.wait_for(1);
                kernel.tick();
                (0..4).for_each(|_| {
                    kernel.load(2);
                });
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "E7-generation-skipped",
        source: "Linux, arch/x86/mm/tlb.c, flush_tlb_func_common",
        guards: &[(&[without(Guard::OneBehind)], &[R1, R3])],
        before: two_pages,
        programs: &[
            unmaps,
            |kernel| {
                kernel.run(&kernel.space(0));
                (0..8).for_each(|number| {
                    kernel.store(1 + number % 2);
                });
            },
            |kernel| kernel.discard(&kernel.space(0), 2),
        ],
        ..PLAIN
    },
    Scenario {
        name: "E8-two-tags-for-one-space",
        source: "Linux, 6fd166aae78c; FreeBSD-EN-18:07.pmap",
        guards: &[(&[breaking(Promise::EveryTag)], &[R1, R3])],
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "E9-flush-under-the-wrong-tag",
        source: "KVM, 1438921c6dc1; Xen, c5c84e97669d",
        guards: &[(&[without(Guard::Transition)], &[R1, R3])],
        carried: Carried::Both,
        before: two_pages,
        programs: &[
            |kernel| {
                kernel.run(&kernel.space(0));
                (1..3).for_each(|page| kernel.unmap(&kernel.space(0), page..page + 1));
            },
            |kernel| stores_to(kernel, 2),
            stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "E11-broadcasts-without-tags",
        source: "Linux, nopcid with INVLPGB, 2026",
        guards: &[(&[without(Guard::Untagged)], &[R4])],
        carried: Carried::Untagged,
        before: many_spaces,
        programs: &[visits_all, |kernel| pause(kernel, 4)],
        ..PLAIN
    },
    Scenario {
        name: "E13-root-and-tag-in-two-steps",
        source: "illumos on Arm, richlowe/illumos-gate #220",
        guards: &[(&[breaking(Promise::RootWithTag)], &[R4])],
        before: |kernel| {
            one_page(kernel);
            one_page(kernel);
        },
        programs: &[
            |kernel| {
                (0..6).for_each(|number| {
                    kernel.run(&kernel.space(number % 2));
                    kernel.load(1);
                });
            },
            |kernel| pause(kernel, 4),
        ],
        ..PLAIN
    },
];
