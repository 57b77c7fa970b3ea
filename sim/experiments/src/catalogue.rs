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

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::Linux;

    use super::*;

    #[test]
    fn every_paper_runs_on_its_own_kernel() {
        for (paper, linux) in [
            ("BATCH-RECLAIM", Linux::V4_2),
            ("BATCH-MIGRATE", Linux::V6_3),
            ("LUF", Linux::V6_9),
            ("BROADCAST", Linux::V6_13),
        ] {
            for experiment in EXPERIMENTS.iter().filter(|one| one.paper.starts_with(paper)) {
                assert_eq!(experiment.kernel, linux, "{}", experiment.name);
            }
        }
    }
}
