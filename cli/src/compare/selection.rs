//! Selecting the runs that a command line asks for. Each is checked before the first begins.

use std::path::{Path, PathBuf};

use ceasefire_experiments::{
    available_memory, machine_file, with_values, Experiment, Mechanism, Payment, Plan, Schedule, SelectError,
    Sweep, EXPERIMENTS, KERNELS,
};
use ceasefire_machine::config::{Change, Machine, MachineFile};

use crate::args::{commands, Check, Choice, CompareArguments, Settings};
use crate::failure::Failure;
use crate::host::host;
use crate::names::{mechanisms, once};

/// What a word that is no path may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// An experiment: `compare` came before it.
    Experiment,
    /// An experiment or a command.
    CommandOrExperiment,
}

/// The experiments with a name, or those of a workload file if the name exists as a file or looks like a path.
fn named(name: &str, word: Word) -> Result<Vec<&'static Experiment>, Failure> {
    let commands = commands();
    if commands.contains(&name) {
        return Err(Failure::Input(format!("the command '{name}' must come first, before all options")));
    }
    Experiment::select(name, &commands).map_err(|error| match (error, word) {
        (SelectError::Unknown(unknown), Word::CommandOrExperiment) => Failure::Input(format!(
            "no command or experiment is called '{name}'{} Commands: {}; `ceasefire list experiments` has the rest",
            unknown.nearest(),
            commands.join(", ")
        )),
        (error, _) => Failure::input(error),
    })
}

/// The runs that the command line asks for.
pub(super) struct Selection {
    pub(super) plans: Vec<Plan>,
    /// A line for each experiment that was not named and cannot run, with the bound that it crosses.
    pub(super) skipped: Vec<String>,
    /// A line for each workload whose own listings of new pages give way to those of the chosen Linux.
    pub(super) listed: Vec<String>,
}

/// Selects and checks every run that the command line asks for.
pub(super) fn select(
    arguments: &CompareArguments,
    settings: &Settings,
    word: Word,
) -> Result<Selection, Failure> {
    let CompareArguments { choice, manner, .. } = arguments;
    let experiments: Vec<&'static Experiment> = if arguments.experiments.is_empty() {
        EXPERIMENTS.iter().filter(|experiment| experiment.overview.is_some()).collect()
    } else {
        let found: Vec<_> =
            arguments.experiments.iter().map(|name| named(name, word)).collect::<Result<_, _>>()?;
        once(found.concat(), |a, b| a.name == b.name)
    };
    let chosen = mechanisms(&choice.mechanism)?;
    let known = |name: &str| ceasefire_experiments::named("kernel", name, &KERNELS).map_err(Failure::input);
    let kernel = choice.kernel.as_deref().map(known).transpose()?;
    let named = !arguments.experiments.is_empty();
    let available = available_memory();
    let (mut plans, mut skipped, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    for experiment in experiments {
        let mut machines: Vec<Machine> = match &choice.machine {
            Some(name) => vec![machine(name, &settings.changes)?],
            None => experiment
                .machines
                .iter()
                .map(|name| machine(name, &settings.changes))
                .collect::<Result<_, _>>()?,
        };
        let overview = experiment.overview.filter(|_| !named);
        if overview.is_some() {
            // The first table comes soon.
            machines.sort_by_key(|machine| machine.topology.cpu_count());
        }
        let mechanisms = if chosen.is_empty() { experiment.mechanisms } else { &chosen };
        for machine in machines {
            let machine = match choice.cpus {
                Some(count) => machine.with_cpus(count).map_err(Failure::input)?,
                None => machine,
            };
            let machine = match settings.speculate {
                Some(rate) => machine.speculating(rate).map_err(Failure::input)?,
                None => machine,
            };
            let default = Plan::new(experiment, machine.without(&settings.without));
            // A small machine may need more than the experiment's own scale.
            let is_usual = default.scale <= experiment.scale;
            let usual = overview.filter(|_| is_usual).map_or(default.scale, |overview| overview.scale);
            let plan = Plan {
                kernel: kernel.unwrap_or(default.kernel),
                payment: settings.settle.unwrap_or(Payment::Free),
                scale: choice.scale.unwrap_or(usual),
                seed: manner.seed,
                oracle: manner.check != Check::None,
                shadow: manner.check != Check::None,
                ..default
            };
            let repeats = overview.map_or(experiment.repeats, |overview| overview.repeats);
            let seeds = repeated(&plan, arguments, repeats)?.into_iter();
            for plan in seeds.flat_map(|plan| variants(&plan, mechanisms, choice, settings, &mut listed)) {
                match plan.check().and_then(|()| plan.check_host(available)) {
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
    if settings.settle.is_some() && plans.iter().all(|plan| plan.mechanism.schedule() != Schedule::Lazy) {
        return Err(Failure::input(
            "--set settle applies only to lazy and all: choose one of them with --mechanism",
        ));
    }
    if arguments.outputs.trace.is_some() && plans.len() != 1 {
        return Err(Failure::Input(format!(
            "--trace needs exactly one run, but {} are selected: choose one experiment, one --machine and one --mechanism, \
             and one value of --threads and lru_drain if the experiment varies them, without --repeats",
            plans.len()
        )));
    }
    Ok(Selection { plans, skipped, listed })
}

/// The run with each of its seeds. Unless all are to be checked, the checkers watch the first alone: they change no
/// figure, and take most of the time.
fn repeated(plan: &Plan, arguments: &CompareArguments, repeats: u16) -> Result<Vec<Plan>, Failure> {
    let usual = if arguments.outputs.trace.is_some() { 1 } else { repeats };
    let count = arguments.manner.repeats.unwrap_or(usual);
    let most = u64::MAX - u64::from(count) + 1;
    if plan.seed > most {
        return Err(Failure::Input(format!(
            "--seed {}: must be at most {most}, so that each of {count} runs has a seed",
            plan.seed
        )));
    }
    let repeat = |number: u16| {
        let is_checked = number == 0 || arguments.manner.check == Check::All;
        Plan {
            seed: plan.seed + u64::from(number),
            oracle: plan.oracle && is_checked,
            shadow: plan.shadow && is_checked,
            ..plan.clone()
        }
    };
    Ok((0..count).map(repeat).collect())
}

/// The runs for all combinations of mechanisms, numbers of threads and values of `lru_drain`. A Linux that the command
/// line or the machine's file chooses lists new pages at its own time: `listed` gets a line if the workload has another.
fn variants(
    plan: &Plan,
    mechanisms: &[Mechanism],
    choice: &Choice,
    settings: &Settings,
    listed: &mut Vec<String>,
) -> Vec<Plan> {
    let Sweep { threads, lru_drains } = match plan.experiment.sweep {
        Some(sweep) => sweep(&plan.machine),
        None => Sweep { threads: Vec::new(), lru_drains: Vec::new() },
    };
    let threads =
        if choice.threads.is_empty() { threads } else { once(choice.threads.clone(), PartialEq::eq) };
    let chosen = once(settings.lru_drain.clone(), PartialEq::eq);
    let lru_drains = if !chosen.is_empty() {
        chosen
    } else if choice.kernel.is_some() || plan.machine.linux.is_some() {
        let line = format!(
            "{} on {}: new pages are listed as {} does, not as the workload says; --set lru_drain=LIST chooses",
            plan.experiment.name, plan.machine.name, plan.kernel
        );
        if lru_drains.iter().any(|drain| *drain != plan.kernel.drain()) && !listed.contains(&line) {
            listed.push(line);
        }
        Vec::new()
    } else {
        lru_drains
    };
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

/// Each item, or a single `None` if there are no items.
fn some_or_none<T>(items: Vec<T>) -> Vec<Option<T>> {
    if items.is_empty() {
        vec![None]
    } else {
        items.into_iter().map(Some).collect()
    }
}

/// The files that the runs read, each with the option or the thing that names it.
pub(super) fn inputs<'a>(
    arguments: &'a CompareArguments,
    plans: &'a [Plan],
) -> Vec<(&'static str, &'a Path)> {
    // An experiment's name is no file.
    let workloads = arguments.experiments.iter().map(|name| Path::new(with_values(name).0));
    let workloads = workloads.filter(|path| path.is_file());
    let machines = plans.iter().flat_map(|plan| &plan.machine.files).map(PathBuf::as_path);
    let named = arguments.choice.machine.as_deref().map(Path::new);
    let source = |file| if named == Some(file) { "--machine" } else { "the machine" };
    let mut inputs: Vec<(&str, &Path)> = workloads.map(|path| ("the workload", path)).collect();
    inputs.extend(machines.map(|file| (source(file), file)));
    inputs.dedup();
    inputs
}

/// A machine by name, or from a file if the name exists as a file or looks like a path. Some of its numbers are set.
fn machine(name: &str, changes: &[Change]) -> Result<Machine, Failure> {
    if name == "host" {
        return match changes {
            [] => host().map_err(Failure::input),
            [change, ..] => Err(Failure::Input(format!(
                "--set {change}: 'host' has no file: write one with `ceasefire calibrate -o FILE`, and set numbers of it"
            ))),
        };
    }
    changed_file(name, changes).map(|file| file.machine().clone())
}

/// A machine file by name or path, with some of its numbers set.
pub(super) fn changed_file(name: &str, changes: &[Change]) -> Result<MachineFile, Failure> {
    let mut file = machine_file(name, &["host"]).map_err(Failure::input)?;
    for change in changes {
        file.set(change).map_err(Failure::input)?;
    }
    Ok(file)
}
