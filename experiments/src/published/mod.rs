//! The papers' figures, and the form in which one stands beside a measured figure.

mod comparison;
mod figures;

pub use comparison::Comparison;
pub use figures::{published, Row};
