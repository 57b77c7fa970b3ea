//! The papers' workloads on the papers' machines, with what they published beside what we measure.
//!
//! An [`Experiment`] says what runs and where; a [`Plan`] is one run of it with one mechanism; [`Plan::run`] gives a
//! [`Report`], whose fields are those of the command line's JSON. [`compare`] puts the published figures in.

mod catalogue;
mod compare;
mod experiment;
mod measurement;
mod published;
mod run;
mod workloads;

pub use catalogue::EXPERIMENTS;
pub use ceasefire::{Schedule, Settle};
pub use ceasefire_memory::LruDrain;
pub use compare::compare;
pub use experiment::{Experiment, Mechanism, RunError, Sweep, UnknownMechanism};
pub use measurement::{Atomic, Latency, PerProcess, Series, Time};
pub use published::{published, Comparison, Row};
pub use run::{drain_name, Plan, Report, SettledBy, MOST_CONTENTS};
