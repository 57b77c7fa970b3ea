//! The papers' workloads on the papers' machines, with what they published beside what we measure.
//!
//! An [`Experiment`] says what runs and where; a [`Plan`] is one run of it with one mechanism; [`Plan::run`] gives a
//! [`Report`], whose fields are those of the command line's JSON. [`compare`] puts the published figures in.

mod experiment;
mod mechanism;
mod migrate;
mod mmap_read;
mod plan;
mod published;
mod random;
mod reference;
mod report;

pub use experiment::{Experiment, EXPERIMENTS};
pub use mechanism::{Mechanism, UnknownMechanism};
pub use plan::{Plan, RunError, MOST_CONTENTS};
pub use published::{published, Row};
pub use report::{compare, Comparison, Report, SettledBy};
