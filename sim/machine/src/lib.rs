//! A simulated SMP machine in simulated time, with an oracle for TLB coherence.
//!
//! It runs the engine and the memory manager unchanged: the same code as in a kernel, on CPUs with clocks, TLBs,
//! interrupts and locks. Their costs come from a machine file. A run is deterministic. It reports how long everything
//! took and how often CPUs were interrupted. An [oracle](Rule) looks at every TLB and page table and reports each
//! broken rule.
//!
//! [`Simulation`] is the entry: build one from a [`config::Machine`], start programs on it, run it, and read the
//! [`Outcome`].
//!
//! The folders, each of which depends only on those before it: `config` describes a machine, `hardware` holds its parts,
//! `measure` its counts, and `oracle` checks the rules. `world` is the state of a machine, `schedule` moves it through
//! simulated time, and `run` sets it up and runs programs on it. `platform` is the machine as the engine and the memory
//! manager see it.

pub mod config;
pub mod document;
mod hardware;
mod measure;
mod oracle;
mod platform;
mod run;
mod schedule;
#[cfg(test)]
mod testing;
mod world;

pub use hardware::contents::stored_word;
pub use hardware::device::Device;
pub use measure::reading::Reading;
pub use measure::series::Series;
pub use measure::spent::Spent;
pub use measure::trace::{TraceFormat, TraceOutput};
pub use oracle::rule::{Rule, Violation};
pub use run::error::{RunError, SetupError};
pub use run::options::Options;
pub use run::outcome::{Outcome, ThreadTime};
pub use run::program::Program;
pub use run::simulation::Simulation;
pub use world::state::Sim;
