//! One run of an experiment: the plan that chooses machine, mechanism and size, and the report of what it measured.

mod plan;
mod report;

pub use plan::{Plan, RunError, MOST_CONTENTS};
pub use report::{compare, drain_name, Comparison, PerProcess, Report, SettledBy};

pub(crate) use plan::{Finished, Started};
