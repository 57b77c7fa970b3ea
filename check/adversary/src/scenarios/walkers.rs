//! C, continued: page tables that are freed under the kernel's own walks, by each transport.
//!
//! A walk by code keeps interrupts off, or its platform can wait for it. So an interrupt that is answered ends it, and a
//! flush that interrupts no CPU does not: one that is broadcast, or that a hypervisor does.

use ceasefire::sabotage::Guard;
use ceasefire::Walkers;

use super::programs::{breaking, kernel_page, one_page, runs_and_walks, unmaps_table, walks, without};
use crate::model::promise::Promise;
use crate::model::rule::Rule::R2;
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::kernel::Kernel;

fn collapses(kernel: &Kernel) {
    kernel.collapse(&kernel.space(0), 0);
}

/// Two spaces with one table.
fn shared_table(kernel: &Kernel) {
    one_page(kernel);
    let q = kernel.add_space();
    kernel.share_table(&kernel.space(0), &q, 0);
}

fn unshares(kernel: &Kernel) {
    kernel.unshare(&kernel.space(0), 0);
    kernel.raise(0);
}

/// The last space that uses the table unmaps it.
fn unmaps_shared(kernel: &Kernel) {
    kernel.wait_for(0);
    kernel.unmap_with_table(&kernel.space(1), 0);
}

/// One page of a space that mostly has a global ASID by then.
fn page_with_an_asid(kernel: &Kernel) {
    one_page(kernel);
    for _ in 0..4 {
        kernel.map(&kernel.space(0), 2, true);
        kernel.unmap(&kernel.space(0), 2..3);
    }
}

const WALKS: Scenario = Scenario {
    source: "Linux, 2ba99c5e0881 (tlb_remove_table_sync_one)",
    guards: &[(&[without(Guard::Walkers)], &[R2])],
    before: one_page,
    programs: &[unmaps_table, runs_and_walks],
    walkers: Walkers::Own,
    ..PLAIN
};

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario { name: "C4b-walk-elsewhere", programs: &[unmaps_table, walks], walkers: Walkers::Any, ..WALKS },
    Scenario {
        name: "C4c-walk-elsewhere-and-an-unshared-table",
        before: shared_table,
        programs: &[unshares, walks, unmaps_shared],
        walkers: Walkers::Any,
        ..WALKS
    },
    Scenario {
        name: "C4d-broadcast-collapse-and-a-walk",
        carried: Carried::Broadcasts,
        programs: &[collapses, runs_and_walks],
        ..WALKS
    },
    Scenario {
        name: "C4e-broadcast-munmap-and-a-walk-elsewhere",
        carried: Carried::Broadcasts,
        programs: &[unmaps_table, walks],
        walkers: Walkers::Any,
        ..WALKS
    },
    Scenario {
        name: "C4f-broadcast-unshare-and-a-walk",
        carried: Carried::Broadcasts,
        before: shared_table,
        programs: &[unshares, runs_and_walks, unmaps_shared],
        ..WALKS
    },
    Scenario {
        name: "C4g-global-asid-and-a-walk",
        carried: Carried::Both,
        before: page_with_an_asid,
        ..WALKS
    },
    Scenario {
        name: "C4h-global-asid-collapse-and-a-walk-elsewhere",
        carried: Carried::Both,
        before: page_with_an_asid,
        programs: &[collapses, walks],
        walkers: Walkers::Any,
        ..WALKS
    },
    Scenario { name: "C4i-hypervisor-and-a-walk", elsewhere: true, ..WALKS },
    Scenario {
        name: "C4j-hypervisor-and-a-walk-elsewhere",
        elsewhere: true,
        programs: &[collapses, walks],
        walkers: Walkers::Any,
        ..WALKS
    },
    Scenario {
        name: "C4k-walk-that-is-awaited",
        guards: &[(&[without(Guard::Walkers)], &[R2]), (&[breaking(Promise::WalkersEnd)], &[R2])],
        walkers: Walkers::Awaited,
        ..WALKS
    },
    Scenario {
        name: "C4l-broadcast-and-a-walk-that-is-awaited",
        carried: Carried::Broadcasts,
        programs: &[collapses, walks],
        walkers: Walkers::Awaited,
        ..WALKS
    },
    Scenario {
        name: "C4n-hypervisor-and-a-walk-that-is-awaited",
        elsewhere: true,
        programs: &[collapses, walks],
        walkers: Walkers::Awaited,
        ..WALKS
    },
    Scenario {
        name: "C4m-kernel-table-and-a-walk",
        carried: Carried::Broadcasts,
        before: kernel_page,
        programs: &[
            |kernel| kernel.unmap_kernel(1, true),
            |kernel| (0..6).for_each(|_| kernel.walk_kernel(1)),
        ],
        walkers: Walkers::Any,
        ..WALKS
    },
];
