//! Whole runs of experiments, through the crate's interface.

#[cfg(ceasefire_sabotage)]
mod power;
mod switching;
mod tiered_inference;
mod time;
mod tlb_flush2;

use ceasefire_experiments::{Experiment, Mechanism, Plan};
use ceasefire_machine::config::builtin;

/// The batched run of an experiment at scale 1, checked by nothing. Each test changes it to its own.
fn plan(experiment: &str, machine: &str) -> Plan {
    let experiment = Experiment::find(experiment).expect("an experiment");
    let machine = builtin(machine).expect("a listed name").expect("a valid file");
    Plan {
        mechanism: Mechanism::Batched,
        scale: 1.0,
        oracle: false,
        shadow: false,
        ..Plan::new(experiment, machine)
    }
}

/// The same on a machine of `cpus` CPUs.
fn plan_on(experiment: &str, machine: &str, cpus: u32) -> Plan {
    let plan = plan(experiment, machine);
    Plan { machine: plan.machine.with_cpus(cpus).expect("a number of CPUs that is allowed"), ..plan }
}
