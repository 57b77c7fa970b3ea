//! The figures that the papers published.

mod comparison;
mod figures;

pub use comparison::Comparison;
pub use figures::{published, Row};
