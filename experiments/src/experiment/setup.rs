//! What an experiment is given to set up one run of it.

use ceasefire_machine::config::Machine;
use ceasefire_machine::Options;
use ceasefire_memory::{LruDrain, NodeId};

use super::error::RunError;

/// The choices of one run, each with its value.
pub(crate) struct Setup {
    /// The machine, at its full size.
    pub(crate) machine: Machine,
    /// The part of the machine's memory, and with it of the work, that is run.
    pub(crate) scale: f64,
    /// Varies what is left to chance.
    pub(crate) seed: u64,
    /// How many threads run, where that can be chosen.
    pub(crate) threads: u16,
    /// When new pages are listed, where that can be chosen.
    pub(crate) lru_drain: LruDrain,
    /// The nodes that the experiment uses: the first that have CPUs, as many as it needs.
    pub(crate) nodes: Vec<NodeId>,
    /// Whether frames keep their bytes and every load is compared with what it must return.
    pub(crate) contents: bool,
    /// How the machine is to be set up.
    pub(crate) options: Options,
}

impl Setup {
    pub(crate) fn scaled_machine(&self) -> Result<Machine, RunError> {
        self.machine.scaled(self.scale).map_err(RunError::Machine)
    }
}
