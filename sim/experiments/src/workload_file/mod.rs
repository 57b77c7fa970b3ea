//! Workload files: experiments without Rust code.
//!
//! A file describes processes, their threads and mappings, and phases of operations; `docs/src/simulator/workloads.md` is the
//! reference of the language. `amount` and `time` read the language's values, `language` has its parts, `read` and
//! `operations` read them, and `variants` gives parameters their values. `layout` measures a workload on a machine,
//! `start` sets a run up, and `thread` interprets the phases, with `process`, `range`, `pool` and `tally` for the state.

mod amount;
mod language;
mod layout;
mod operations;
mod pool;
mod process;
mod range;
mod read;
mod start;
mod tally;
#[cfg(test)]
mod tests;
mod thread;
mod time;
mod variants;

use std::fs;
use std::path::Path;

use ceasefire_machine::config::{Linux, Machine};
use ceasefire_machine::document::{Error, Problem};

pub(crate) use self::amount::is_name;
use self::amount::{Amount, Words};
use self::language::{Sweep as Varied, Workload};
use self::layout::Layout;
use self::variants::name_of;
pub use self::variants::{Given, Written};
use crate::experiment::{Experiment, Footprint, Frames, Overview, RunError, Sweep};
use crate::workloads::files;

impl Experiment {
    /// The experiments that a workload file describes, one for each combination of its parameters, some of which may be
    /// `given` other values. Their names begin with the path. They are never compared with published figures, and are
    /// kept until the program ends, as the built-in experiments are.
    ///
    /// # Errors
    /// The file cannot be read or is not valid. The error names the place.
    pub fn from_file(path: &Path, given: &Given) -> Result<Vec<&'static Self>, Error> {
        let name = path.to_string_lossy();
        let text = fs::read_to_string(path)
            .map_err(|error| Problem::Unreadable(error.to_string()).in_file(&name))?;
        // A built-in experiment has published figures by its name.
        let is_known = !Experiment::named(&name).is_empty();
        let own = if is_known { format!("./{name}") } else { name.to_string() };
        Ok(kept(experiments(&name, &own, &text, given, None)?))
    }

    /// The variants of the workload that `text` describes, by the values of their parameters. Nothing is kept, so a
    /// program may read any number of texts. Errors name `file`.
    ///
    /// # Errors
    /// The text is no valid workload file. The error names the place.
    pub fn variants_in(file: &str, text: &str) -> Result<Vec<String>, Error> {
        Ok(variants::read_all(file, text, &[])?.iter().map(|(values, _)| name_of(values)).collect())
    }

    /// As [`from_file`](Self::from_file), for a built-in workload file. `None`: there is no such file.
    pub(crate) fn from_built_in(name: &str, given: &Given) -> Option<Result<Vec<&'static Self>, Error>> {
        let (_, text) = files().into_iter().find(|(known, _)| *known == name)?;
        Some(experiments(&format!("{name}.toml"), name, text, given, None).map(kept))
    }
}

/// Keeps experiments until the program ends.
fn kept(experiments: Vec<Experiment>) -> Vec<&'static Experiment> {
    experiments.into_iter().map(|experiment| &*Box::leak(Box::new(experiment))).collect()
}

/// The experiments of a file in the tree.
///
/// # Panics
/// If the file is not valid.
pub(crate) fn in_tree(name: &str, text: &str, overview: Option<Overview>) -> Vec<Experiment> {
    experiments(&format!("{name}.toml"), name, text, &[], overview).unwrap_or_else(|error| panic!("{error}"))
}

/// The experiments that `text` describes, called `name` and the values of their parameters. Errors name `file`.
fn experiments(
    file: &str,
    name: &str,
    text: &str,
    given: &Given,
    overview: Option<Overview>,
) -> Result<Vec<Experiment>, Error> {
    let experiment = |(values, workload): variants::Variant| {
        let values = &*values.leak();
        let name = if values.is_empty() { name.to_owned() } else { format!("{name}:{}", name_of(values)) };
        Experiment { parameters: values, ..of_workload(name, Box::leak(Box::new(workload)), overview) }
    };
    Ok(variants::read_all(file, text, given)?.into_iter().map(experiment).collect())
}

fn of_workload(name: String, workload: &'static Workload, overview: Option<Overview>) -> Experiment {
    let sweep = workload.sweep.as_ref().map(|varied| {
        let sweep = |machine: &Machine| Sweep {
            threads: threads(machine, varied),
            lru_drains: varied
                .on(machine)
                .and_then(|on| on.lru_drains.clone())
                .unwrap_or(varied.lru_drains.clone()),
        };
        &*Box::leak(Box::new(sweep) as Box<dyn Fn(&Machine) -> Sweep + Sync>)
    });
    let machines = workload.machines.iter().map(|machine| &*machine.clone().leak()).collect::<Vec<&str>>();
    let contents: &'static (dyn Fn(&Machine, f64) -> u64 + Sync) =
        Box::leak(Box::new(move |machine: &Machine, scale| contents_bytes(workload, machine, scale)));
    Experiment {
        name: name.leak(),
        paper: &workload.paper,
        description: &workload.description,
        machines: machines.leak(),
        mechanisms: &workload.mechanisms,
        parameters: &[],
        kernel: workload.kernel.linux.unwrap_or(Linux::NEWEST),
        scale: workload.scale,
        faithful_from: workload.faithful_from,
        repeats: workload.repeats,
        overview,
        nodes: 1,
        windowed: workload.measure.is_some(),
        sweep,
        crowded: workload.groups.iter().any(|group| group.threads_in_all.is_some()),
        footprint: Footprint {
            // The scale does not apply to memory that the file states.
            bytes_per_cpu: if workload.memory.is_some() { 1 } else { 2 << 20 },
            bytes_per_node: 0,
            frames: Box::leak(Box::new(move |machine: &Machine, scale| frames(workload, machine, scale))),
            contents_bytes: Some(contents),
        },
        fits: Some(Box::leak(Box::new(move |machine: &Machine, scale: f64, threads: u16| {
            let machine = start::machine(workload, machine, scale).map_err(RunError::Workload)?;
            let layout = Layout::new(workload, &machine.topology, u64::from(threads));
            layout.map(|_| ()).map_err(RunError::Workload)
        }))),
        start: Box::leak(Box::new(move |setup| start::start(workload, setup))),
    }
}

/// The numbers of threads that a workload varies on a machine.
fn threads(machine: &Machine, varied: &Varied) -> Vec<u16> {
    let cpus = machine.topology.cpu_count();
    let amounts: &[Amount] = varied.on(machine).map_or(&varied.threads, |on| &on.threads);
    let words = Words {
        memory: machine.topology.bytes(),
        cpus: cpus.into(),
        processes: 1,
        threads: 1,
        chosen: cpus.into(),
        mappings: &[],
    };
    // A number out of range is refused where the run is planned.
    let value = |amount: &Amount| amount.value(&words).unwrap_or(u64::MAX).min(u16::MAX.into()) as u16;
    amounts.iter().map(value).collect()
}

/// The frames of a run. A workload that does not fit the machine has as many as can be imagined.
fn frames(workload: &Workload, machine: &Machine, scale: f64) -> Frames {
    let machine = start::machine(workload, machine, scale);
    Frames::of(machine.map_or(u64::MAX, |machine| machine.topology.bytes()))
}

/// The most bytes that the host keeps for contents; everything, if the workload does not fit the machine.
fn contents_bytes(workload: &Workload, machine: &Machine, scale: f64) -> u64 {
    let bytes = start::machine(workload, machine, scale).and_then(|machine| {
        let layout = Layout::new(workload, &machine.topology, machine.topology.cpu_count().into())?;
        Ok(layout.contents_bytes(workload, machine.topology.bytes()))
    });
    bytes.unwrap_or(u64::MAX)
}
