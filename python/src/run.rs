//! Running an experiment.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use ceasefire_experiments::{
    available_memory, compare, named, Experiment as Definition, Plan, RunError as Reason, KERNELS,
    LRU_DRAINS, PAYMENTS,
};
use ceasefire_machine::config::{Effect, MAX_CPUS};
use pyo3::prelude::*;

use crate::apart::apart;
use crate::error::{input, RunError};
use crate::experiment::{Experiment, Workload};
use crate::machine::Machine;
use crate::result::Result;

/// The experiment as an object, a name or the path of a workload file.
#[derive(Debug, FromPyObject)]
pub(crate) enum Which<'py> {
    Experiment(Experiment),
    Workload(PyRef<'py, Workload>),
    Named(PathBuf),
}

/// The machine as an object, a name or the path of a machine file.
#[derive(Debug, FromPyObject)]
pub(crate) enum On<'py> {
    Machine(PyRef<'py, Machine>),
    Named(PathBuf),
}

/// Runs an experiment once, without the interpreter's lock. Ctrl-C ends it.
#[pyfunction]
#[pyo3(signature = (
    experiment, machine=None, mechanism="batched", overrides=None, seed=None, scale=None, cpus=None, threads=None,
    kernel=None, settle=None, lru_drain=None, without=None, oracle=true, speculate=None
), text_signature = "(experiment, machine=None, mechanism='batched', overrides=None, seed=1, scale=None, cpus=None, \
    threads=None, kernel=None, settle='free', lru_drain=None, without=(), oracle=True, speculate=0.0)")]
// The arguments are those of Python's function.
#[allow(clippy::too_many_arguments)]
pub(crate) fn run(
    py: Python<'_>,
    experiment: Which<'_>,
    machine: Option<On<'_>>,
    mechanism: &str,
    overrides: Option<Bound<'_, PyAny>>,
    seed: Option<Bound<'_, PyAny>>,
    scale: Option<f64>,
    cpus: Option<Bound<'_, PyAny>>,
    threads: Option<Bound<'_, PyAny>>,
    kernel: Option<&str>,
    settle: Option<&str>,
    lru_drain: Option<&str>,
    without: Option<Vec<String>>,
    oracle: bool,
    speculate: Option<f64>,
) -> PyResult<Result> {
    let experiment = only(experiment)?;
    let mut machine = match machine {
        Some(On::Machine(machine)) => machine.clone(),
        Some(On::Named(name)) => Machine::new(name)?,
        None => {
            let first = experiment.machines.first();
            let none = || input(format!("{} names no machine: choose one with machine=", experiment.name));
            Machine::new(first.ok_or_else(none)?.into())?
        }
    };
    if let Some(overrides) = overrides {
        for pair in overrides.call_method0("items")?.try_iter()? {
            let (key, value): (String, Bound<'_, PyAny>) = pair?.extract()?;
            machine.__setitem__(&key, &value)?;
        }
    }
    let mut machine = machine.0.machine().clone();
    if let Some(cpus) = cpus {
        let cpus = whole::<u32>("cpus", &cpus, &format!("1 to {MAX_CPUS} CPUs"))?;
        machine = machine.with_cpus(cpus).map_err(input)?;
    }
    if let Some(rate) = speculate {
        machine = machine.speculating(rate).map_err(input)?;
    }
    let effects = Effect::ALL.map(|effect| (effect.name(), effect));
    let without = without.unwrap_or_default();
    let without: Vec<Effect> =
        without.iter().map(|name| named("effect", name, &effects).map_err(input)).collect::<PyResult<_>>()?;
    let default = Plan::new(experiment, machine.without(&without));
    let plan = Plan {
        mechanism: mechanism.parse().map_err(input)?,
        threads: threads
            .map(|count| whole("threads", &count, &format!("a whole number, 1 to {}", u16::MAX)))
            .transpose()?,
        kernel: match kernel {
            Some(name) => named("kernel", name, &KERNELS).map_err(input)?,
            None => default.kernel,
        },
        payment: settle
            .map_or(Ok(default.payment), |name| named("settlement", name, &PAYMENTS).map_err(input))?,
        lru_drain: lru_drain.map(|name| named("LRU drain", name, &LRU_DRAINS).map_err(input)).transpose()?,
        seed: match seed {
            Some(seed) => whole("seed", &seed, &format!("a whole number, 0 to {}", u64::MAX))?,
            None => default.seed,
        },
        scale: scale.unwrap_or(default.scale),
        oracle,
        shadow: oracle,
        ..default
    };
    let checked = plan.check().and_then(|()| plan.check_host(available_memory()));
    checked.map_err(|error| input(format!("{} on {}: {error}", experiment.name, plan.machine.name)))?;
    let name = format!("{} {} {}", plan.experiment.name, plan.machine.name, plan.mechanism);
    let failed = |error: Reason| RunError::new_err(format!("{name}: {error}"));
    let run = |stop: &AtomicBool| plan.run_caught(|_| !stop.load(Ordering::Relaxed));
    let mut reports = [apart(py, run, || Ok(()))?.map_err(failed)?];
    compare(&mut reports);
    let [report] = reports;
    Ok(Result(report))
}

/// The one experiment that is meant.
fn only(which: Which<'_>) -> PyResult<&'static Definition> {
    let (name, found) = match which {
        Which::Experiment(experiment) => return Ok(experiment.0),
        Which::Workload(workload) => (workload.path().display().to_string(), workload.experiments.clone()),
        Which::Named(name) => {
            let name = name.to_string_lossy().into_owned();
            let found = Definition::select(&name, &[]).map_err(input)?;
            (name, found)
        }
    };
    match found.as_slice() {
        [one] => Ok(one),
        several => {
            let names: Vec<&str> = several.iter().map(|experiment| experiment.name).collect();
            Err(input(format!("{name} is several experiments: choose one of {}", names.join(", "))))
        }
    }
}

/// A whole number that fits.
fn whole<'py, T: for<'a> FromPyObject<'a, 'py>>(
    name: &str,
    value: &Bound<'py, PyAny>,
    bound: &str,
) -> PyResult<T> {
    value.extract().map_err(|_| input(format!("{name} {value}: must be {bound}")))
}
