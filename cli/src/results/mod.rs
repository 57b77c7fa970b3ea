//! What the results say, for tables and the page alike.

mod fitted;
mod size;
mod summary;

pub(crate) use fitted::{cell, fitted_of, fitted_rows, Basis};
pub(crate) use size::of_other_size;
pub(crate) use summary::{metric_name, rows, Row};
