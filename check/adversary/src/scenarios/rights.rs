//! G. Rights that are taken away: copies on write, dirty pages.

use ceasefire::sabotage::Guard;
use ceasefire::Schedule;

use super::programs::{device_stores, kernel_page, one_page, stores, unmaps_kernel_page, without};
use crate::model::rule::Rule::{R1, R3, R5, R7};
use crate::search::scenario::{Scenario, PLAIN};

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "G1-dirty-page-and-write-out",
        source: "Linux, 1cf35d47712d",
        guards: &[(&[without(Guard::WritableFlush)], &[R5])],
        before: one_page,
        programs: &[|kernel| kernel.reclaim_dirty(&kernel.space(0), 1), stores],
        ..PLAIN
    },
    Scenario {
        name: "G2-write-protect-and-copy",
        source: "Linux, 6ce64428d620",
        guards: &[(&[without(Guard::UnlockFlush), without(Guard::GatherFlush)], &[R7, R1])],
        before: one_page,
        programs: &[
            |kernel| kernel.write_out(&kernel.space(0), 1),
            stores,
            |kernel| kernel.copy_on_write(&kernel.space(0), 1),
        ],
        ..PLAIN
    },
    Scenario {
        name: "G3-copy-seen-by-a-device",
        source: "Linux, Documentation/mm/mmu_notifier.rst",
        guards: &[(&[without(Guard::Devices)], &[R7])],
        devices: 1,
        before: |kernel| {
            one_page(kernel);
            kernel.attach_device(&kernel.space(0));
        },
        programs: &[|kernel| kernel.copy_on_write(&kernel.space(0), 1), device_stores],
        ..PLAIN
    },
    Scenario {
        name: "G7-flush-deferred-and-forgotten",
        source: "Xen altp2m, 92fc0b635ca8; Linux, Schneider's series v7",
        guards: &[(&[without(Guard::KernelEntry)], &[R1, R3])],
        before: kernel_page,
        programs: &[unmaps_kernel_page, |kernel| {
            for _ in 0..3 {
                kernel.load_kernel(1);
                kernel.isolate(3);
                kernel.load_kernel(1);
            }
        }],
        ..PLAIN
    },
    Scenario {
        name: "G9-write-out-of-a-mapped-page",
        source: "Linux, page_mkclean",
        guards: &[(&[without(Guard::WritableFlush)], &[R5])],
        before: one_page,
        programs: &[|kernel| kernel.write_out(&kernel.space(0), 1), stores],
        ..PLAIN
    },
    Scenario {
        name: "G10-rights-that-were-taken",
        source: "book, R3",
        guards: &[(&[without(Guard::GatherFlush)], &[R3])],
        before: one_page,
        programs: &[|kernel| kernel.protect(&kernel.space(0), 1..2), stores],
        ..PLAIN
    },
    Scenario {
        name: "G11-one-flush-a-page",
        source: "kernels before batching",
        guards: &[(&[without(Guard::AtOnce)], &[R1])],
        before: one_page,
        programs: &[|kernel| kernel.reclaim(&kernel.space(0), &[1], Schedule::PerPage), stores],
        ..PLAIN
    },
    Scenario {
        name: "G12-batched-reclaim",
        source: "Linux, Gorman 2015",
        guards: &[(&[without(Guard::BatchFlush)], &[R1])],
        before: one_page,
        programs: &[|kernel| kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched), stores],
        ..PLAIN
    },
];
