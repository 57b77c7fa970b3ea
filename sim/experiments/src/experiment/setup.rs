//! The input from which an experiment sets up one run.

use ceasefire_machine::config::Machine;
use ceasefire_machine::Options;
use ceasefire_memory::NodeId;

use super::error::RunError;

/// The settings of one run, all defaults filled in.
pub(crate) struct Setup {
    /// The machine at scale 1.
    pub(crate) machine: Machine,
    /// The fraction of the machine's memory, and with it of the work, that the run uses.
    pub(crate) scale: f64,
    /// The seed of all random choices.
    pub(crate) seed: u64,
    /// The number of threads, if it can be chosen.
    pub(crate) threads: u16,
    /// The nodes that the experiment uses: as many as it needs, the first ones with CPUs.
    pub(crate) nodes: Vec<NodeId>,
    /// Whether frames keep their bytes and every load is compared with the expected value.
    pub(crate) contents: bool,
    /// The options of the simulation.
    pub(crate) options: Options,
}

impl Setup {
    /// The machine at the run's scale.
    pub(crate) fn scaled_machine(&self) -> Result<Machine, RunError> {
        self.machine.scaled(self.scale).map_err(RunError::Machine)
    }
}
