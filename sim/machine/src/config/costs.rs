//! The costs of all operations, in simulated time.

use serde::Serialize;

use super::quantity::{Parameter, Picoseconds, TIME};
use super::{MachineError, Problem};
use crate::document::Section;

/// One cost, for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The key in a machine file's `[costs]`.
    pub key: &'static str,
    /// The operation.
    pub meaning: &'static str,
    /// The cost.
    pub value: Picoseconds,
}

macro_rules! costs {
    ($($field:ident: $meaning:literal,)*) => {
        /// The cost of every operation. Each field is the `[costs]` key of the same name.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        pub struct Costs {
            $(#[doc = $meaning] pub $field: Picoseconds,)*
        }

        impl Costs {
            /// The key of every cost, in the order of the fields.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Every cost, in the order of the fields.
            pub fn all(&self) -> impl Iterator<Item = Cost> {
                [$(Cost { key: stringify!($field), meaning: $meaning, value: self.$field },)*].into_iter()
            }

            /// Reads `[costs]` and adds each to `sources`.
            pub(super) fn read(
                mut section: Section<'_>,
                sources: &mut Vec<Parameter>,
            ) -> Result<Self, MachineError> {
                let place = section.place().clone();
                let costs = Self { $($field: TIME.read(section.take(stringify!($field))?, sources)?,)* };
                section.finish()?;
                costs.check().map_err(|problem| place.error(problem))?;
                Ok(costs)
            }
        }
    };
}

costs! {
    access: "One load or store of a program that hits the first-level TLB, with the program's own work for it.",
    l2_hit: "The additional cost of an access whose translation only the second-level TLB holds.",
    walk_step: "One level of a page walk whose line is in a cache.",
    walk_memory: "One level of a page walk whose line comes from memory.",
    invalidate_page: "Invalidating one page in this CPU's TLB.",
    invalidate_asid: "Invalidating everything under one ASID in this CPU's TLB.",
    root_load: "Loading a page-table root without a flush.",
    interrupt_send: "Sending an interrupt, per target, at the sender.",
    interrupt_deliver: "An interrupt's travel to a target. The latency of the pair of CPUs is added.",
    interrupt_handle: "Entering and leaving the handler at the target.",
    broadcast_send: "Starting to invalidate some pages, or one ASID, in the TLBs of all CPUs (Arm's TLBI, AMD's INVLPGB).",
    broadcast_wait: "Waiting until all CPUs have made the invalidations that this one started (Arm's DSB ISH, AMD's TLBSYNC).",
    context_switch: "Switching from one thread to another, without the load of the root.",
    system_call: "Entering and leaving the kernel for a system call.",
    lock: "Acquiring and releasing a lock without contention.",
    fault: "Entering and leaving the kernel for a page fault, and finding the area of the address.",
    cache_find: "Looking up a page in the page cache.",
    cache_insert: "Adding a page to the page cache.",
    cache_remove: "Removing a page from the page cache.",
    frame_zero: "Zeroing a frame.",
    frame_allocate: "Taking a frame from this CPU's list.",
    frame_free: "Putting a frame on this CPU's list.",
    buddy: "Moving one frame between the buddy allocator and a CPU's list.",
    map: "Entering one translation in a page table.",
    unmap: "Clearing one translation from a page table.",
    protect: "Changing the rights of one translation in a page table.",
    rmap: "Visiting one mapping of a page through the reverse map.",
    lru_add: "Adding one page to an LRU list, or removing an unused one.",
    lru_isolate: "Taking one page off an LRU list for reclaim or migration.",
    lru_putback: "Putting one isolated page back on an LRU list.",
    reclaim_page: "The rest of reclaim's work for each page it scans: accounting, page state, cache misses.",
    migrate_page: "The rest of migration's work for each page, beside copy, map, unmap, reverse map, lists and frames.",
    table_allocate: "Allocating and clearing one page-table page.",
    write_out: "Submitting one page to be written out, or read, without the device's own time.",
    area_change: "Adding or removing one range of addresses of a process.",
    time_slice: "The time that a thread runs before another thread in its CPU's queue gets the CPU.",
}

impl Costs {
    /// The kernel's work may be free. But a time slice of 0 would switch threads for ever, and a program whose
    /// accesses take no time would never end.
    fn check(&self) -> Result<(), Problem> {
        for (key, cost) in [("time_slice", self.time_slice), ("access", self.access)] {
            if cost == 0 {
                return Err(Problem::invalid(format!("`{key}` of 0"), "more than 0 ps"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{parse, Entry};

    /// `[costs]` on line 1, then each cost on its own line: 1 ns, 2 ns and so on.
    fn lines() -> Vec<String> {
        let cost = |(index, key)| format!("{key} = {{ value = {}, unit = 'ns', source = 's' }}", index + 1);
        let costs = Costs::KEYS.iter().enumerate().map(cost);
        std::iter::once("[costs]".to_owned()).chain(costs).collect()
    }

    fn read(lines: &[String]) -> Result<(Costs, Vec<Parameter>), String> {
        let mut sources = Vec::new();
        let text = lines.join("\n");
        let section = parse("f", &text).and_then(|mut root| root.take("costs")).and_then(Entry::section);
        let costs = section.and_then(|section| Costs::read(section, &mut sources));
        costs.map(|costs| (costs, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_cost_is_read_under_its_own_key() {
        let (costs, sources) = read(&lines()).expect("valid");
        for (index, (cost, parameter)) in costs.all().zip(&sources).enumerate() {
            assert_eq!(cost.value, 1000 * (index as Picoseconds + 1));
            assert_eq!(parameter.key, format!("costs.{}", cost.key));
            assert!(!cost.meaning.is_empty());
        }
        assert_eq!((costs.access, costs.l2_hit), (1000, 2000));
        assert_eq!(sources.len(), Costs::KEYS.len());
    }

    #[test]
    fn a_missing_cost_is_refused() {
        for (index, key) in Costs::KEYS.iter().enumerate() {
            let mut lines = lines();
            lines.remove(index + 1);
            assert_eq!(read(&lines).expect_err("must be refused"), format!("f:1: costs.{key}: missing"));
        }
    }

    #[test]
    fn bad_costs_are_refused() {
        for (line, expected) in [
            (
                "access = { value = -3, unit = 'ns', source = 's' }",
                "f:2: costs.access.value: -3 ns: must be 0 to 1000 ms",
            ),
            ("access = { value = 3, unit = 'ns' }", "f:2: costs.access.source: missing"),
            ("access = 3", "f:2: costs.access: expected a table, found a whole number"),
        ] {
            let mut lines = lines();
            lines[1] = line.to_owned();
            assert_eq!(read(&lines).expect_err("must be refused"), expected);
        }
    }

    #[test]
    fn an_unknown_cost_is_refused() {
        let mut lines = lines();
        lines.push("teleport = { value = 3, unit = 'ns', source = 's' }".to_owned());
        let expected = format!("f:{}: costs.teleport: unknown key", lines.len());
        assert_eq!(read(&lines).expect_err("must be refused"), expected);
    }

    #[test]
    fn a_cost_of_0_that_would_never_let_a_run_end_is_refused() {
        for key in ["time_slice", "access"] {
            let mut lines = lines();
            let place = lines.iter().position(|line| line.starts_with(key)).expect("a cost");
            lines[place] = format!("{key} = {{ value = 0, unit = 'ms', source = 's' }}");
            let expected = format!("f:1: costs: `{key}` of 0: must be more than 0 ps");
            assert_eq!(read(&lines).expect_err("must be refused"), expected);
        }
    }
}
