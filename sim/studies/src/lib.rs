//! Studies: very many independent runs, described once.
//!
//! A [`Study`] is read from a file. It crosses lists of values, draws values from ranges, and gives every combination
//! as a [`Point`]: one run with one set of numbers. A point's name is the hash of all that determines its figures. So a
//! [`DataSet`] knows which points it has: a study goes on after any interruption, is extended without a run done
//! twice, and the data sets of two people merge. A run that fails is a row with its error.
//!
//! [`sweep()`] runs a study on threads of this computer. Other engines run points wherever they like, since a [`Row`]
//! can be sent as JSON, and put the rows into the data set.
//!
//! A [`fit`] solves for the numbers of a machine with which runs give published figures.

mod data_set;
mod draws;
pub mod fit;
mod indices;
mod join;
mod left;
mod parquet;
mod point;
mod progress;
mod row;
mod shell;
mod study;
mod threads;
mod uncertainty;

pub use data_set::{DataSet, DataSetError};
pub use draws::Draws;
pub use indices::{indices, Index, Indices};
pub use left::Left;
pub use parquet::to_parquet;
pub use point::Point;
pub use progress::Progress;
pub use row::{table, Row};
pub use shell::quoted;
pub use study::{Check, Method, Ranges, Study, MOST_POINTS};
pub use threads::{sweep, SweepError, Watch};
pub use uncertainty::{uncertain, Around, Drawn, Spread, Uncertain};
