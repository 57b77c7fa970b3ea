//! The papers' figures, the form in which one stands beside a measured figure, and the basis of the latter.

mod basis;
mod caveat;
mod comparison;
mod figures;
mod name;

pub(crate) use basis::Run;
pub use basis::{Basis, Influences};
pub use caveat::Caveat;
pub use comparison::Comparison;
#[cfg(test)]
pub(crate) use figures::ROWS;
pub use figures::{published, Case, Row};
pub use name::{Figure, NoFigure, Side};
