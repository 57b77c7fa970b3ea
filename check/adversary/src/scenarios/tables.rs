//! C. Page-table pages, walk caches, and walkers without a lock.

use ceasefire::sabotage::Guard;
use ceasefire::Walkers;

use super::programs::{
    breaking, device_stores, kernel_page, one_page, rests, runs_and_walks, stores, unmaps_table, without,
};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{R1, R2, R3};
use crate::search::scenario::{Scenario, PLAIN};

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "C1-lazy-cpu-walks-freed-table",
        source: "Linux, 2ff6ddf19c0e",
        guards: &[(&[without(Guard::LazyTables)], &[R2])],
        before: one_page,
        programs: &[unmaps_table, rests],
        ..PLAIN
    },
    Scenario {
        name: "C2-no-room-for-the-table",
        source: "Linux, be62e019ce17",
        guards: &[(&[without(Guard::GatherFlush)], &[R1, R2])],
        before: one_page,
        programs: &[|kernel| kernel.unmap_with_table_in::<0>(&kernel.space(0), 0), stores],
        ..PLAIN
    },
    Scenario {
        name: "C3-range-flush-for-a-table",
        source: "Linux, CVE-2025-22045, 3ef938c35035",
        guards: &[(&[without(Guard::Tables)], &[R2])],
        before: one_page,
        programs: &[|kernel| kernel.collapse(&kernel.space(0), 0), rests],
        ..PLAIN
    },
    Scenario {
        name: "C4-collapse-and-a-walk-by-code",
        source: "Linux, 2ba99c5e0881",
        guards: &[(&[without(Guard::Others)], &[R2, R1, R3])],
        walkers: Walkers::Own,
        before: one_page,
        programs: &[|kernel| kernel.collapse(&kernel.space(0), 0), runs_and_walks],
        ..PLAIN
    },
    Scenario {
        name: "C5-flush-while-the-root-is-loaded",
        source: "Linux on s390, 02a8f3abb708",
        guards: &[(&[breaking(Promise::WalksEnd)], &[R1, R2, R3]), (&[breaking(Promise::WaysGo)], &[R2])],
        before: one_page,
        programs: &[
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.store(1);
                unmaps_table(kernel);
                kernel.store(1);
                kernel.store(1);
            },
            stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "C6-flush-deferred-to-the-unlock",
        source: "Xen, XSA-480, 8b8c324af669",
        guards: &[(&[without(Guard::Answers)], &[R1, R2])],
        before: one_page,
        programs: &[unmaps_table, stores],
        ..PLAIN
    },
    Scenario {
        name: "C7-device-walks-kernel-tables",
        source: "Linux, CVE-2025-71202",
        guards: &[(&[without(Guard::KernelDevices)], &[R1, R2, R3])],
        devices: 1,
        before: kernel_page,
        programs: &[
            |kernel| kernel.unmap_kernel(1, true),
            |kernel| {
                (0..8).for_each(|_| {
                    kernel.device_load_kernel(1);
                });
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "C8-device-and-an-unlinked-table",
        source: "Linux, b6b65ca20bc9",
        guards: &[(&[without(Guard::Devices)], &[R1, R2, R3])],
        devices: 1,
        before: |kernel| {
            one_page(kernel);
            kernel.attach_device(&kernel.space(0));
        },
        programs: &[unmaps_table, device_stores],
        ..PLAIN
    },
    Scenario {
        name: "C9-upper-level-changed",
        source: "Xen, XSA-286, 78d903e95efc, regressed edcfce55917b",
        guards: &[(&[without(Guard::Tables)], &[R2])],
        before: one_page,
        programs: &[
            |kernel| {
                unmaps_table(kernel);
                kernel.map(&kernel.space(0), 1, true);
            },
            stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "C10-refill-by-software",
        source: "FreeBSD on MIPS, rS360280",
        guards: &[(&[without(Guard::Answers)], &[R2, R1])],
        walkers: Walkers::Own,
        before: one_page,
        programs: &[unmaps_table, runs_and_walks],
        ..PLAIN
    },
    Scenario {
        name: "C11-flush-before-the-unlink",
        source: "StelluxOS, #188",
        guards: &[(&[without(Guard::Tables)], &[R2])],
        before: one_page,
        // With room for one frame, the gather has flushed before the table goes.
        programs: &[|kernel| kernel.unmap_with_table_in::<1>(&kernel.space(0), 0), stores],
        ..PLAIN
    },
];
