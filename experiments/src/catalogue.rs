//! The list of all experiments.

use crate::experiment::Experiment;
use crate::workloads::{
    allocation_latency, fork_heavy, migrate, mmap_read, switching, tiered_inference, tlb_flush2, write_heavy,
};

/// All experiments, in the order in which the command line lists and runs them.
pub static EXPERIMENTS: &[Experiment] = &[
    mmap_read::EXPERIMENT,
    migrate::EXPERIMENT,
    migrate::EXPERIMENT_HUGE,
    tiered_inference::EXPERIMENT,
    tlb_flush2::EXPERIMENT,
    tlb_flush2::EXPERIMENT_PROCESSES,
    write_heavy::EXPERIMENT,
    fork_heavy::EXPERIMENT,
    allocation_latency::EXPERIMENT,
    mmap_read::EXPERIMENT_SMALL,
    switching::EXPERIMENT,
    switching::EXPERIMENT_UNMAP,
    switching::EXPERIMENT_LEFT,
];

impl Experiment {
    /// Finds the experiment with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }
}
