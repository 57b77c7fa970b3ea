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
mod contents;
mod device;
mod holdings;
mod invalidate;
mod lock;
mod may_hold;
mod oracle;
mod outdated;
mod program;
mod ram;
mod reading;
mod series;
mod shadow;
mod sim;
mod simulation;
mod spent;
mod task;
#[cfg(test)]
mod testing;
mod time;
mod timeline;
mod timer;
mod tlb;
mod trace;
mod wait;
mod world;

pub use device::Device;
pub use oracle::{Rule, Violation};
pub use program::Program;
pub use reading::Reading;
pub use series::Series;
pub use sim::Sim;
pub use simulation::{Options, Outcome, RunError, SetupError, Simulation, ThreadTime};
pub use spent::Spent;
