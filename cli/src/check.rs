//! `ceasefire check`: the known TLB bugs, each with its guards and without.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ceasefire_adversary::{all, check, history, random, Checked, Found, Removed, Rule, Scenario, Verdict};

use crate::args::CheckArguments;
use crate::failure::{unknown, Done, Failure};
use crate::stdout::print;
use crate::tables::grid::{Column, Grid};
use crate::terminal;

/// The schedules within which a rule must break without its guard.
const MOST: u64 = 100_000;

pub(crate) fn run(arguments: &CheckArguments) -> Done {
    let jobs =
        arguments.jobs.map_or_else(|| thread::available_parallelism().map_or(1, Into::into), usize::from);
    if let Some(schedules) = arguments.random {
        return random_programs(arguments.seed.unwrap_or(0), schedules, jobs);
    }
    let scenarios = chosen(&arguments.scenarios)?;
    if let Some(name) = &arguments.without {
        return without(&scenarios, name, arguments.seed);
    }
    if let Some(seed) = arguments.seed {
        return show(&scenarios, None, seed);
    }
    let results = in_parallel(&scenarios, jobs, |scenario| Result::of(scenario, arguments.schedules));
    let mut grid = Grid::new(&[
        Column::words("scenario", 0),
        Column::words("guarded", 0),
        Column::numbers("schedules", 0),
        Column::words("without", 0),
        Column::words("breaks", 0),
        Column::numbers("after", 0),
    ]);
    let mut wrong = Vec::new();
    for (scenario, result) in scenarios.iter().zip(&results) {
        result.add_to(&mut grid, scenario);
        wrong.extend(result.wrong(scenario));
    }
    let tried: u64 = results.iter().map(|result| result.guarded.schedules).sum();
    let last = format!("{} scenarios, {tried} schedules with all guards, each run twice\n", scenarios.len());
    let printed = print(&(grid.text(terminal::width()) + &last));
    Failure::both(printed, if wrong.is_empty() { Ok(()) } else { Err(Failure::Checked(wrong)) })
}

/// The scenarios whose names begin like one of `names`, or all.
fn chosen(names: &[String]) -> std::result::Result<Vec<&'static Scenario>, Failure> {
    let every = || all().chain(random());
    for name in names {
        if !every().any(|scenario| begins(scenario, name)) {
            let known: Vec<&str> = all().map(|scenario| scenario.name).collect();
            return Err(unknown("scenario", name, &known, &[]));
        }
    }
    let chosen = |scenario: &&Scenario| names.iter().any(|name| begins(scenario, name));
    Ok(if names.is_empty() { all().collect() } else { every().filter(chosen).collect() })
}

/// Whether a name stands for a scenario: its whole name, or the part before a hyphen.
fn begins(scenario: &Scenario, name: &str) -> bool {
    scenario.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Runs `body` for each task on several threads, and returns the results in the order of the tasks.
fn in_parallel<T: Copy + Sync, R: Send>(tasks: &[T], jobs: usize, body: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs.min(tasks.len()) {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&task) = tasks.get(at) else { return };
                let result = body(task);
                done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The schedules of one task of a search: enough to keep a processor busy, and few enough to stop soon.
const PART: u64 = 5000;

/// The schedules by which [`shares`] compares machines.
const TRIAL: u64 = 16;

/// How many of `schedules` each machine gets: as many as give every machine about the same number of steps.
/// A schedule of the memory manager has forty times the steps of a schedule of the engine alone.
fn shares(machines: &'static [Scenario], first: u64, schedules: u64, jobs: usize) -> Vec<u64> {
    let numbers: Vec<usize> = (0..machines.len()).collect();
    let trials = in_parallel(&numbers, jobs, |at| check(&machines[at], &[], first, TRIAL, false));
    let rates: Vec<f64> = trials.iter().map(|trial| 1.0 / trial.steps.max(1) as f64).collect();
    let all: f64 = rates.iter().sum();
    rates.iter().map(|rate| (schedules as f64 * rate / all).ceil() as u64).collect()
}

/// Tries random operations on each machine in turn, from `first` on.
fn random_programs(first: u64, schedules: u64, jobs: usize) -> Done {
    let machines = random();
    let shares = shares(machines, first, schedules, jobs);
    let parts = |machine: usize| {
        let share = shares[machine];
        (0..share).step_by(PART as usize).map(move |from| (machine, from, PART.min(share - from)))
    };
    let tasks: Vec<(usize, u64, u64)> = (0..machines.len()).flat_map(parts).collect();
    let broken = AtomicBool::new(false);
    let results = in_parallel(&tasks, jobs, |(machine, from, count)| {
        if broken.load(Ordering::Relaxed) {
            return None;
        }
        let checked = check(&machines[machine], &[], first.wrapping_add(from), count, false);
        broken.fetch_or(checked.verdict != Verdict::Holds, Ordering::Relaxed);
        Some((machine, checked))
    });
    let mut grid = Grid::new(&[
        Column::words("machine", 0),
        Column::words("guarded", 0),
        Column::numbers("schedules", 0),
        Column::numbers("steps", 0),
    ]);
    let mut wrong = Vec::new();
    for (number, machine) in machines.iter().enumerate() {
        let of_this =
            || results.iter().flatten().filter(|(other, _)| *other == number).map(|(_, checked)| checked);
        let total = |count: fn(&Checked) -> u64| of_this().map(count).sum::<u64>().to_string();
        let found = of_this().find(|checked| checked.verdict != Verdict::Holds);
        let end = found.map_or(Verdict::Holds, |checked| checked.verdict.clone());
        grid.row([
            machine.name.to_owned(),
            verdict(&end),
            total(|checked| checked.schedules),
            total(|checked| checked.steps),
        ]);
        if let Verdict::Broken(Found { seed, rule, what }) = end {
            let repeat = repeat(machine, &[], seed);
            wrong.push(format!("{}: {rule}: {what}; repeat it: {repeat}", machine.name));
        }
    }
    let printed = print(&grid.text(terminal::width()));
    Failure::both(printed, if wrong.is_empty() { Ok(()) } else { Err(Failure::Checked(wrong)) })
}

/// What was taken away, and the rules of which one must break.
type Guarded = (&'static [Removed], &'static [Rule]);

/// The results of one scenario.
struct Result {
    guarded: Checked,
    without: Vec<(Guarded, Checked)>,
}

impl Result {
    fn of(scenario: &'static Scenario, schedules: u64) -> Self {
        let without = |&guarded: &Guarded| (guarded, check(scenario, guarded.0, 0, MOST, false));
        Self {
            guarded: check(scenario, &[], 0, schedules, true),
            without: scenario.guards.iter().map(without).collect(),
        }
    }

    fn add_to(&self, grid: &mut Grid, scenario: &Scenario) {
        let mut first =
            [scenario.name.to_owned(), verdict(&self.guarded.verdict), self.guarded.schedules.to_string()];
        for ((removed, _), checked) in &self.without {
            let breaks = verdict(&checked.verdict);
            let rest = [names(removed), breaks, checked.schedules.to_string()];
            grid.row(std::mem::take(&mut first).into_iter().chain(rest));
        }
    }

    /// What did not end as it must, each with the command that repeats it.
    fn wrong(&self, scenario: &Scenario) -> Vec<String> {
        let name = scenario.name;
        let mut lines = Vec::new();
        match &self.guarded.verdict {
            Verdict::Holds => {}
            Verdict::Broken(Found { seed, rule, what }) => {
                lines
                    .push(format!("{name}: {rule}: {what}; repeat it: ceasefire check {name} --seed {seed}"));
            }
            Verdict::Diverged(seed) => {
                lines.push(format!(
                    "{name}: seed {seed} has two histories: ceasefire check {name} --seed {seed}"
                ));
            }
        }
        for ((removed, rules), checked) in &self.without {
            match &checked.verdict {
                Verdict::Broken(found) if rules.contains(&found.rule) => {}
                Verdict::Broken(Found { seed, rule, .. }) => lines.push(format!(
                    "{name}: {rule} breaks without {names}, not one of {rules:?}: {repeat}",
                    names = names(removed),
                    repeat = repeat(scenario, removed, *seed)
                )),
                other => lines.push(format!(
                    "{name}: {} without {} in {} schedules",
                    verdict(other),
                    names(removed),
                    checked.schedules
                )),
            }
        }
        lines
    }
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds => "holds".to_owned(),
        Verdict::Broken(found) => found.rule.to_string(),
        Verdict::Diverged(_) => "differs".to_owned(),
    }
}

/// The names of what was taken away, as `--without` takes them.
fn names(removed: &[Removed]) -> String {
    removed.iter().map(|one| one.name()).collect::<Vec<_>>().join("+")
}

/// The command that repeats a schedule.
fn repeat(scenario: &Scenario, removed: &[Removed], seed: u64) -> String {
    let without = if removed.is_empty() { String::new() } else { format!(" --without {}", names(removed)) };
    format!("ceasefire check {}{without} --seed {seed}", scenario.name)
}

/// Shows for each scenario with a guard of this name how a rule breaks without it.
fn without(scenarios: &[&'static Scenario], name: &str, seed: Option<u64>) -> Done {
    let known: BTreeSet<String> =
        all().flat_map(|scenario| scenario.guards).map(|(removed, _)| names(removed)).collect();
    if !known.contains(name) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(unknown("guard", name, &known, &[]));
    }
    let named = |(removed, _): &&Guarded| names(removed) == name;
    let mut any = false;
    for scenario in scenarios {
        let Some((removed, _)) = scenario.guards.iter().find(named) else { continue };
        any = true;
        let seed = match seed {
            Some(seed) => seed,
            None => match check(scenario, removed, 0, MOST, false).verdict {
                Verdict::Broken(found) => found.seed,
                _ => return Err(Failure::Checked(vec![format!("{}: holds without {name}", scenario.name)])),
            },
        };
        show(&[scenario], Some(removed), seed)?;
    }
    if any {
        Ok(())
    } else {
        Err(Failure::input(format!(
            "no scenario that is named has the guard '{name}': name none to see all that have"
        )))
    }
}

/// Prints the history of one schedule of each scenario.
fn show(scenarios: &[&'static Scenario], removed: Option<&'static [Removed]>, seed: u64) -> Done {
    let removed = removed.unwrap_or(&[]);
    for scenario in scenarios {
        let found = check(scenario, removed, seed, 1, false).verdict;
        let end = match &found {
            Verdict::Broken(Found { rule, .. }) => format!("{rule} is broken: {}", rule.words()),
            _ => "no rule is broken".to_owned(),
        };
        let without = if removed.is_empty() { String::new() } else { format!(" without {}", names(removed)) };
        let text = format!(
            "{}{without} ({})\n\n{}\n{end}\n{}\n\n",
            scenario.name,
            scenario.source,
            history(scenario, removed, seed),
            repeat(scenario, removed, seed),
        );
        print(&text)?;
        if let (Verdict::Broken(found), true) = (found, removed.is_empty()) {
            return Err(Failure::Checked(vec![format!("{}: {}: {}", scenario.name, found.rule, found.what)]));
        }
    }
    Ok(())
}
