//! One run of an experiment.
//!
//! A [`Plan`] chooses the machine, the mechanism and the size. Executing it yields a [`Report`] of the measured
//! figures.

mod available_memory;
mod caught;
mod execute;
mod host;
mod host_memory;
mod plan;
pub mod pool;
mod report;
mod used;

pub use available_memory::available_memory;
pub use caught::caught;
pub use host::{Admitted, Host};
pub use plan::{Plan, TraceFile, MOST_CONTENTS};
pub use report::{Report, SettledBy};
