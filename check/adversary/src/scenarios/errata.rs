//! J. Processors that do not keep what they promise.

use ceasefire::sabotage::Guard;
use ceasefire::Errata;

use super::programs::{
    breaking, device_stores, kernel_page, loads_kernel_page, one_page, stores, unmaps, unmaps_kernel_page,
    without,
};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{R1, R2, R3};
use crate::search::scenario::{Carried, Scenario, PLAIN};

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "J1-global-entries-stay",
        source: "Intel, Alder Lake, INVLPG with PCIDs",
        guards: &[(&[breaking(Promise::GlobalToo)], &[R1, R3])],
        before: kernel_page,
        programs: &[unmaps_kernel_page, loads_kernel_page],
        ..PLAIN
    },
    Scenario {
        name: "J2-store-that-lands-later",
        source: "Arm, CVE-2025-10263; Xen, XSA-493; Linux, cfd391e74134",
        guards: &[(&[without(Guard::Repeated)], &[R1, R3]), (&[breaking(Promise::AccessesLand)], &[R1, R3])],
        carried: Carried::Broadcasts,
        errata: Errata { repeated: true, ..Errata::NONE },
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "J3-broadcast-that-must-be-repeated",
        source: "Arm, errata 1286807 and 2441009",
        guards: &[
            (&[without(Guard::Repeated)], &[R1, R2, R3]),
            (&[breaking(Promise::WaitIsForOwn)], &[R1, R2, R3]),
        ],
        carried: Carried::Broadcasts,
        errata: Errata { repeated: true, ..Errata::NONE },
        before: one_page,
        programs: &[|kernel| kernel.unmap_with_table(&kernel.space(0), 0), stores],
        ..PLAIN
    },
    Scenario {
        name: "J4-entry-that-survives-in-a-device",
        source: "Tegra264, 06b15ddcfbc0",
        guards: &[(&[breaking(Promise::DevicesDone)], &[R1, R2, R3])],
        devices: 1,
        before: |kernel| {
            one_page(kernel);
            kernel.attach_device(&kernel.space(0));
        },
        programs: &[|kernel| kernel.unmap_with_table(&kernel.space(0), 0), device_stores],
        ..PLAIN
    },
    Scenario {
        name: "J5-mark-that-is-not-atomic",
        source: "AMD, errata 298 and 383",
        guards: &[(&[breaking(Promise::MarksAtomic)], &[R1, R2, R3])],
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "J6-access-that-lands-at-its-own-barrier",
        source: "Arm, CVE-2026-0995, erratum 4193714; TF-A, TFV-16",
        guards: &[(&[without(Guard::Everyone)], &[R1, R3])],
        carried: Carried::Broadcasts,
        errata: Errata { everyone: true, ..Errata::NONE },
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "J7-both-faults-of-broadcasts",
        source: "Arm, CVE-2025-10263 and CVE-2026-0995",
        // The waits of the other CPUs cover for the second broadcast: J2 and J3 miss its guard.
        guards: &[(&[without(Guard::Everyone)], &[R1, R3])],
        carried: Carried::Both,
        errata: Errata { repeated: true, everyone: true },
        before: one_page,
        // The flushes bring the space to a global ASID. Each needs the other CPU.
        programs: &[
            |kernel| {
                (0..4).for_each(|_| kernel.flush(&kernel.space(0)));
                unmaps(kernel);
            },
            stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "J6b-cpu-that-has-left",
        source: "Arm, CVE-2026-0995",
        guards: &[(&[without(Guard::Everyone)], &[R1, R3])],
        carried: Carried::Broadcasts,
        errata: Errata { everyone: true, ..Errata::NONE },
        before: one_page,
        programs: &[unmaps, |kernel| {
            for _ in 0..3 {
                stores(kernel);
                kernel.leave();
            }
        }],
        ..PLAIN
    },
    Scenario {
        name: "J6c-range-of-the-kernel",
        source: "contract, Errata::everyone",
        guards: &[(&[without(Guard::Everyone)], &[R1, R3])],
        carried: Carried::Broadcasts,
        errata: Errata { everyone: true, ..Errata::NONE },
        before: kernel_page,
        programs: &[unmaps_kernel_page, loads_kernel_page],
        ..PLAIN
    },
];
