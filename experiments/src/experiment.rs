//! Which experiments there are.

use crate::mechanism::Mechanism;
use crate::plan::{Plan, RunError, Started};
use crate::{migrate, mmap_read};

/// A paper's workload.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// What it does, in a line.
    pub description: &'static str,
    /// The machines of the paper.
    pub machines: &'static [&'static str],
    /// What the paper compares, the baseline first.
    pub mechanisms: &'static [Mechanism],
    /// The part of the paper's size that is run unless told otherwise.
    pub scale: f64,
    /// How many nodes with CPUs it needs.
    pub nodes: usize,
    /// Whether it measures between two moments of its run. The programs' own times are of the whole run even then.
    pub windowed: bool,
    /// The least bytes of memory per CPU with which it makes sense.
    pub(crate) bytes_per_cpu: u64,
    /// The least bytes of memory of each node that it uses, at full size.
    pub(crate) bytes_per_node: u64,
    /// How many bytes of memory the programs touch.
    pub(crate) contents_bytes: fn(&Plan) -> u64,
    pub(crate) start: fn(&Plan) -> Result<Started, RunError>,
}

/// All experiments.
pub static EXPERIMENTS: &[Experiment] =
    &[mmap_read::EXPERIMENT, migrate::EXPERIMENT, migrate::EXPERIMENT_HUGE];

impl Experiment {
    /// The experiment of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }
}
