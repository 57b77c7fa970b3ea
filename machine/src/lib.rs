//! A simulated SMP machine in simulated time, with an oracle for TLB coherence.
//!
//! It runs the engine and the memory manager as they are: the same code that a kernel would run, on CPUs with clocks,
//! TLBs, interrupts and locks whose costs come from a machine file. A run is deterministic, says how long everything
//! took and how often CPUs were interrupted, and an [oracle](Rule) that looks at every TLB and page table says whether
//! any rule was broken.
//!
//! [`Simulation`] is the entry: build one from a [`config::Machine`], start programs on it, run it, and read the
//! [`Outcome`].
//!
//! The folders, each of which depends only on those before it: `config` describes a machine, `hardware` holds its parts,
//! `measure` its counts, and `oracle` checks the rules. `world` is the state of a machine, `schedule` moves it through
//! simulated time, and `run` sets it up and runs programs on it. `platform` is the machine as the engine and the memory
//! manager see it.

pub mod config;
mod hardware;
mod measure;
mod oracle;
mod platform;
mod run;
mod schedule;
#[cfg(test)]
mod testing;
mod world;

pub use hardware::device::Device;
pub use measure::reading::Reading;
pub use measure::series::Series;
pub use measure::spent::Spent;
pub use oracle::rule::{Rule, Violation};
pub use run::error::{RunError, SetupError};
pub use run::options::Options;
pub use run::outcome::{Outcome, ThreadTime};
pub use run::program::Program;
pub use run::simulation::Simulation;
pub use world::state::Sim;
