//! One run of an experiment.
//!
//! A [`Plan`] chooses the machine, the mechanism and the size. Executing it yields a [`Report`] of the measured
//! figures.

mod execute;
mod host_memory;
mod plan;
mod report;
mod used;

pub use plan::{Plan, TraceFile, MOST_CONTENTS};
pub use report::{drain_name, Report, SettledBy};
