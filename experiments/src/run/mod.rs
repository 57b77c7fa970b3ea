//! One run of an experiment: the plan that chooses machine, mechanism and size, its execution, and the report of what it
//! measured.

mod execute;
mod plan;
mod report;

pub use plan::{Plan, MOST_CONTENTS};
pub use report::{drain_name, Report, SettledBy};
