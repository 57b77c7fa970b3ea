//! The findings that the tables and the page share: a summary row for each experiment, the conditions of the runs, and
//! the note on another size.

mod conditions;
mod size;
mod summary;

pub(crate) use conditions::conditions;
pub(crate) use size::of_other_size;
pub(crate) use summary::{metric_name, rows, Row};
