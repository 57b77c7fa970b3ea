//! An experiment on one machine, with the numbers that every point of the study has.

use ceasefire_experiments::{
    named, Experiment, Linux, LruDrain, Mechanism, Payment, Plan, KERNELS, LRU_DRAINS, PAYMENTS,
};
use ceasefire_machine::config::{Change, Machine, MachineError, MachineFile};

use super::axis::Setting;
use super::ranges::Ranges;
use crate::row::Setting as Value;

/// An experiment, and its name in the study's results.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) definition: &'static Experiment,
    /// Its name, or that of its file without the folder.
    pub(crate) name: String,
    /// All that determines it: its name, or the hash of its file and the values of its parameters.
    pub(crate) content: String,
    /// The values of its workload's parameters, by key.
    pub(crate) parameters: Vec<(String, Value)>,
}

/// An experiment on one machine.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) experiment: Named,
    pub(crate) machine: MachineFile,
    /// The machine's name or its path, as `--machine` takes it.
    pub(crate) machine_name: String,
    /// The hash of the machine before anything is varied.
    pub(crate) machine_hash: String,
    pub(crate) mechanisms: Vec<Mechanism>,
    /// The ranges of the machine's uncertain numbers.
    pub(crate) ranges: Ranges,
}

/// Keys of the parameters of workloads begin so.
pub(crate) const OF_WORKLOAD: &str = "workload.";

/// The keys that set something of the run. All others are numbers of the machine.
pub(crate) const OF_RUN: [&str; 6] = ["scale", "cpus", "threads", "kernel", "lru_drain", "settle"];

/// What the settings of a point come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chosen {
    pub(crate) changes: Vec<Change>,
    pub(crate) scale: Option<f64>,
    pub(crate) cpus: Option<u32>,
    pub(crate) threads: Option<u16>,
    pub(crate) kernel: Option<Linux>,
    pub(crate) lru_drain: Option<LruDrain>,
    pub(crate) settle: Option<Payment>,
}

impl Chosen {
    /// Takes one setting.
    ///
    /// # Errors
    /// The allowed values, if the value is none of them.
    pub(crate) fn take(&mut self, Setting { key, value }: &Setting) -> Result<(), String> {
        fn count<T: std::str::FromStr>(value: &str) -> Option<T> {
            value.parse().ok()
        }
        match key.as_str() {
            "scale" => {
                self.scale =
                    Some(scale(value).ok_or("a number above 0 and at most 1, such as 0.0625 or 1/16")?);
            }
            "cpus" => self.cpus = Some(count(value).ok_or("a whole number")?),
            "threads" => self.threads = Some(count(value).ok_or("a whole number, 1 to 65535")?),
            "kernel" => {
                let known = || format!("one of {}", KERNELS.map(|(name, _)| name).join(", "));
                self.kernel = Some(named(key, value, &KERNELS).map_err(|_| known())?);
            }
            "lru_drain" => {
                self.lru_drain =
                    Some(named(key, value, &LRU_DRAINS).map_err(|_| "\"eager\" or \"batched\"")?);
            }
            "settle" => {
                self.settle = Some(named(key, value, &PAYMENTS).map_err(|_| "\"free\" or \"demand\"")?);
            }
            _ => self
                .changes
                .push(Change::of(key, value).ok_or("a number, perhaps with a unit, such as 900 ns")?),
        }
        Ok(())
    }
}

/// A number or a fraction.
fn scale(text: &str) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let scale = match text.split_once('/') {
        Some((part, whole)) => number(part)? / number(whole)?,
        None => number(text)?,
    };
    (scale > 0.0 && scale <= 1.0).then_some(scale)
}

impl Subject {
    pub(crate) fn new(
        experiment: Named,
        machine_name: String,
        machine: MachineFile,
        mechanisms: Vec<Mechanism>,
    ) -> Self {
        Self {
            experiment,
            machine_hash: machine.machine().hash(),
            ranges: Ranges::of(&machine),
            machine,
            machine_name,
            mechanisms,
        }
    }

    /// The setting with its number in the unit of the machine file, if it is one of the machine.
    pub(crate) fn in_own_unit(&self, setting: Setting) -> Setting {
        if OF_RUN.contains(&setting.key.as_str()) {
            return match setting.key.as_str() {
                "scale" => Setting {
                    value: scale(&setting.value).map_or(setting.value, |one| one.to_string()),
                    ..setting
                },
                _ => setting,
            };
        }
        let own = Change::of(&setting.key, &setting.value)
            .and_then(|change| self.machine.in_own_unit(&change).ok());
        match own {
            Some(Change { key, value, unit }) => {
                Setting { key, value: unit.map_or(value.to_string(), |unit| format!("{value} {unit}")) }
            }
            None => setting,
        }
    }

    /// The machine with the changes.
    pub(crate) fn machine(&self, chosen: &Chosen) -> Result<Machine, MachineError> {
        let mut file = self.machine.clone();
        if !chosen.changes.is_empty() {
            file.set_all(&chosen.changes)?;
        }
        match chosen.cpus {
            Some(cpus) => file.machine().with_cpus(cpus),
            None => Ok(file.machine().clone()),
        }
    }

    /// The plan with everything that is chosen, on a machine that has the changes.
    pub(crate) fn plan(&self, chosen: &Chosen, machine: Machine, mechanism: Mechanism) -> Plan {
        let default = Plan::new(self.experiment.definition, machine);
        Plan {
            mechanism,
            payment: chosen.settle.unwrap_or(default.payment),
            threads: chosen.threads,
            kernel: chosen.kernel.unwrap_or(default.kernel),
            lru_drain: chosen.lru_drain,
            scale: chosen.scale.unwrap_or(default.scale),
            ..default
        }
    }
}
