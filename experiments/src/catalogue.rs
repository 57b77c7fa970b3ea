//! The list of all experiments.

use std::sync::LazyLock;

use crate::experiment::Experiment;
use crate::workload_file::{builtin, PRESETS};
use crate::workloads::{allocation_latency, fork_heavy, migrate, switching, tiered_inference};

/// All experiments, in the order in which the command line lists and runs them.
pub static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let mut all = builtin("mmap-read");
    all.extend([migrate::EXPERIMENT, migrate::EXPERIMENT_HUGE, tiered_inference::EXPERIMENT]);
    all.extend(["tlb-flush2", "tlb-flush2-processes", "write-heavy"].map(builtin).into_iter().flatten());
    all.extend([fork_heavy::EXPERIMENT, allocation_latency::EXPERIMENT]);
    all.extend(builtin("small-machine"));
    all.extend([switching::EXPERIMENT, switching::EXPERIMENT_UNMAP, switching::EXPERIMENT_LEFT]);
    all.extend(PRESETS.map(builtin).into_iter().flatten());
    all
});

impl Experiment {
    /// Finds the experiment with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Finds the experiments with this name: one, or all variants of a workload.
    pub fn named(name: &str) -> Vec<&'static Self> {
        let is_variant = |own: &str| own.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        let is = |experiment: &&Self| experiment.name == name || is_variant(experiment.name);
        EXPERIMENTS.iter().filter(is).collect()
    }
}
