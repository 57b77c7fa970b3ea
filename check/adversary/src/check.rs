//! Searches a scenario: with its guard no rule may break, and without it the named one must.

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;
use std::sync::Once;

use crate::hardware::Broken;
use crate::rule::Rule;
use crate::scenario::{Outcome, Removed, Scenario};
use crate::schedule;

/// A schedule that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The seed of the schedule.
    pub seed: u64,
    /// The rule.
    pub rule: Rule,
    /// How it was broken.
    pub what: String,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No rule broke.
    Holds,
    /// A rule broke.
    Broken(Found),
    /// The schedule with this seed was run twice and had two histories.
    Diverged(u64),
}

/// A search, and how far it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The schedules that were tried.
    pub schedules: u64,
    /// The steps of all of them.
    pub steps: u64,
    /// The result.
    pub verdict: Verdict,
}

/// Tries `schedules` schedules of a scenario, from `seed` on, or fewer if a rule breaks. With `twice`, each is run twice
/// and compared.
pub fn check(
    scenario: &Scenario,
    removed: &'static [Removed],
    seed: u64,
    schedules: u64,
    twice: bool,
) -> Checked {
    let (first, broken) = runs(scenario, removed, seed, schedules);
    let steps = first.iter().map(|(steps, _)| u64::from(*steps)).sum();
    let tried = first.len() as u64;
    let second = if twice { runs(scenario, removed, seed, tried).0 } else { first.clone() };
    let differs = first.iter().zip(&second).position(|(first, second)| first != second);
    let verdict = match (differs, broken) {
        (Some(at), _) => Verdict::Diverged(seed + at as u64),
        (None, Some((seed, Broken { rule, what }))) => Verdict::Broken(Found { seed, rule, what }),
        (None, None) => Verdict::Holds,
    };
    Checked { schedules: tried, steps, verdict }
}

/// For each schedule, its steps and the digest of its history; and the broken rule that ended the search.
type Runs = (Vec<(u32, u64)>, Option<(u64, Broken)>);

fn runs(scenario: &Scenario, removed: &'static [Removed], seed: u64, schedules: u64) -> Runs {
    report_quietly();
    let runs = Rc::new(RefCell::new((Vec::new(), None)));
    let kept = Rc::clone(&runs);
    scenario.search(removed, false, seed..seed + schedules, move |outcome: Outcome| {
        let mut runs = kept.borrow_mut();
        runs.0.push((outcome.ran.steps, outcome.digest));
        runs.1 = outcome.broken.map(|broken| (outcome.ran.seed, broken));
        runs.1.is_none()
    });
    runs.take()
}

/// The history of the schedule with this seed, for people. The module `timeline` explains its columns.
pub fn history(scenario: &Scenario, removed: &'static [Removed], seed: u64) -> String {
    report_quietly();
    let text = Rc::new(RefCell::new(String::new()));
    let kept = Rc::clone(&text);
    scenario.search(removed, true, seed..seed + 1, move |outcome: Outcome| {
        *kept.borrow_mut() = outcome.timeline;
        true
    });
    text.take()
}

/// A program that fails in a run is a finding, and the history says so. It is not printed as a panic besides.
fn report_quietly() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        // The first run of shuttle sets a hook of its own, which prints two lines for each panic. Ours takes its place.
        schedule::each(0..1, || {}, |_| false);
        panic::set_hook(Box::new(move |panic| {
            if !schedule::is_running() {
                print(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ceasefire::sabotage::Guard;

    use super::*;
    use crate::promise::{Promise, PROMISES};
    use crate::scenarios::{all, random};

    /// The schedules within which a missing guard must be found.
    const MOST: u64 = 100_000;

    fn names(removed: &[Removed]) -> String {
        removed.iter().map(|removed| removed.name()).collect::<Vec<_>>().join("+")
    }

    #[test]
    fn every_scenario_holds_with_its_guards_and_every_run_repeats() {
        for scenario in all() {
            let checked = check(scenario, &[], 0, 300, true);
            assert_eq!(checked.verdict, Verdict::Holds, "{}", scenario.name);
        }
    }

    #[test]
    fn random_programs_break_no_rule() {
        for scenario in random() {
            // The memory manager takes ten times as many steps.
            let schedules = if scenario.manager.is_some() { 100 } else { 1000 };
            let checked = check(scenario, &[], 0, schedules, true);
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
