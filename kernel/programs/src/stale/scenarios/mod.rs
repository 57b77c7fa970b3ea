//! The scenarios, one file for each idea. The scenarios for lazy debts share [`displace`], which takes pages away as
//! the kernel does on its own account.

mod alias;
mod discard;
mod displace;
mod drain;
mod fork;
mod free;
mod kernel_ranges;
mod migrate;
mod offline;
mod page_out;
mod protect;
mod reclaim;
mod remap;
mod replace;
mod rewrite;
mod sync;
mod truncate;
mod unmap;
mod write;

use super::scenario::Scenario;
use super::sizes::COUNT;

/// All scenarios, in the order in which they start.
pub(super) static SCENARIOS: [Scenario; COUNT] = [
    rewrite::REWRITE,
    alias::ALIAS,
    replace::REPLACE,
    protect::PROTECT,
    unmap::UNMAP,
    unmap::REUSE,
    remap::REMAP,
    discard::DISCARD,
    truncate::TRUNCATE,
    migrate::MIGRATE,
    fork::FORK,
    sync::SYNC,
    page_out::PAGE_OUT,
    free::FREE,
    write::WRITE,
    unmap::UNMAP_HUGE,
    remap::REMAP_TABLES,
    reclaim::RECLAIM,
    drain::DRAIN,
    kernel_ranges::KERNEL_UNMAP,
    kernel_ranges::KERNEL_PURGE,
    offline::OFFLINE,
];

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::stale::placement::readers;
    use crate::stale::scenario::Process;

    pub(in super::super) const MACHINE: Machine = Machine {
        cpus: 1,
        nodes: 1,
        frames: 10_000,
        seconds: 5,
        limit: 60,
        seed: 0,
        pinned: false,
        unchecked: false,
        pages: 0,
        threads: 0,
        swap: 0,
        scenarios: 0,
    };

    #[test]
    fn there_are_stacks_for_all_threads() {
        // A first thread for each process, a copy that `fork` makes, and the kernel's reclaimer.
        let others = Process::OTHERS.len() as u64 + 1 + 2;
        for threads in 0..=16 {
            let machine = Machine { threads, ..MACHINE };
            let used = COUNT as u64 * (1 + readers(&machine) as u64) + others;
            let stacks = ceasefire_kernel_abi::sizes::stacks(1, threads, true);
            assert!(used <= stacks, "{used} threads with {threads} readers, {stacks} stacks");
        }
    }

    #[test]
    fn the_names_are_those_of_the_options() {
        assert_eq!(SCENARIOS.each_ref().map(|scenario| scenario.name), ceasefire_kernel_abi::SCENARIOS);
    }

    #[test]
    fn some_readers_are_guests_where_there_are_any() {
        for scenario in &SCENARIOS {
            let guests = (1..=2).filter(|&slot| scenario.process_of(slot) == Process::Guest).count();
            assert_eq!(guests, usize::from(scenario.attach.is_some()), "{}", scenario.name);
        }
    }
}
