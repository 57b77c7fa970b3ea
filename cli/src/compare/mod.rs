//! `ceasefire compare`: plans the runs, makes them, and shows what came of them.

mod files;
mod names;
mod progress;

use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use ceasefire_experiments::{
    compare, Experiment, Mechanism, Plan, Report, RunError, Schedule, Settle, Sweep, EXPERIMENTS,
};
use ceasefire_machine::config::{builtin, Machine, BUILTIN};
use serde::Serialize;

use crate::args::CompareArguments;
use crate::failure::{complain, Failure};
use crate::results::summary;
use crate::{html, tables as table};
use crate::{print, Done};
use progress::Progress;

/// What `--json` writes.
#[derive(Serialize)]
struct Results<'a> {
    /// The version that made them.
    ceasefire: &'static str,
    results: &'a [Report],
}

pub(crate) fn run(arguments: &CompareArguments) -> Done {
    let Selection { plans, skipped } = select(arguments)?;
    let output = Output {
        json: arguments.json.as_deref().map(open_json).transpose()?,
        html: arguments.html.as_deref().map(open_html).transpose()?,
    };
    let mut warnings: Vec<&String> = plans.iter().flat_map(|plan| &plan.machine.warnings).collect();
    warnings.dedup();
    for line in warnings {
        complain(line);
    }
    for line in skipped {
        complain(&format!("skipped: {line}"));
    }
    let Runs { plans, mut reports, failed } = run_all(plans, arguments.jobs);
    if reports.is_empty() {
        return failed;
    }
    compare(&mut reports);
    let written = output.write(&plans, &reports);
    // That a rule was broken matters more than that a run failed, or that the output was not read to its end.
    Failure::both(sound(&reports), Failure::both(failed, written))
}

/// Whether no rule was broken and no load was wrong.
fn sound(reports: &[Report]) -> Done {
    let rules = reports.iter().map(|report| report.violations).sum();
    let loads = reports.iter().map(|report| report.loads_wrong).sum();
    if (rules, loads) == (0, 0) {
        return Ok(());
    }
    let run = |report: &Report| format!("{} {} {}", report.experiment, report.machine, report.mechanism);
    let broken = reports.iter().flat_map(|report| {
        let run = run(report);
        report.broken.iter().map(move |line| format!("{run}: {line}"))
    });
    let wrong = reports.iter().filter(|report| report.loads_wrong > 0).map(|report| {
        format!(
            "{}: {} of {} loads compared were wrong",
            run(report),
            report.loads_wrong,
            report.loads_compared
        )
    });
    Err(Failure::Broken { rules, loads, lines: broken.take(8).chain(wrong).collect() })
}

/// Where results go beside or instead of standard output.
struct Output {
    json: Option<Json>,
    html: Option<Named>,
}

impl Output {
    /// Writes each, though another could not be written: the runs may have taken hours.
    fn write(self, plans: &[Plan], reports: &[Report]) -> Done {
        let rows = summary::rows(plans, reports);
        let page =
            self.html.map_or(Ok(()), |page| page.write(&html::of(&command_line(), plans, reports, &rows)));
        let tables = || print(&format!("{}{}", table::of(plans, reports), summary::text(&rows)));
        let json = || json_of(reports);
        let rest = match self.json {
            Some(Json::Printed) => json().and_then(|text| print(&text)),
            Some(Json::File(file)) => Failure::both(json().and_then(|text| file.write(&text)), tables()),
            None => tables(),
        };
        Failure::both(page, rest)
    }
}

/// The command line as it could be typed into a shell again.
fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,=:+@%".contains(c);
    let quoted = |word: OsString| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = !word.is_empty() && word.chars().all(plain);
        if is_plain {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = env::args_os().skip(1).map(quoted);
    std::iter::once("ceasefire".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The runs that the command line asks for.
struct Selection {
    plans: Vec<Plan>,
    /// What it did not name and what cannot run as it says: a line each, with the bound.
    skipped: Vec<String>,
}

/// Every run that the command line asks for, each checked before the first begins.
fn select(arguments: &CompareArguments) -> Result<Selection, Failure> {
    files::distinct(arguments, arguments.machine.as_deref().and_then(machine_file))?;
    if arguments.trace.as_deref() == Some(Path::new("-")) {
        return Err(Failure::input("--trace writes to a file, not to standard output"));
    }
    let experiments: Vec<&'static Experiment> = if arguments.experiments.is_empty() {
        EXPERIMENTS.iter().filter(|experiment| experiment.by_default).collect()
    } else {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        let find =
            |name: &String| Experiment::find(name).ok_or_else(|| names::unknown("experiment", name, &known));
        once(arguments.experiments.iter().map(find).collect::<Result<_, _>>()?, |a, b| a.name == b.name)
    };
    let known = Mechanism::ALL.map(Mechanism::name);
    let find =
        |name: &String| name.parse::<Mechanism>().map_err(|_| names::unknown("mechanism", name, &known));
    let chosen: Vec<Mechanism> =
        once(arguments.mechanism.iter().map(find).collect::<Result<_, _>>()?, PartialEq::eq);
    let named = !arguments.experiments.is_empty();
    let (mut plans, mut skipped) = (Vec::new(), Vec::new());
    for experiment in experiments {
        let machines: Vec<Machine> = match &arguments.machine {
            Some(name) => vec![machine(name)?],
            None => experiment.machines.iter().map(|name| machine(name)).collect::<Result<_, _>>()?,
        };
        let mechanisms = if chosen.is_empty() { experiment.mechanisms } else { &chosen };
        for machine in machines {
            let machine = match arguments.cpus {
                Some(count) => machine.with_cpus(count).map_err(Failure::input)?,
                None => machine,
            };
            let mut plan = Plan {
                experiment,
                machine,
                mechanism: experiment.baseline(),
                settle: arguments.settle.map_or(Settle::Free, Into::into),
                threads: None,
                lru_drain: None,
                scale: arguments.scale.unwrap_or(experiment.scale),
                seed: arguments.seed,
                oracle: !arguments.no_oracle,
                trace: arguments.trace.clone(),
            };
            if arguments.scale.is_none() {
                plan.scale = plan.scale.max(plan.least_scale()).min(1.0);
            }
            for plan in variants(&plan, mechanisms, arguments) {
                match plan.check() {
                    Ok(()) => plans.push(plan),
                    Err(error) => {
                        let line = format!("{} on {}: {error}", experiment.name, plan.machine.name);
                        if named || !error.is_bound_of_experiment() {
                            return Err(Failure::Input(line));
                        }
                        if !skipped.contains(&line) {
                            skipped.push(line);
                        }
                    }
                }
            }
        }
    }
    if plans.is_empty() {
        return Err(Failure::Input(format!("no experiment can run: {}", skipped.join("; "))));
    }
    if arguments.settle.is_some() && plans.iter().all(|plan| plan.mechanism.schedule() != Schedule::Lazy) {
        return Err(Failure::input(
            "--settle is for lazy and all, of which neither is run: choose them with --mechanism",
        ));
    }
    if arguments.trace.is_some() && plans.len() != 1 {
        return Err(Failure::Input(format!(
            "--trace writes one run, but {} are selected: choose one experiment, --machine, --mechanism, and --threads and \
             --lru-drain where they are varied",
            plans.len()
        )));
    }
    Ok(Selection { plans, skipped })
}

/// A run with each mechanism, and each of what the experiment varies or the command line chooses.
fn variants(plan: &Plan, mechanisms: &[Mechanism], arguments: &CompareArguments) -> Vec<Plan> {
    let Sweep { threads, lru_drains } = match plan.experiment.sweep {
        Some(sweep) => sweep(&plan.machine),
        None => Sweep { threads: Vec::new(), lru_drains: Vec::new() },
    };
    let threads =
        if arguments.threads.is_empty() { threads } else { once(arguments.threads.clone(), PartialEq::eq) };
    let chosen = once(arguments.lru_drain.clone(), PartialEq::eq);
    let lru_drains =
        if chosen.is_empty() { lru_drains } else { chosen.into_iter().map(Into::into).collect() };
    let mut plans = Vec::new();
    for lru_drain in some_or_none(lru_drains) {
        for threads in some_or_none(threads.clone()) {
            plans.extend(mechanisms.iter().map(|&mechanism| Plan {
                mechanism,
                threads,
                lru_drain,
                ..plan.clone()
            }));
        }
    }
    plans
}

/// Each of them, or nothing once.
fn some_or_none<T>(items: Vec<T>) -> Vec<Option<T>> {
    if items.is_empty() {
        vec![None]
    } else {
        items.into_iter().map(Some).collect()
    }
}

/// The items without those that are the same as an earlier one.
fn once<T: Copy>(items: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.iter().any(|earlier| same(earlier, &item)) {
            kept.push(item);
        }
    }
    kept
}

/// The machine file that is meant, if none of the machines is called so.
fn machine_file(name: &str) -> Option<&Path> {
    (!BUILTIN.contains(&name) && name != "host").then(|| Path::new(name))
}

/// A machine by name, or from a file: what exists as a file or looks like one.
fn machine(name: &str) -> Result<Machine, Failure> {
    if let Some(machine) = builtin(name) {
        return machine.map_err(Failure::input);
    }
    if name == "host" {
        return Machine::host().map_err(Failure::input);
    }
    let path = Path::new(name);
    if path.exists() || name.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some() {
        return Machine::from_file(path).map_err(Failure::input);
    }
    let known: Vec<&str> = BUILTIN.iter().copied().chain(["host"]).collect();
    Err(names::unknown("machine", name, &known))
}

/// What came of the runs.
struct Runs {
    /// Those that ended as they should, and their results.
    plans: Vec<Plan>,
    reports: Vec<Report>,
    failed: Done,
}

/// Runs them all, several at a time. One that fails stops none of the others: these may have taken hours.
fn run_all(plans: Vec<Plan>, jobs: Option<u16>) -> Runs {
    let jobs = jobs.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from);
    let progress = Progress::new();
    let next = AtomicUsize::new(0);
    let large = Mutex::new(());
    let results: Vec<OnceLock<Result<Report, RunError>>> = plans.iter().map(|_| OnceLock::new()).collect();
    thread::scope(|scope| {
        for _ in 0..jobs.min(plans.len()) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(plan) = plans.get(index) else { break };
                // One of these at a time. Poisoned or not, it guards nothing.
                let _alone = plan.runs_alone().then(|| large.lock());
                let bar = progress.begin(plan);
                let result = plan.run(|part| bar.set(part));
                results[index].get_or_init(|| result);
            });
        }
    });
    let mut runs = Runs { plans: Vec::new(), reports: Vec::new(), failed: Ok(()) };
    for (plan, result) in plans.into_iter().zip(results) {
        match result.into_inner() {
            Some(Ok(report)) => {
                runs.plans.push(plan);
                runs.reports.push(report);
            }
            Some(Err(error)) => runs.failed = Failure::both(runs.failed, Err(failure(&plan, error))),
            None => {}
        }
    }
    runs
}

/// That a run failed, in words.
fn failure(plan: &Plan, error: RunError) -> Failure {
    match error {
        RunError::Trace { error, .. } if error.kind() == io::ErrorKind::BrokenPipe => Failure::NoReader,
        error => Failure::Input(format!(
            "{} {} {}: {error}",
            plan.experiment.name, plan.machine.name, plan.mechanism
        )),
    }
}

/// Where the JSON goes.
enum Json {
    /// To standard output, and nothing else does.
    Printed,
    /// To a file.
    File(Named),
}

/// A file that is open, and its name.
struct Named(String, File);

impl Named {
    /// Opened before the runs, so that a wrong path is told at once; what the file holds stays until there are results.
    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        match OpenOptions::new().write(true).create(true).truncate(false).open(path) {
            Ok(file) => Ok(Self(name, file)),
            Err(error) => Err(Failure::writing(name, &error)),
        }
    }

    /// Writes all that it shall hold.
    fn write(self, text: &str) -> Done {
        let Self(name, mut file) = self;
        let mut write = || {
            // A pipe or a terminal has no length to cut.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(text.as_bytes())
        };
        write().map_err(|error| Failure::writing(name, &error))
    }
}

fn open_json(path: &Path) -> Result<Json, Failure> {
    if path == Path::new("-") {
        return Ok(Json::Printed);
    }
    Named::open(path).map(Json::File)
}

fn open_html(path: &Path) -> Result<Named, Failure> {
    if path == Path::new("-") {
        return Err(Failure::input("--html writes to a file, not to standard output"));
    }
    Named::open(path)
}

fn json_of(reports: &[Report]) -> Result<String, Failure> {
    let results = Results { ceasefire: env!("CARGO_PKG_VERSION"), results: reports };
    serde_json::to_string_pretty(&results).map(|text| text + "\n").map_err(Failure::input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let plan = Plan {
            experiment: Experiment::find("migrate").expect("an experiment"),
            machine: machine("2-socket-intel")
                .and_then(|machine| machine.with_cpus(2).map_err(Failure::input))
                .expect("a machine"),
            mechanism: Mechanism::Batched,
            settle: Settle::Free,
            threads: None,
            lru_drain: None,
            scale: 0.0001,
            seed: 1,
            oracle: true,
            trace: None,
        };
        plan.run(|_| ()).expect("a run")
    }

    #[test]
    fn a_wrong_load_is_a_failure_as_a_broken_rule_is() {
        let good = report();
        assert!(good.loads_compared > 0);
        assert!(sound(&[good.clone(), good.clone()]).is_ok());
        let wrong = Report { loads_wrong: 3, loads_compared: 100, ..good.clone() };
        let Err(Failure::Broken { rules, loads, lines }) = sound(&[good.clone(), wrong]) else {
            panic!("three loads were wrong");
        };
        assert_eq!((rules, loads), (0, 3));
        assert_eq!(lines, ["migrate 2-socket-intel batched: 3 of 100 loads compared were wrong"]);
        let broken = Report { violations: 2, broken: vec!["R1".into(), "R7".into()], ..good };
        let Err(Failure::Broken { rules, loads, lines }) = sound(&[broken]) else {
            panic!("two rules were broken");
        };
        assert_eq!((rules, loads), (2, 0));
        assert_eq!(lines, ["migrate 2-socket-intel batched: R1", "migrate 2-socket-intel batched: R7"]);
    }
}
