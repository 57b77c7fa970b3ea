//! What an experiment is: its machines, mechanisms and size, and the function that sets up one run of it.

mod definition;
mod error;
mod mechanism;
mod setup;
mod started;

pub use definition::{Experiment, Sweep};
pub use error::RunError;
pub use mechanism::{Mechanism, UnknownMechanism};

pub(crate) use definition::{Footprint, LUF};
pub(crate) use setup::Setup;
pub(crate) use started::{Finished, Started};
