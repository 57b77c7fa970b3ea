//! Weakens the ordering of each atomic access of the engine by itself, and lists those that no scenario misses.
//!
//! `cargo run --profile checked -p ceasefire-adversary --example orderings [SCHEDULES]`: so many schedules of each
//! scenario that makes the access, 500 if it is not said.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ceasefire_adversary::{all, check, weakenings, Scenario, Verdict, Weakening};

fn main() -> ExitCode {
    let schedules = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 500,
        Some(Ok(schedules)) if schedules > 0 => schedules,
        Some(_) => {
            eprintln!("orderings: the number of schedules must be a whole number of at least 1");
            return ExitCode::from(2);
        }
    };
    let mut users: BTreeMap<(String, String), (Weakening, Vec<&'static Scenario>)> = BTreeMap::new();
    for scenario in all() {
        for weakening in weakenings(scenario) {
            let key = (weakening.site.to_string(), format!("{:?}", weakening.to));
            users.entry(key).or_insert_with(|| (weakening, Vec::new())).1.push(scenario);
        }
    }
    let users: Vec<_> = users.into_values().collect();
    let (next, survived) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((weakening, scenarios)) = users.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (line, caught) = tried(*weakening, scenarios, schedules);
                    println!("{line}");
                    survived.fetch_add(usize::from(!caught), Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} weakenings, {} survive {schedules} schedules", users.len(), survived.into_inner());
    ExitCode::SUCCESS
}

/// The first schedule that misses an ordering, in words; and whether there is one.
fn tried(weakening: Weakening, scenarios: &[&'static Scenario], schedules: u64) -> (String, bool) {
    // It lives as long as the program: there is one for each access.
    let removed = Box::leak(Box::new([weakening.removed()]));
    let broken =
        scenarios.iter().find_map(|scenario| match check(scenario, removed, 0, schedules, false).verdict {
            Verdict::Broken(found) => Some((scenario.name, found)),
            _ => None,
        });
    let Weakening { site, from, to } = weakening;
    match broken {
        Some((name, found)) => {
            (format!("{site} {from:?} -> {to:?}: {name}, seed {}, {}", found.seed, found.rule), true)
        }
        None => (format!("{site} {from:?} -> {to:?}: survives in {} scenarios", scenarios.len()), false),
    }
}
