//! The findings that the tables and the page share: a summary row for each experiment, and the fitted figures.

mod fitted;
mod size;
mod summary;

pub(crate) use fitted::{cell, fitted_of, fitted_rows, Basis};
pub(crate) use size::of_other_size;
pub(crate) use summary::{metric_name, rows, Row};
