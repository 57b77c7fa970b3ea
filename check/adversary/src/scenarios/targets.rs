//! D. The CPUs that are flushed: sets, lazy CPUs, and the window in a switch.

use ceasefire::sabotage::Guard;
use ceasefire::Schedule;

use super::programs::{breaking, one_page, pause, rests, stores, unmaps, without};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{Ends, R1, R2, R3};
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::Kernel;

/// Runs another space, and then the first one.
fn switches(kernel: &Kernel) {
    kernel.run(&kernel.space(1));
    kernel.raise(0);
    stores(kernel);
}

fn unmaps_meanwhile(kernel: &Kernel) {
    kernel.wait_for(0);
    unmaps(kernel);
}

/// Runs the first space, another one, and the first again.
fn comes_back(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    kernel.store(1);
    kernel.run(&kernel.space(1));
    pause(kernel, 3);
    kernel.run(&kernel.space(0));
    kernel.store(1);
    kernel.store(1);
}

fn two_spaces(kernel: &Kernel) {
    one_page(kernel);
    kernel.add_space();
}

/// Runs four spaces in turn, so that the first is left for good.
fn leaves(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    kernel.store(1);
    (1..4).for_each(|number| kernel.run(&kernel.space(number)));
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "D1-window-after-the-root",
        source: "Linux, CVE-2025-37964, fea4e317f9e7",
        guards: &[(&[without(Guard::Switching)], &[R1, R3])],
        before: two_spaces,
        programs: &[unmaps_meanwhile, switches],
        ..PLAIN
    },
    Scenario {
        name: "D2-switch-without-a-barrier",
        source: "Linux, 83b0177a6c48",
        guards: &[(&[breaking(Promise::Consistent)], &[R1, R3])],
        before: two_spaces,
        programs: &[unmaps, comes_back],
        ..PLAIN
    },
    Scenario {
        name: "D3-set-joined-after-the-root",
        source: "Linux, 71b3c126e611",
        guards: &[(&[without(Guard::JoinFirst)], &[R1, R3])],
        before: two_spaces,
        programs: &[unmaps_meanwhile, switches],
        ..PLAIN
    },
    Scenario {
        name: "D4-set-left-before-the-root",
        source: "OpenBSD, 9f1181d59de3; Linux, 831d52bc1539",
        guards: &[(&[without(Guard::LeaveLast)], &[R1, R2, R3])],
        before: |kernel| {
            two_spaces(kernel);
            kernel.add_space();
            kernel.add_space();
        },
        programs: &[|kernel| kernel.unmap_with_table(&kernel.space(0), 0), leaves],
        ..PLAIN
    },
    Scenario {
        name: "D5-root-that-is-not-loaded-yet",
        source: "Linux on Xen, 9f79991d4186",
        guards: &[(&[breaking(Promise::RootLeaves)], &[R2])],
        before: one_page,
        programs: &[
            |kernel| kernel.unmap_with_table(&kernel.space(0), 0),
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.store(1);
                kernel.leave();
                pause(kernel, 12);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "D7-borrowed-space",
        source: "Linux on IA-64, cfbb1426bd76",
        guards: &[(&[without(Guard::CatchUp)], &[R1, R3])],
        before: one_page,
        programs: &[unmaps, rests],
        ..PLAIN
    },
    Scenario {
        name: "D8-flush-of-this-cpu-only",
        source: "Xen on Arm, c938f5414b2b",
        guards: &[(&[without(Guard::Others)], &[R1, R3])],
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
        name: "D9-cpu-that-comes-back",
        source: "KVM on RISC-V, 4b9ac285e253",
        guards: &[(&[without(Guard::Behind)], &[R1, R3])],
        before: two_spaces,
        programs: &[unmaps, comes_back],
        ..PLAIN
    },
    Scenario {
        name: "D10-generation-after-the-interrupts",
        source: "FreeBSD-EN-22:04.pcid",
        guards: &[(&[without(Guard::RaiseFirst)], &[R1, R3])],
        before: two_spaces,
        programs: &[unmaps, comes_back],
        ..PLAIN
    },
    Scenario {
        name: "D11-space-that-does-not-run-here",
        source: "seL4, #107",
        guards: &[(&[without(Guard::Others)], &[R1, R3])],
        carried: Carried::NoAsids,
        before: two_spaces,
        programs: &[
            |kernel| {
                kernel.run(&kernel.space(1));
                unmaps(kernel);
            },
            stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "D12-cpu-that-was-offline",
        source: "book, \"CPUs that come and go\"",
        guards: &[(&[without(Guard::Closed)], &[Ends])],
        before: one_page,
        programs: &[
            |kernel| {
                kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched);
                kernel.map(&kernel.space(0), 1, true);
                unmaps(kernel);
            },
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.store(1);
                kernel.sleep(6);
                stores(kernel);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "D13-broadcast-past-an-offline-cpu",
        source: "contract, Engine::online",
        guards: &[(&[without(Guard::Online)], &[R1, R3])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[unmaps, |kernel| {
            kernel.run(&kernel.space(0));
            kernel.store(1);
            kernel.sleep(6);
            stores(kernel);
        }],
        ..PLAIN
    },
];
