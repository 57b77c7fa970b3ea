//! The parts of an experiment's definition.
//!
//! A workload defines an [`Experiment`]. For each run it receives a [`Setup`] and returns a [`Started`] machine, or a
//! [`RunError`]. At the end of the run it returns the outcome of its programs, [`Finished`].

mod definition;
mod error;
mod mechanism;
mod setup;
mod started;

pub use definition::{Experiment, Overview, Sweep};
pub use error::RunError;
pub use mechanism::Mechanism;

pub(crate) use definition::{Footprint, Frames, LUF};
pub(crate) use setup::Setup;
pub(crate) use started::{Finished, Started};
