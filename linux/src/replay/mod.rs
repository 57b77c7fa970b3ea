//! Replays a recording through the engine: how many CPUs would other mechanisms have asked to flush?
//!
//! `hardware` is a machine without time of its own, on which the real engine runs: it counts requests and delivers them
//! at once. `pending` says which of them interrupt. `kernel` puts the recorded processes on its CPUs and asks the
//! engine for the recorded flushes.
//!
//! `whereabouts` knows where threads are: which CPU runs which process (`residency`), and which processes are gone.
//! `flushes` decides which flushes there are. `frames` keeps which process uses which frame, so that pages that the
//! kernel takes back are unmapped where they were mapped. `operations` finds the pages that belong to one reclaim or
//! one migration, which a mechanism may flush one by one, in batches, or later. `under_way` waits for the answers of
//! the CPUs that a flush asks, which tell what they ran. `steps` puts all of it in the order of time.
//!
//! `linux` is what Linux does since which version, and `masks` a rule of it that the engine does not have. `calls`
//! changes what programs do: `gathered` puts calls of madvise together, and `decay` makes them later. `parts` counts
//! the observed requests. `mechanism` says how a kernel flushes, `model` runs one mechanism, and `run` all of them.

mod calls;
mod decay;
mod flushes;
mod frames;
mod gathered;
mod hardware;
mod kernel;
mod linux;
mod masks;
mod mechanism;
mod model;
mod operations;
mod parts;
mod pending;
mod residency;
mod run;
mod steps;
#[cfg(test)]
mod testing;
mod under_way;
mod whereabouts;

pub use calls::Calls;
pub use hardware::Asked;
pub use mechanism::Mechanism;
pub use model::Predicted;
pub use run::{replay, Observed, Replay, ReplayError};
