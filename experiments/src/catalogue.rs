//! All experiments.

use crate::experiment::Experiment;
use crate::workloads::{
    allocation_latency, fork_heavy, migrate, mmap_read, tiered_inference, tlb_flush2, write_heavy,
};

/// All experiments.
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
];

impl Experiment {
    /// The experiment of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }
}
