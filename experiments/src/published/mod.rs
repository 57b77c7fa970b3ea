//! The figures that the papers published.

mod figures;

pub use figures::{published, Row};

pub(crate) use figures::RELATIVE;
