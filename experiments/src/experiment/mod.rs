//! An experiment: its machines, mechanisms and size, and the function that sets up one run of it.

mod definition;
mod mechanism;

pub use definition::{Experiment, Sweep, EXPERIMENTS};
pub use mechanism::{Mechanism, UnknownMechanism};

pub(crate) use definition::LUF;
