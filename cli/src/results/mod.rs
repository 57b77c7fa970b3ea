//! The findings that the tables and the page share: a summary row for each experiment, the figures of all mechanisms
//! where nothing was published, the costs that outweigh saved interrupts, the conditions of the runs, the note on a
//! machine without published figures, what runs on drawn machines say, and the names of figures in which recordings
//! differ.

mod case;
mod conditions;
mod costs;
mod difference;
mod drawn;
mod own;
mod own_machine;
mod summary;

pub(crate) use case::{cases, distinction, Case};
pub(crate) use conditions::{conditions, listed, seeds};
pub(crate) use costs::costs;
pub(crate) use difference::{difference_name, difference_remarks};
pub(crate) use drawn::{Influence, Interval, Intervals, Number, Prediction, Sensitivity, Sure};
pub(crate) use own::{Mechanism, Own, Speed};
pub(crate) use own_machine::of_own_machine;
pub(crate) use summary::{metric_name, rows, Row};
