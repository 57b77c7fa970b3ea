//! The findings that the tables and the page share: a summary row for each experiment, the checkers that watched, and
//! the note on another size.

mod checkers;
mod size;
mod summary;

pub(crate) use checkers::checkers;
pub(crate) use size::of_other_size;
pub(crate) use summary::{metric_name, rows, Row};
