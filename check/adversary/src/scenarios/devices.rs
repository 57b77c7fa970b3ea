//! I. Devices, hypervisors, and the second stage.

use ceasefire::sabotage::Guard;
use ceasefire::{Flush, PageSize, Schedule};

use super::programs::{
    breaking, device_stores, device_stores_to, one_page, read_only_page, stores, two_pages, unmaps, without,
};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{R1, R3, R7};
use crate::search::scenario::{Scenario, PLAIN};
use crate::subject::kernel::{address, Kernel};

fn with_device(kernel: &Kernel) {
    one_page(kernel);
    kernel.attach_device(&kernel.space(0));
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "I1-moved-and-removed",
        source: "Xen, XSA-346, 6f012ec24294, d73e9720545d",
        guards: &[(&[without(Guard::Devices)], &[R1, R3])],
        devices: 1,
        before: with_device,
        programs: &[
            |kernel| {
                kernel.move_page(&kernel.space(0), 1, 2);
                kernel.unmap(&kernel.space(0), 2..3);
            },
            device_stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "I3-device-flushed-later",
        source: "Linux, iommu.strict",
        guards: &[(&[breaking(Promise::DevicesDone)], &[R1, R3])],
        devices: 1,
        before: with_device,
        programs: &[unmaps, device_stores],
        ..PLAIN
    },
    Scenario {
        name: "I4-device-not-flushed",
        source: "Linux, CVE-2022-0330, 7938d61591d3",
        guards: &[(&[without(Guard::Devices)], &[R1, R3])],
        devices: 1,
        before: with_device,
        programs: &[|kernel| kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched), device_stores],
        ..PLAIN
    },
    Scenario {
        name: "I5-cpu-that-was-preempted",
        source: "KVM, CVE-2022-39189, 6cd88243c7e0",
        guards: &[(&[breaking(Promise::ElsewhereDone)], &[R1, R3])],
        elsewhere: true,
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "I7-flush-owed-at-a-yield",
        source: "KVM, a835429cda91",
        guards: &[(&[without(Guard::GatherFlush)], &[R1])],
        before: two_pages,
        programs: &[|kernel| kernel.unmap_with_room::<1>(&kernel.space(0), 1..3), stores],
        ..PLAIN
    },
    Scenario {
        name: "I8-new-tag-is-not-enough",
        source: "Linux on Alpha, dd5712f3379c",
        guards: &[(&[without(Guard::BatchFlush), without(Guard::Settle)], &[R1, R7])],
        before: one_page,
        programs: &[|kernel| kernel.migrate(&kernel.space(0), 1, Schedule::Batched), stores],
        ..PLAIN
    },
    Scenario {
        name: "I9-range-that-a-hypervisor-flushes",
        source: "contract, Platform::flush_for",
        guards: &[(&[without(Guard::Elsewhere)], &[R3]), (&[without(Guard::Settle)], &[R3])],
        elsewhere: true,
        lazy: true,
        before: |kernel| {
            read_only_page(kernel);
            kernel.map(&kernel.space(0), 2, true);
        },
        // A CPU for which page 2 was flushed still owes page 1.
        programs: &[
            |kernel| {
                kernel.wait_for(0);
                kernel.reclaim(&kernel.space(0), &[1], Schedule::Lazy);
                kernel.raise(1);
            },
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.load(1);
                kernel.raise(0);
                (0..8).for_each(|_| {
                    kernel.load(1);
                });
            },
            |kernel| {
                kernel.wait_for(1);
                kernel.flush_part(&kernel.space(0), Flush::page(address(2), PageSize::KIB_4));
                unmaps(kernel);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "I10-device-told-of-one-page",
        source: "Linux, 9d28bd2ce5d2 (Arm SMMU)",
        guards: &[(&[breaking(Promise::DevicesWhole)], &[R1, R3])],
        devices: 1,
        before: |kernel| {
            two_pages(kernel);
            kernel.attach_device(&kernel.space(0));
        },
        programs: &[|kernel| kernel.unmap(&kernel.space(0), 1..3), |kernel| device_stores_to(kernel, 2)],
        ..PLAIN
    },
];
