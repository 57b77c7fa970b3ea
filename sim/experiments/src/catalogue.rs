//! The list of all experiments.

use std::sync::LazyLock;

use ceasefire_machine::config::Linux;

use crate::experiment::Experiment;
use crate::workloads::all;

/// All experiments, in the order in which the command line lists and runs them.
pub static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(all);

/// The Linux of each built-in workload: that of its paper, also if the paper's reviewers asked for it, or the newest for
/// those that question no paper.
const OWN: [(Linux, &[&str]); 5] = [
    (Linux::V4_2, &["mmap-read"]),
    (Linux::V6_3, &["migrate", "migrate-huge"]),
    (Linux::V6_9, &["tiered-inference", "write-heavy", "fork-heavy", "allocation-latency", "small-machine"]),
    (Linux::V6_13, &["tlb-flush2", "tlb-flush2-processes"]),
    (
        Linux::V7_2,
        &[
            "switching",
            "switching-unmap",
            "switching-left",
            "mmap-database",
            "purging-allocator",
            "wasm-pool",
            "gc-scavenger",
            "model-server",
        ],
    ),
];

/// The Linux of the built-in workload of the experiment with this name. `None`: it is not built in.
pub(crate) fn own_kernel(name: &str) -> Option<Linux> {
    // The values of parameters follow the workload's name.
    let workload = name.split(':').next()?;
    OWN.iter().find(|(_, names)| names.contains(&workload)).map(|(linux, _)| *linux)
}

/// The Linux on which the experiment with this name runs by default.
pub(crate) fn usual_kernel(name: &str) -> Linux {
    own_kernel(name).unwrap_or(Linux::NEWEST)
}

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

    /// The Linux on which it runs by default: the one that a workload file names, that of its paper, or the newest. That of
    /// a machine's file comes before the last two.
    pub fn usual_kernel(&self) -> Linux {
        self.kernel.unwrap_or(usual_kernel(self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_built_in_workload_has_its_own_kernel() {
        let workload = |experiment: &Experiment| experiment.name.split(':').next();
        let listed: BTreeSet<&str> = EXPERIMENTS.iter().filter_map(workload).collect();
        let known: Vec<&str> = OWN.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(known.len(), listed.len());
        assert_eq!(known.into_iter().collect::<BTreeSet<_>>(), listed);
        for (paper, linux) in [
            ("BATCH-RECLAIM", Linux::V4_2),
            ("BATCH-MIGRATE", Linux::V6_3),
            ("LUF", Linux::V6_9),
            ("BROADCAST", Linux::V6_13),
        ] {
            for experiment in EXPERIMENTS.iter().filter(|one| one.paper.starts_with(paper)) {
                assert_eq!(experiment.usual_kernel(), linux, "{}", experiment.name);
            }
        }
        assert_eq!(own_kernel("wasm-pool:batch=7"), Some(Linux::V7_2));
        assert_eq!((own_kernel("wasm"), own_kernel("./wasm-pool")), (None, None));
    }
}
