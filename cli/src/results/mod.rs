//! The findings that the tables and the page share: a summary row for each experiment, the conditions of the runs, and
//! the note on a machine without published figures.

mod case;
mod conditions;
mod own_machine;
mod summary;

pub(crate) use case::{cases, distinction, place, Case};
pub(crate) use conditions::{conditions, seeds};
pub(crate) use own_machine::of_own_machine;
pub(crate) use summary::{metric_name, rows, Row};
