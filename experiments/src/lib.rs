//! The papers' workloads on the papers' machines, with what they published beside what we measure.
//!
//! An [`Experiment`] says what runs and where; a [`Plan`] is one run of it with one mechanism; [`Plan::run`] gives a
//! [`Report`], whose fields are those of the command line's JSON. [`compare`] puts the published figures in.

mod allocation_latency;
mod experiment;
mod fork_heavy;
mod latency;
mod mechanism;
mod migrate;
mod mmap_read;
mod plan;
mod published;
mod random;
mod reference;
mod report;
mod stream;
mod tiered_inference;
mod time;
mod tlb_flush2;
mod write_heavy;

pub use ceasefire::{Schedule, Settle};
pub use ceasefire_memory::LruDrain;
pub use experiment::{Experiment, Sweep, EXPERIMENTS};
pub use latency::{Atomic, Latency};
pub use mechanism::{Mechanism, UnknownMechanism};
pub use plan::{Plan, RunError, MOST_CONTENTS};
pub use published::{published, Row};
pub use report::{compare, drain_name, Comparison, PerProcess, Report, SettledBy};
pub use time::{Series, Time};
