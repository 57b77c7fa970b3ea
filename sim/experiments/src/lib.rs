//! The papers' workloads, run on simulated machines like the papers' and compared with the published figures.
//!
//! An [`Experiment`] is a workload with its machines and mechanisms. A [`Plan`] is one run of it with one mechanism.
//! [`Plan::run`] returns a [`Report`], whose fields are those of the command line's JSON. [`compare()`] adds the
//! published figures.

mod catalogue;
mod compare;
mod experiment;
mod measurement;
mod names;
mod published;
mod repeats;
mod run;
mod select;
mod table;
mod workload_file;
mod workloads;

pub use catalogue::EXPERIMENTS;
pub use ceasefire::{Payment, Schedule};
pub use ceasefire_machine::config::{Linux, KERNELS};
pub use ceasefire_memory::LruDrain;
pub use compare::{compare, published_field, published_names};
pub use experiment::{Experiment, Mechanism, Overview, RunError, Sweep};
pub use measurement::{Atomic, Interval, Latency, PerProcess, Series, Time};
pub use names::{named, UnknownName, LRU_DRAINS, PAYMENTS};
pub use published::{published, Basis, Case, Caveat, Comparison, Figure, Influences, NoFigure, Row, Side};
pub use repeats::Repeats;
pub use run::{
    available_memory, caught, pool, Admitted, Host, Plan, Report, SettledBy, TraceFile, MOST_CONTENTS,
};
pub use select::{machine_file, with_values, SelectError};
pub use table::{columns, metrics, Cells, Column};
pub use workload_file::{Given, Written};
