//! The findings that the tables and the page share: a summary row for each experiment, and the note on another size.

mod size;
mod summary;

pub(crate) use size::of_other_size;
pub(crate) use summary::{metric_name, rows, Row};
