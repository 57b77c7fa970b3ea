//! The papers' workloads on the papers' machines, with what they published beside what we measure.
//!
//! An [`Experiment`] says what runs and where; a [`Plan`] is one run of it with one mechanism; [`Plan::run`] gives a
//! [`Report`], whose fields are those of the command line's JSON. [`compare`] puts the published figures in.

mod experiment;
mod measurement;
mod published;
mod run;
mod workloads;

pub use ceasefire::{Schedule, Settle};
pub use ceasefire_memory::LruDrain;
pub use experiment::{Experiment, Mechanism, Sweep, UnknownMechanism, EXPERIMENTS};
pub use measurement::{Atomic, Latency, Series, Time};
pub use published::{published, Row};
pub use run::{
    compare, drain_name, Comparison, PerProcess, Plan, Report, RunError, SettledBy, MOST_CONTENTS,
};
