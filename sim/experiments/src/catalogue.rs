//! The list of all experiments.

use std::sync::LazyLock;

use crate::experiment::Experiment;
use crate::workloads::all;

/// All experiments, in the order in which the command line lists and runs them.
pub static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(all);

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
