//! H. The side that fills entries.

use ceasefire::sabotage::Guard;

use super::programs::{breaking, one_page, stores, unmaps, without};
use crate::model::promise::Promise;
use crate::model::rule::Rule::{Ends, R1, R2, R3, R7};
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::tables::HUGE_PAGES;

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "H4-walk-that-outlives-the-flush",
        source: "Linux on csky, 3b756ccddb8a",
        guards: &[(&[breaking(Promise::WalksEnd)], &[R1, R2, R3])],
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "H5-refill-before-the-old-entry-is-gone",
        source: "Linux on powerpc, a741e6796957",
        guards: &[(&[without(Guard::UnlockFlush)], &[R7, R3])],
        before: one_page,
        programs: &[
            |kernel| kernel.discard(&kernel.space(0), 1),
            stores,
            |kernel| kernel.fault(&kernel.space(0), 1),
        ],
        ..PLAIN
    },
    Scenario {
        name: "H6-interrupt-that-carries-nothing",
        source: "contract, Platform::interrupt",
        guards: &[(&[breaking(Promise::InterruptCarries), breaking(Promise::Consistent)], &[R1, R3, Ends])],
        before: one_page,
        programs: &[unmaps, stores],
        ..PLAIN
    },
    Scenario {
        name: "H7-store-that-others-see-first",
        source: "C++20, [atomics.order]; engine, AtomicGeneration::raise",
        guards: &[(&[breaking(Promise::MultiCopyAtomic)], &[R1, R2, R3])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[|kernel| kernel.unmap_with_table(&kernel.space(0), 0), stores],
        ..PLAIN
    },
    Scenario {
        name: "H8-root-without-a-barrier",
        source: "contract, Platform::load_root",
        guards: &[(&[breaking(Promise::RootBarrier)], &[R1, R2, R3])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[|kernel| kernel.unmap_with_table(&kernel.space(0), 0), stores],
        ..PLAIN
    },
    Scenario {
        name: "H9-walk-that-overtakes-the-way",
        source: "Linux, the comment in pmd_install",
        guards: &[(&[breaking(Promise::WalksFollow)], &[R1, R3])],
        before: |kernel| {
            let spaces = [kernel.add_space(), kernel.add_space()];
            kernel.map(&spaces[0], 0, true);
            kernel.map(&spaces[1], HUGE_PAGES, true);
        },
        programs: &[
            // The other space's table is made in the frame of this one's.
            |kernel| {
                kernel.unmap_with_table(&kernel.space(0), 0);
                let other = kernel.space(1);
                let shared = kernel.peek(&other, HUGE_PAGES).frame();
                kernel.map_frame(&other, 1, shared, true);
            },
            |kernel| {
                kernel.run(&kernel.space(1));
                for _ in 0..8 {
                    kernel.load(0);
                }
                kernel.leave();
            },
        ],
        ..PLAIN
    },
];
