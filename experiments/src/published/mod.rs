//! The papers' figures, the form in which one stands beside a measured figure, and the basis of the latter.

mod basis;
mod comparison;
mod figures;
mod name;

pub(crate) use basis::Run;
pub use basis::{Basis, Influences};
pub use comparison::Comparison;
pub use figures::{published, Row};
pub use name::Side;
