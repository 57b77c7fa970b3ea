//! The machine, and the options of the run.

use ceasefire_kernel_abi::Parameter;

use crate::call::parameter;

/// The run's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) cpus: u64,
    pub(crate) nodes: u64,
    pub(crate) frames: u64,
    pub(crate) seconds: u64,
    /// After how many seconds a run ends that has not done its least work.
    pub(crate) limit: u64,
    pub(crate) seed: u64,
    pub(crate) pinned: bool,
    /// Readers report nothing.
    pub(crate) unchecked: bool,
    /// 0 for the program's own choice.
    pub(crate) pages: u64,
    /// 0 for the program's own choice.
    pub(crate) threads: u64,
    pub(crate) swap: u64,
    /// A bit for each scenario that runs; 0 for all.
    pub(crate) scenarios: u64,
}

impl Machine {
    /// Asks the kernel.
    pub(crate) fn ask() -> Self {
        Self {
            cpus: parameter(Parameter::Cpus),
            nodes: parameter(Parameter::Nodes),
            frames: parameter(Parameter::Frames),
            seconds: parameter(Parameter::Seconds),
            limit: parameter(Parameter::Limit),
            seed: parameter(Parameter::Seed),
            pinned: parameter(Parameter::Pinned) != 0,
            unchecked: parameter(Parameter::Unchecked) != 0,
            pages: parameter(Parameter::Pages),
            threads: parameter(Parameter::Threads),
            swap: parameter(Parameter::Swap),
            scenarios: parameter(Parameter::Scenarios),
        }
    }

    /// Whether a scenario is among those that run.
    pub(crate) fn runs_scenario(&self, number: usize) -> bool {
        self.scenarios == 0 || self.scenarios >> number & 1 != 0
    }

    /// How many CPUs each node has.
    pub(crate) fn cpus_of_a_node(&self) -> u64 {
        (self.cpus / self.nodes).max(1)
    }
}
