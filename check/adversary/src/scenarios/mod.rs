//! The scenarios, in the order of the record of bugs: one file for each of its chapters.
//!
//! A scenario's name begins with the letter and the number of its entry in the record. Chapter O is about orderings, and
//! has no entries there.

mod cores;
mod deferred;
mod devices;
mod errata;
mod fills;
mod frames;
mod holes;
mod memory;
mod memory_random;
mod programs;
mod random;
mod ranges;
mod rights;
mod tables;
mod tags;
mod targets;
mod walkers;

use crate::search::scenario::Scenario;

/// All scenarios.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let chapters = [
        frames::SCENARIOS,
        deferred::SCENARIOS,
        tables::SCENARIOS,
        walkers::SCENARIOS,
        targets::SCENARIOS,
        tags::SCENARIOS,
        ranges::SCENARIOS,
        rights::SCENARIOS,
        fills::SCENARIOS,
        devices::SCENARIOS,
        errata::SCENARIOS,
        holes::SCENARIOS,
        memory::SCENARIOS,
        cores::SCENARIOS,
    ];
    chapters.into_iter().flatten()
}

/// Programs of random operations, each on another machine.
pub fn random() -> &'static [Scenario] {
    random::SCENARIOS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ceasefire::sabotage::Guard;
    use ceasefire_testing::cases;

    use super::*;
    use crate::model::promise::{Promise, PROMISES};
    use crate::model::removed::Removed;
    use crate::search::check::{check, history, Verdict};

    /// The schedules within which a missing guard must be found.
    const MOST: u64 = 100_000;

    fn names(removed: &[Removed]) -> String {
        removed.iter().map(|removed| removed.name()).collect::<Vec<_>>().join("+")
    }

    #[test]
    fn every_scenario_holds_with_its_guards_and_every_run_repeats() {
        for scenario in all() {
            let checked = check(scenario, &[], 0, cases(300).into(), true);
            assert_eq!(checked.verdict, Verdict::Holds, "{}", scenario.name);
        }
    }

    #[test]
    fn random_programs_break_no_rule() {
        for scenario in random() {
            // The memory manager takes ten times as many steps.
            let schedules = cases(if scenario.manager.is_some() { 100 } else { 1000 });
            let checked = check(scenario, &[], 0, schedules.into(), true);
            assert_eq!(checked.verdict, Verdict::Holds, "{}", scenario.name);
        }
    }

    #[test]
    fn without_a_guard_the_named_rule_breaks() {
        for scenario in all() {
            for (removed, rules) in scenario.guards {
                let checked = check(scenario, removed, 0, MOST, false);
                let without = format!("{} without {}", scenario.name, names(removed));
                let Verdict::Broken(found) = checked.verdict else {
                    panic!("{without}: {:?} after {} schedules", checked.verdict, checked.schedules);
                };
                assert!(rules.contains(&found.rule), "{without}: {found:?}");
            }
        }
    }

    #[test]
    fn every_guard_and_every_promise_has_a_scenario_that_misses_it_alone() {
        let alone = all().flat_map(|scenario| scenario.guards).filter(|(removed, _)| removed.len() == 1);
        let missed: BTreeSet<String> = alone.map(|(removed, _)| names(removed)).collect();
        // The requests themselves carry what the sender stored, as long as accesses are consistent.
        let carried = Promise::InterruptCarries;
        let promises = PROMISES.into_iter().filter(|promise| *promise != carried).map(Removed::Promise);
        let managers = ceasefire_memory::sabotage::Guard::ALL.into_iter().map(Removed::Manager);
        for removed in Guard::ALL.into_iter().map(Removed::Guard).chain(managers).chain(promises) {
            assert!(missed.contains(&removed.name()), "{} has no scenario", removed.name());
        }
        let other = [Removed::Promise(carried), Removed::Promise(Promise::Consistent)];
        assert!(all().any(|scenario| scenario.guards.iter().any(|(removed, _)| *removed == other)));
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn a_history_shows_the_broken_rule_in_the_column_of_its_cpu() {
        let scenario = all().find(|scenario| scenario.name.starts_with("A3")).expect("it is there");
        let (removed, _) = scenario.guards[0];
        let Verdict::Broken(found) = check(scenario, removed, 0, MOST, false).verdict else {
            panic!("A3 holds without {}", names(removed));
        };
        let history = history(scenario, removed, found.seed);
        assert!(
            history.starts_with("  step  CPU 0 ") && history.contains("> munmap pages 1..2"),
            "{history}"
        );
        let last = history.lines().last().expect("there are events");
        assert!(last.contains(&format!("!! R1: {}", found.what)), "{history}");
    }
}
