//! Searches a scenario: with its guard no rule may break, and without it the named one must.

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;
use std::sync::Once;

use super::play::Outcome;
use super::scenario::Scenario;
use crate::hardware::Broken;
use crate::model::removed::Removed;
use crate::model::rule::Rule;
use crate::model::schedule;

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
