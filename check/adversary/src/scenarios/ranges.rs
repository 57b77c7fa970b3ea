//! F. What is flushed: range, size, level.

use ceasefire::sabotage::Guard;

use super::programs::{device_stores_to, one_huge_page, one_page, rests, stores, stores_to, without};
use crate::model::rule::Rule::{R1, R2, R3, R7};
use crate::search::scenario::{Scenario, PLAIN};
use crate::subject::kernel::Kernel;

/// A small page, and a huge one behind it.
fn both_sizes(kernel: &Kernel) {
    one_page(kernel);
    kernel.map_huge(&kernel.space(0), 4, true);
}

fn stores_to_both(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    for number in 0..8 {
        kernel.store(if number % 2 == 0 { 1 } else { 5 });
    }
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "F1-small-entries-under-a-huge-one",
        source: "FreeBSD, pmap promotion, a0f64f38a182",
        guards: &[(&[without(Guard::Mixed)], &[R1, R3])],
        before: both_sizes,
        programs: &[|kernel| kernel.unmap_both(&kernel.space(0), 1, 4), stores_to_both],
        ..PLAIN
    },
    Scenario {
        name: "F2-stride-of-the-wrong-size",
        source: "FreeBSD-EN-26:10.amd64",
        guards: &[(&[without(Guard::Mixed)], &[R1, R3])],
        before: both_sizes,
        programs: &[|kernel| kernel.unmap_both(&kernel.space(0), 1, 4), |kernel| stores_to(kernel, 6)],
        ..PLAIN
    },
    Scenario {
        name: "F3-split-with-other-rights",
        source: "Linux, ad5ca55f6bdb; AMD erratum 383",
        guards: &[(&[without(Guard::GatherFlush)], &[R7, R1])],
        before: one_huge_page,
        programs: &[|kernel| kernel.split(&kernel.space(0), 4), |kernel| stores_to(kernel, 5)],
        ..PLAIN
    },
    Scenario {
        name: "F4-contiguous-pages-unfolded",
        source: "Linux on Arm, contpte",
        guards: &[(&[without(Guard::Others)], &[R7, R1])],
        before: one_huge_page,
        programs: &[
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.split(&kernel.space(0), 4);
            },
            |kernel| stores_to(kernel, 7),
        ],
        ..PLAIN
    },
    Scenario {
        name: "F5-forced-flush-keeps-levels",
        source: "Linux, 7a30df49f63a",
        guards: &[(&[without(Guard::Tables)], &[R2])],
        before: one_page,
        programs: &[
            |kernel| kernel.unmap_with_table(&kernel.space(0), 0),
            rests,
            |kernel| kernel.discard(&kernel.space(0), 1),
        ],
        ..PLAIN
    },
    Scenario {
        name: "F6-every-level-reaches-devices",
        source: "Xen, XSA-366, 76d369d33179",
        guards: &[(&[without(Guard::Devices)], &[R1, R3])],
        devices: 1,
        before: |kernel| {
            one_huge_page(kernel);
            kernel.attach_device(&kernel.space(0));
        },
        programs: &[|kernel| kernel.unmap_huge(&kernel.space(0), 4), |kernel| device_stores_to(kernel, 6)],
        ..PLAIN
    },
    Scenario {
        name: "F7-range-over-two-tables",
        source: "XNU, reported by Project Zero, 2020",
        guards: &[(&[without(Guard::GatherFlush)], &[R1, R3])],
        before: |kernel| {
            let p = kernel.add_space();
            (2..6).for_each(|page| {
                kernel.map(&p, page, true);
            });
        },
        programs: &[|kernel| kernel.unmap(&kernel.space(0), 2..6), |kernel| stores_to(kernel, 5)],
        ..PLAIN
    },
    Scenario {
        name: "F8-range-that-is-flushed-whole",
        source: "book, the ceiling",
        guards: &[(&[without(Guard::Answers)], &[R1, R3])],
        before: |kernel| {
            let p = kernel.add_space();
            kernel.map(&p, 1, true);
            kernel.map(&p, 60, true);
        },
        programs: &[|kernel| kernel.unmap(&kernel.space(0), 1..61), stores],
        ..PLAIN
    },
];
