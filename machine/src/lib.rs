//! A simulated SMP machine in simulated time, with an oracle for TLB coherence.
//!
//! It runs the engine and the memory manager as they are: the same code that a kernel would run, on CPUs with clocks,
//! TLBs, interrupts and locks whose costs come from a machine file. A run is deterministic, says how long everything
//! took and how often CPUs were interrupted, and an [oracle](Rule) that looks at every TLB and page table says whether
//! any rule was broken.
//!
//! [`Simulation`] is the way in: build one from a [`config::Machine`], start programs on it, run it, read the
//! [`Outcome`].

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
pub use oracle::judge::{Rule, Violation};
pub use platform::Sim;
pub use run::program::Program;
pub use run::simulation::{Options, Outcome, RunError, SetupError, Simulation, ThreadTime};
