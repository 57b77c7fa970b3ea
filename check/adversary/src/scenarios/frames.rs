//! A. Frames that were freed or moved before the flush.

use ceasefire::sabotage::Guard;

use super::programs::{
    breaking, kernel_page, one_huge_page, one_page, stores, stores_to, two_pages, unmaps, unmaps_kernel_page,
    without,
};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{R1, R2, R3, R7};
use crate::search::scenario::{Scenario, PLAIN};
use crate::subject::kernel::Kernel;

/// Reads the frames of two pages in turn.
fn reads_by_window(kernel: &Kernel) {
    for number in 0..4 {
        let frame = kernel.peek(&kernel.space(0), 1 + number % 2).frame();
        kernel.read_by_window(1, frame);
    }
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "A1-mremap",
        source: "Linux, CVE-2018-18281, eb66ae030829",
        guards: &[(&[without(Guard::UnlockFlush)], &[R7])],
        before: one_page,
        programs: &[
            |kernel| kernel.move_page(&kernel.space(0), 1, 2),
            stores,
            |kernel| kernel.fault(&kernel.space(0), 1),
        ],
        ..PLAIN
    },
    Scenario {
        name: "A2-pages-without-a-reference",
        source: "Linux, CVE-2022-39188, b67fbebd4cf9",
        guards: &[(&[without(Guard::Nested)], &[R1, R3])],
        before: one_page,
        // The second finds the page gone, and must not return before the first has flushed.
        programs: &[unmaps, stores, |kernel| kernel.discard(&kernel.space(0), 1)],
        ..PLAIN
    },
    Scenario {
        name: "A3-gather-order",
        source: "Linux, include/asm-generic/tlb.h: unhook, invalidate, free",
        guards: &[(&[without(Guard::GatherFlush)], &[R1])],
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "A4-unshared-table",
        source: "Linux, CVE-2021-4002, a4a118f2eead",
        guards: &[(&[without(Guard::GatherFlush)], &[R1, R2])],
        before: |kernel| {
            one_page(kernel);
            let q = kernel.add_space();
            kernel.share_table(&kernel.space(0), &q, 0);
        },
        programs: &[
            |kernel| {
                kernel.unshare(&kernel.space(0), 0);
                kernel.raise(0);
            },
            stores,
            |kernel| {
                kernel.wait_for(0);
                kernel.unmap_with_table(&kernel.space(1), 0);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "A5-huge-page",
        source: "Linux, \"thp: keep huge zero page pinned until tlb flush\"",
        guards: &[(&[without(Guard::GatherFlush)], &[R1])],
        before: one_huge_page,
        programs: &[|kernel| kernel.unmap_huge(&kernel.space(0), 4), |kernel| stores_to(kernel, 6)],
        ..PLAIN
    },
    Scenario {
        name: "A6-kernel-range",
        source: "Asterinas, #2849; litebox #848, coconut-svsm #1188, nanvix #2244",
        guards: &[(&[without(Guard::KernelFlush)], &[R1, R3])],
        before: kernel_page,
        programs: &[unmaps_kernel_page, |kernel| {
            for _ in 0..6 {
                kernel.load_kernel(1);
            }
        }],
        ..PLAIN
    },
    Scenario {
        name: "A7-window-that-each-cpu-flushes",
        source: "SerenityOS, #3902",
        guards: &[(&[without(Guard::Window)], &[R7]), (&[breaking(Promise::GlobalToo)], &[R7])],
        before: two_pages,
        programs: &[reads_by_window, reads_by_window],
        ..PLAIN
    },
];
