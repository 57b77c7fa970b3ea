//! The CPUs of a scenario's threads.

use ceasefire_kernel_abi::ANYWHERE;

use super::mark::SLOTS;
use super::sizes::COUNT;
use crate::machine::Machine;

/// The operator's slot. Readers follow.
pub(super) const OPERATOR: usize = 0;
/// In a scenario with guests, every reader whose slot is a multiple of this is one.
pub(super) const GUEST: usize = 2;

/// Readers of a scenario, unless the options give another number. More readers find less: few host CPUs emulate the
/// machine's, and an operator that waits for all readers between two operations then makes fewer of them.
const READERS: usize = 2;

/// How many readers each scenario has.
pub(super) fn readers(machine: &Machine) -> usize {
    let most = SLOTS - 1;
    if machine.threads == 0 {
        READERS
    } else {
        machine.threads.min(most as u64) as usize
    }
}

/// The CPU of a thread. No reader shares its operator's CPU, except a last one that runs where the scheduler puts it.
/// That one tests switches to a program that changed meanwhile.
pub(super) fn cpu(scenario: usize, slot: usize, machine: &Machine) -> u64 {
    let (cpus, readers) = (machine.cpus, readers(machine) as u64);
    // Spread out where there are more CPUs than scenarios.
    let stride = (cpus / COUNT as u64).max(1);
    let operator = scenario as u64 * stride % cpus;
    if slot == OPERATOR || cpus == 1 {
        return operator;
    }
    let before = slot as u64 - 1;
    if before > 0 && before + 1 == readers && !machine.pinned {
        return ANYWHERE;
    }
    (operator + 1 + before * (cpus - 1) / readers) % cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: u64, threads: u64, pinned: bool) -> Machine {
        let (nodes, frames, seconds, limit, seed, pages, swap, scenarios) = (1, 10_000, 5, 60, 0, 0, 0, 0);
        let unchecked = false;
        Machine {
            cpus,
            nodes,
            frames,
            seconds,
            limit,
            seed,
            pinned,
            unchecked,
            pages,
            threads,
            swap,
            scenarios,
        }
    }

    #[test]
    fn readers_are_where_their_operator_is_not() {
        for (cpus, threads) in [(2, 0), (3, 0), (4, 1), (8, 16), (48, 0), (64, 99)] {
            for pinned in [false, true] {
                let machine = machine(cpus, threads, pinned);
                for scenario in 0..COUNT {
                    let operator = cpu(scenario, OPERATOR, &machine);
                    for slot in 1..=readers(&machine) {
                        let reader = cpu(scenario, slot, &machine);
                        assert_ne!(reader, operator, "{cpus} CPUs, {threads} threads, slot {slot}");
                        assert!(reader < cpus || (reader == ANYWHERE && !pinned && slot > 1));
                    }
                }
            }
        }
    }

    #[test]
    fn readers_are_spread_over_the_cpus() {
        for cpus in 2..=64 {
            let machine = machine(cpus, 0, false);
            let on = |at| {
                let here = (0..COUNT).filter(|&scenario| {
                    (1..=readers(&machine)).any(|slot| cpu(scenario, slot, &machine) == at)
                });
                here.count() as u64
            };
            let (fewest, most) = (0..cpus).map(on).fold((99, 0), |(few, many), n| (n.min(few), n.max(many)));
            let scenarios = COUNT as u64;
            assert!(most <= scenarios.div_ceil(cpus), "{most} on one of {cpus} CPUs");
            assert!(fewest >= scenarios / cpus, "{fewest} on one of {cpus} CPUs");
        }
    }
}
